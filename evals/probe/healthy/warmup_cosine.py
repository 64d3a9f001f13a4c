"""Linear warm-up from a rate of zero, then a cosine, stepped after each optimizer step."""

import math

import torch
from torch import nn

torch.manual_seed(0)
WARMUP, STEPS = 20, 100


def factor(step):
    if step < WARMUP:
        return step / WARMUP
    return 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


x = torch.randn(800, 20)
y = (x @ torch.randn(20, 5)).argmax(1)
model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 5))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
for step in range(STEPS):
    rows = torch.randint(800, (40,))
    loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
print(f"loss {loss.item():.3f}, rate {scheduler.get_last_lr()[0]:.2g}")
