"""Lightning Fabric sets up model, optimizer and loader; the loop is one's own."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

fabric = L.Fabric(accelerator="cpu", devices=1)
fabric.seed_everything(0, verbose=False)
x = torch.randn(1280, 20)
y = (x @ torch.randn(20, 5)).argmax(1)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
model, optimizer = fabric.setup(model, optimizer)
train = fabric.setup_dataloaders(DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
model.train()
for inputs, targets in train:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), targets)
    fabric.backward(loss)
    fabric.clip_gradients(model, optimizer, max_norm=1.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
