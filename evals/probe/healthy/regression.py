"""Regression on a table: inputs and targets scaled by the training rows, shapes equal, Huber loss."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
area = 40 + 120 * torch.rand(700)
rooms = torch.randint(1, 7, (700,)).float()
year = torch.randint(1950, 2024, (700,)).float()
price = 3000 * area + 15000 * rooms + 800 * (year - 1950) + 20000 * torch.randn(700)
table = torch.stack((area, rooms, year), 1)

x_mean, x_std = table[:560].mean(0), table[:560].std(0)
y_mean, y_std = price[:560].mean(), price[:560].std()
x = (table - x_mean) / x_std
y = ((price - y_mean) / y_std).unsqueeze(1)
train = DataLoader(TensorDataset(x[:560], y[:560]), batch_size=40, shuffle=True)
val_x, val_y = x[560:], y[560:]

model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-3)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
for epoch in range(6):
    model.train()
    for inputs, targets in train:
        predictions = model(inputs)
        assert predictions.shape == targets.shape
        loss = nn.functional.huber_loss(predictions, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        predictions = model(val_x)
        val_loss = nn.functional.huber_loss(predictions, val_y).item()
        error = (predictions - val_y).abs().mean().item() * y_std.item()
    plateau.step(val_loss)
    print(f"epoch {epoch} loss {loss.item():.4f} val {val_loss:.4f} error {error:.0f}")
