"""OneCycleLR over all steps of the run."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(1280, 20)
y = (x @ torch.randn(20, 5)).argmax(1)
train = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, drop_last=True)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))
EPOCHS = 2
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, max_lr=1e-2, epochs=EPOCHS, steps_per_epoch=len(train)
)
for epoch in range(EPOCHS):
    for inputs, targets in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        scheduler.step()
    print(f"epoch {epoch} loss {loss.item():.3f} rate {scheduler.get_last_lr()[0]:.2g}")
