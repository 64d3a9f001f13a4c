"""A student that learns from a moving average of itself, without a data loader."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 8))
teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
for step in range(40):
    x = torch.randn(64, 16)
    with torch.no_grad():
        target = teacher(x + 0.1 * torch.randn_like(x)).softmax(-1)
    loss = nn.functional.cross_entropy(student(x + 0.1 * torch.randn_like(x)), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for average, parameter in zip(teacher.parameters(), student.parameters(), strict=True):
            average.lerp_(parameter, 0.05)
print(f"loss {loss.item():.3f}")
