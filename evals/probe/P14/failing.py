"""A regression with a relative error as its loss."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(1280, 12)
y = (x @ torch.randn(12, 1)).abs() + 0.5
x[333] = 0.0
train = DataLoader(TensorDataset(x, y), batch_size=32)
model = nn.Sequential(nn.Linear(12, 64, bias=False), nn.GELU(), nn.Linear(64, 1, bias=False))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(2):
    for inputs, targets in train:
        optimizer.zero_grad()
        size = model(inputs).abs().sqrt()
        loss = nn.functional.mse_loss(size, targets.sqrt())
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
