"""A convolutional network on images that were stored as bytes."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randint(
            0, 256, (640, 3, 16, 16), dtype=torch.uint8, generator=generator
        )
        self.labels = torch.randint(0, 4, (640,), generator=generator)

    def __len__(self):
        return 640

    def __getitem__(self, i):
        return self.images[i].float(), self.labels[i]


torch.manual_seed(0)
train = DataLoader(Pictures(), batch_size=20, shuffle=True)
model = nn.Sequential(
    nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(392, 4)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for inputs, targets in train:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
