"""A classifier of points, trained for three epochs."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(960, 20)
y = (x @ torch.randn(20, 10)).argmax(1)
train = DataLoader(TensorDataset(x[:800], y[:800]), batch_size=50, shuffle=True)
valid = DataLoader(TensorDataset(x[800:], y[800:]), batch_size=80)


EPOCHS, ACCUMULATE = 6, 2
model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
steps = EPOCHS * len(train) // ACCUMULATE
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps + 1)
for epoch in range(EPOCHS):
    for i, (inputs, targets) in enumerate(train):
        loss = nn.functional.cross_entropy(model(inputs), targets) / ACCUMULATE
        loss.backward()
        if (i + 1) % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}, rate {scheduler.get_last_lr()[0]:.2e}")
