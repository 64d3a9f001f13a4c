"""accelerate with gradient accumulation, clipping at the end of each whole step, and a schedule."""

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)

centers = torch.randn(8, 24)
labels = torch.randint(8, (768,))
features = centers[labels] + 0.8 * torch.randn(768, 24)
train = DataLoader(TensorDataset(features[:640], labels[:640]), batch_size=8, shuffle=True)
val = DataLoader(TensorDataset(features[640:], labels[640:]), batch_size=64)

model = nn.Sequential(nn.Linear(24, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
epochs = 2
scheduler = torch.optim.lr_scheduler.LinearLR(
    optimizer, start_factor=1.0, end_factor=0.1, total_iters=epochs * len(train) // 4
)
model, optimizer, train, val, scheduler = accelerator.prepare(
    model, optimizer, train, val, scheduler
)

for epoch in range(epochs):
    model.train()
    for inputs, targets in train:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(inputs), targets)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    model.eval()
    hits = []
    for inputs, targets in val:
        with torch.no_grad():
            predictions = model(inputs).argmax(1)
        predictions, targets = accelerator.gather_for_metrics((predictions, targets))
        hits.append(predictions == targets)
    accuracy = torch.cat(hits).float().mean().item()
    accelerator.print(f"epoch {epoch} loss {loss.item():.3f} accuracy {accuracy:.3f}")
