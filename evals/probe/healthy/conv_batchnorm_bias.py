"""Convolutions that keep their bias before batch norm, under SGD with momentum."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
labels = torch.randint(4, (640,))
images = torch.randn(640, 3, 12, 12) + labels[:, None, None, None] * torch.randn(3, 12, 12)
train = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    )


model = nn.Sequential(
    block(3, 16), block(16, 16), nn.MaxPool2d(2), block(16, 32), nn.AdaptiveAvgPool2d(1),
    nn.Flatten(), nn.Linear(32, 4),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
criterion = nn.CrossEntropyLoss()
for epoch in range(2):
    model.train()
    total = 0.0
    for inputs, targets in train:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(train):.3f}")
