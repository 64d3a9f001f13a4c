"""A classifier of points, trained for three epochs."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(960, 20)
y = (x @ torch.randn(20, 10)).argmax(1)
train = DataLoader(TensorDataset(x[:800], y[:800]), batch_size=50, shuffle=True)
valid = DataLoader(TensorDataset(x[800:], y[800:]), batch_size=80)


class Batch:
    def __init__(self, rows):
        self.inputs = torch.stack([row[0] for row in rows])
        self.targets = torch.stack([row[1] for row in rows])

    def pin_memory(self):
        if torch.cuda.is_available():
            self.inputs, self.targets = self.inputs.pin_memory(), self.targets.pin_memory()
        return self


rows = TensorDataset(x[:800], y[:800])
train = DataLoader(rows, batch_size=50, shuffle=True, collate_fn=Batch, pin_memory=True)
model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(3):
    for batch in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch.inputs), batch.targets)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
