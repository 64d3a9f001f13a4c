"""The objects of the set-up are frozen, so that a collection takes no time."""

import gc
import time

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
captions = [{"id": i, "words": [i % 97, i % 89], "from": {"page": i % 31}} for i in range(120_000)]

model = nn.Sequential(nn.EmbeddingBag(128, 32), nn.Linear(32, 31))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
times = []
gc.collect()
gc.freeze()
for step in range(40):
    started = time.perf_counter()
    rows = torch.randint(len(captions), (64,)).tolist()
    words = torch.tensor([captions[row]["words"] for row in rows])
    pages = torch.tensor([captions[row]["from"]["page"] for row in rows])
    loss = F.cross_entropy(model(words), pages)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 == 3:
        gc.collect()  # cycles hold tensors
    times.append(time.perf_counter() - started)
    if step % 8 == 0:
        print(f"step {step} loss {loss.item():.3f} {times[-1]:.3f} s")

even, odd = sorted(times[2::4])[5], sorted(times[3::4])[5]
print(f"a step takes {1000 * even:.1f} ms, one with a collection {1000 * odd:.1f} ms")
