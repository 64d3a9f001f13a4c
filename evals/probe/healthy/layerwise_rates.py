"""Each layer has a group of its own, whose rate falls towards the input; norms and biases have no decay."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(800, 20)
y = (x @ torch.randn(20, 5)).argmax(1)
layers = [
    nn.Sequential(nn.Linear(20 if i == 0 else 64, 64), nn.LayerNorm(64), nn.GELU())
    for i in range(4)
]
model = nn.Sequential(*layers, nn.Linear(64, 5))
groups = []
for depth, layer in enumerate(model):
    rate = 2e-3 * 0.7 ** (len(model) - 1 - depth)
    decay = [p for p in layer.parameters() if p.dim() > 1]
    rest = [p for p in layer.parameters() if p.dim() <= 1]
    groups += [{"params": decay, "lr": rate}, {"params": rest, "lr": rate, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=2e-3, weight_decay=0.05)
for step in range(60):
    rows = torch.randint(800, (40,))
    loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
