"""The head learns first; after 15 steps the body is unfrozen and joins as a group of its own."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(800, 20)
y = (x @ torch.randn(20, 5)).argmax(1)
body = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
model = nn.Sequential(body, nn.Linear(64, 5))
body.requires_grad_(False)
optimizer = torch.optim.AdamW(model[1].parameters(), lr=3e-3)
for step in range(60):
    if step == 15:
        body.requires_grad_(True)
        optimizer.add_param_group({"params": body.parameters(), "lr": 3e-4})
    rows = torch.randint(800, (40,))
    loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
