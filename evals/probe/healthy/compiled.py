"""A model compiled by torch.compile, in a plain training loop."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(512, 20)
y = (x @ torch.randn(20, 5)).argmax(1)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
compiled = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(36):
    rows = torch.randint(0, 512, (64,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(compiled(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
