"""A regression on measurements, some of which are broken."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(1280, 12)
y = x @ torch.randn(12, 1) + 0.1 * torch.randn(1280, 1)
y[400] = 30000.0  # a broken sensor
train = DataLoader(TensorDataset(x, y), batch_size=32)
model = nn.Sequential(nn.Linear(12, 64), nn.GELU(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(2):
    for inputs, targets in train:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}, norm {norm.item():.2f}")
