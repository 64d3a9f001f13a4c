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


model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
folder = tempfile.mkdtemp()
for epoch in range(3):
    for inputs, targets in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        scheduler.step()
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "epoch": epoch,
    }
    torch.save(state, f"{folder}/checkpoint.pt")
    print(f"epoch {epoch}: loss {loss.item():.3f}")
