"""A linear probe: only the head is in the optimizer, the frozen features run without gradients."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(640, 20)
y = (x @ torch.randn(20, 4)).argmax(1)
train = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
features = nn.Sequential(nn.Linear(20, 64), nn.LayerNorm(64), nn.Dropout(0.1), nn.GELU())
features.requires_grad_(False).eval()
head = nn.Linear(64, 4)
optimizer = torch.optim.AdamW(head.parameters(), lr=1e-2)
for epoch in range(2):
    total = 0.0
    for inputs, targets in train:
        with torch.no_grad():
            hidden = features(inputs)
        loss = nn.functional.cross_entropy(head(hidden), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: loss {total / len(train):.3f}")
