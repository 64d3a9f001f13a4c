"""Regression with predictions and targets of one shape."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(320, 8)
y = x @ torch.randn(8) + 0.1 * torch.randn(320)
train = DataLoader(TensorDataset(x[:256], y[:256]), batch_size=32, shuffle=True)

model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

for epoch in range(8):
    total = 0.0
    for inputs, targets in train:
        predictions = model(inputs).squeeze(-1)
        loss = ((predictions - targets) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(train):.3f}")

with torch.no_grad():
    errors = model(x[256:]).flatten() - y[256:]
print(f"R2 {1 - errors.square().mean().item() / y[256:].var().item():.3f}")
