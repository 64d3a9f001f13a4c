"""LBFGS, which calls the model several times in a step."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-2, 2, 128).unsqueeze(1)
y = torch.sin(2 * x)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(32):
    loss = optimizer.step(closure)
print(f"loss {loss.item():.4f}")
