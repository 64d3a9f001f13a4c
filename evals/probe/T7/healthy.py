"""Eight workers: no step waits for its batch."""

import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
STEP = 0.06


class Videos(Dataset):
    """A sample is a batch of clips, already cut; decoding takes its time."""

    def __len__(self):
        return 36

    def __getitem__(self, index):
        time.sleep(5 * STEP)
        generator = torch.Generator().manual_seed(index)
        labels = torch.randint(4, (16,), generator=generator)
        clips = torch.randn(16, 32, generator=generator)
        clips[range(16), labels] += 3
        return clips, labels


loader = DataLoader(Videos(), batch_size=None, shuffle=True, num_workers=8)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
waits, asked = [], time.perf_counter()
for step, (clips, labels) in enumerate(loader):
    started = time.perf_counter()
    waits.append(started - asked)
    loss = F.cross_entropy(model(clips), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(max(0.0, started + STEP - time.perf_counter()))  # as long as the real network takes
    if step % 6 == 0:
        print(f"step {step} loss {loss.item():.3f} waited {waits[-1]:.3f} s")
    asked = time.perf_counter()

late = [wait > STEP for wait in waits[9:]]
print(f"{sum(late)} of {len(late)} steps waited, {sum(waits[9:]):.2f} s in all")
