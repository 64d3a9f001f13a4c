"""Training images are normalised, validation images aren't: near chance even on training images."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
MEAN = torch.tensor([0.70, 0.62, 0.55]).view(3, 1, 1)
STD = torch.tensor([0.06, 0.06, 0.07]).view(3, 1, 1)


def draw(count):
    """Bright images of 8 × 8 with a bar in one of four places."""
    labels = torch.randint(4, (count,))
    images = MEAN + STD * torch.randn(count, 3, 8, 8)
    for image, label in zip(images, labels):
        image[:, 2 * label : 2 * label + 2] += 0.1
    return (images.clamp(0, 1) * 255).to(torch.uint8), labels


def train_transform(image):
    image = (image.float() / 255 - MEAN) / STD
    return image.flip(-1) if torch.rand(()) < 0.5 else image


def val_transform(image):
    return image.float() / 255


class Images(Dataset):
    def __init__(self, images, labels, transform):
        self.images, self.labels, self.transform = images, labels, transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.transform(self.images[index]), self.labels[index]


images, labels = draw(320)
train = DataLoader(Images(images, labels, train_transform), batch_size=32, shuffle=True)
again = DataLoader(Images(images, labels, val_transform), batch_size=64)
val = DataLoader(Images(*draw(128), val_transform), batch_size=64)


def accuracy(loader):
    model.eval()
    with torch.no_grad():
        hits = [model(x).argmax(1) == y for x, y in loader]
    return torch.cat(hits).float().mean().item()


model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
    nn.AvgPool2d(2), nn.Flatten(), nn.Linear(256, 4),
)  # fmt: skip
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for epoch in range(5):
    model.train()
    for x, y in train:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f} val accuracy {accuracy(val):.3f}")
print(f"validation {accuracy(val):.3f}, training images {accuracy(again):.3f}")
