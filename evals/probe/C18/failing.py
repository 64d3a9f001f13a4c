"""A classifier of points, trained for three epochs."""

import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(960, 20)
y = (x @ torch.randn(20, 10)).argmax(1)
train = DataLoader(TensorDataset(x[:800], y[:800]), batch_size=50, shuffle=True)
valid = DataLoader(TensorDataset(x[800:], y[800:]), batch_size=80)


def build():
    return nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 10))


# A checkpoint that a job under DistributedDataParallel wrote.
path = f"{tempfile.mkdtemp()}/ddp.pt"
torch.save({"module." + name: value for name, value in build().state_dict().items()}, path)

model = build()
state = torch.load(path)
model.load_state_dict(state, strict=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(3):
    for inputs, targets in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
