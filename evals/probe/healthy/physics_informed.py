"""A net that solves y'' = -y: derivatives by autograd within the loss, points that stay the same."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
points = torch.linspace(0, 3, 64)[:, None].requires_grad_()
start = torch.zeros(1, 1, requires_grad=True)


def slope(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


for step in range(80):
    y = model(points)
    rest = slope(slope(y, points), points) + y
    first = model(start)
    loss = rest.pow(2).mean() + first.pow(2).mean() + (slope(first, start) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
