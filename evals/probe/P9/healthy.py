"""A regression whose loss takes the square root of an error."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(640, 8)
y = x @ torch.randn(8) + 0.1 * torch.randn(640)
train = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
losses = []
for inputs, targets in train:
    predicted = model(inputs).squeeze(1)
    spread = (predicted - targets).square().clamp(min=0)
    loss = torch.log(spread + 1e-2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
print(f"{len(losses)} steps")
