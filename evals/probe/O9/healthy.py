"""A classifier of points, trained for three epochs."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(960, 20)
y = (x @ torch.randn(20, 10)).argmax(1)
train = DataLoader(TensorDataset(x[:800], y[:800]), batch_size=50, shuffle=True)
valid = DataLoader(TensorDataset(x[800:], y[800:]), batch_size=80)


ACCUMULATE = 4
model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(9):
    total = 0.0
    for i, (inputs, targets) in enumerate(train):
        loss = nn.functional.cross_entropy(model(inputs), targets)
        total += loss.item()
        loss = loss / ACCUMULATE
        loss.backward()
        if (i + 1) % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
    print(f"epoch {epoch}: loss {total / len(train):.3f}")
