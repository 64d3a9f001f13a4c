"""transformers' Adafactor with its own relative steps: the groups have lr=None."""

import torch
from torch import nn
from transformers import Adafactor

torch.manual_seed(0)
x = torch.randn(800, 20)
y = (x @ torch.randn(20, 5)).argmax(1)
model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 5))
optimizer = Adafactor(
    model.parameters(), scale_parameter=True, relative_step=True, warmup_init=True, lr=None
)
for step in range(60):
    rows = torch.randint(800, (40,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
