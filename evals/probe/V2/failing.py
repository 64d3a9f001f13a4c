"""A classifier with random shifts of its training images, validated after each epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset


class Pictures(Dataset):
    def __init__(self, shift):
        generator = torch.Generator().manual_seed(0)
        self.labels = torch.randint(0, 4, (480,), generator=generator)
        self.images = torch.randn(480, 1, 12, 12, generator=generator)
        self.images += self.labels.view(-1, 1, 1, 1) * 0.3
        self.shift = shift

    def __len__(self):
        return 480

    def __getitem__(self, i):
        image = self.images[i]
        if self.shift:
            image = torch.roll(image, int(torch.randint(-2, 3, (1,))), dims=-1)
        return image, self.labels[i]


torch.manual_seed(0)
data = Pictures(shift=True)
train = DataLoader(Subset(data, range(400)), batch_size=40, shuffle=True)
valid = DataLoader(Subset(data, range(400, 480)), batch_size=40)
model = nn.Sequential(
    nn.Flatten(), nn.Linear(144, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 4)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(4):
    model.train()
    for inputs, targets in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
    model.eval()
    right = 0
    with torch.no_grad():
        for inputs, targets in valid:
            right += (model(inputs).argmax(1) == targets).sum().item()
    print(f"epoch {epoch}: accuracy {right / 80:.3f}")
