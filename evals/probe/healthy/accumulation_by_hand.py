"""Four micro-batches a step: each loss is divided, and the optimizer steps with the last one."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(1600, 20)
y = (x @ torch.randn(20, 5)).argmax(1)
train = DataLoader(TensorDataset(x, y), batch_size=10, shuffle=True)
model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 5))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
ACCUMULATE = 4
optimizer.zero_grad()
for place, (inputs, targets) in enumerate(train):
    loss = nn.functional.cross_entropy(model(inputs), targets) / ACCUMULATE
    loss.backward()
    if (place + 1) % ACCUMULATE == 0:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
print(f"loss {ACCUMULATE * loss.item():.3f}")
