"""A classifier of points, trained for three epochs."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(960, 20)
y = (x @ torch.randn(20, 10)).argmax(1)
train = DataLoader(TensorDataset(x[:800], y[:800]), batch_size=50, shuffle=True)
valid = DataLoader(TensorDataset(x[800:], y[800:]), batch_size=80)


model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for epoch in range(3):
    for inputs, targets in train:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(inputs).float(), targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
