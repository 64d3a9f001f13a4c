"""A frozen backbone whose norms stay in eval(), and a new head that alone trains."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
        )

    def forward(self, x):
        return self.layers(x).mean((2, 3))


class FineTuned(nn.Module):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone = backbone.requires_grad_(False)
        self.head = nn.Linear(32, classes)

    def train(self, mode=True):
        """The backbone's batch norm keeps the statistics with which it was trained."""
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            features = self.backbone(x)
        return self.head(features)


def textures(count):
    labels = torch.randint(3, (count,))
    row, column = torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij")
    kinds = torch.stack((row % 2, column % 2, (row + column) % 2)).float() * 2 - 1
    return TensorDataset(kinds[labels][:, None] + 0.3 * torch.randn(count, 1, 8, 8), labels)


backbone = Backbone()
for module in backbone.modules():
    if isinstance(module, nn.BatchNorm2d):  # as the original training left them
        module.running_mean.normal_(0, 0.1)
        module.running_var.uniform_(0.5, 1.5)
model = FineTuned(backbone, classes=3)
optimizer = torch.optim.AdamW(model.head.parameters(), lr=3e-2)
train, val = DataLoader(textures(320), batch_size=32, shuffle=True), DataLoader(textures(96), 96)
for epoch in range(5):
    model.train()
    for images, labels in train:
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = torch.cat([model(x).argmax(1) == y for x, y in val]).float().mean().item()
    print(f"epoch {epoch} loss {loss.item():.3f} accuracy {accuracy:.3f}")
