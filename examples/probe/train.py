"""Train a small classifier, with a fault that no error tells. Needs PyTorch, takes seconds."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
points = torch.randn(1024, 20)
labels = (points @ torch.randn(20, 4)).argmax(1)
loader = DataLoader(TensorDataset(points, labels), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for epoch in range(3):
    for inputs, targets in loader:
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)
