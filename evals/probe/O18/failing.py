"""A small image classifier on frozen features."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
images = torch.randn(512, 3, 16, 16)
labels = torch.randint(0, 5, (512,))
images[:, 0] += labels.view(-1, 1, 1) * 0.3
train = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, padding=1, stride=2),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(16, 5))
        self.backbone.requires_grad_(False)

    def forward(self, x):
        return self.head(self.backbone(x))


model = Classifier()
optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-2)
for epoch in range(3):
    model.train()
    for inputs, targets in train:
        loss = nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
