"""Images with augmentation, a network with batch norm, a cosine schedule, validation after each epoch."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
MEAN = torch.tensor([0.5, 0.5, 0.5]).view(3, 1, 1)
STD = torch.tensor([0.25, 0.25, 0.25]).view(3, 1, 1)


class Shapes(Dataset):
    """Squares, bars and crosses of 12 × 12 on noise, as bytes."""

    def __init__(self, count, seed, train):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(3, (count,), generator=generator)
        self.images = torch.randint(40, 200, (count, 3, 12, 12), generator=generator).to(
            torch.uint8
        )
        for image, label in zip(self.images, self.labels):
            if label == 0:
                image[:, 3:9, 3:9] = 250
            elif label == 1:
                image[:, 5:7] = 250
            else:
                image[:, 5:7] = 250
                image[:, :, 5:7] = 250
        self.train = train

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = (self.images[index].float() / 255 - MEAN) / STD
        if self.train:
            if torch.rand(()) < 0.5:
                image = image.flip(-1)
            top, left = torch.randint(0, 3, (2,)).tolist()
            image = F.pad(image, (1, 1, 1, 1), mode="reflect")[:, top : top + 12, left : left + 12]
        return image, self.labels[index]


class Net(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(2),
        )
        self.classifier = nn.Linear(128, classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


EPOCHS = 5
train = DataLoader(Shapes(320, 1, train=True), batch_size=32, shuffle=True, drop_last=True)
val = DataLoader(Shapes(96, 2, train=False), batch_size=64)
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS * len(train))

for epoch in range(EPOCHS):
    model.train()
    total = 0.0
    for images, labels in train:
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.item()
    model.eval()
    hits = seen = 0
    with torch.no_grad():
        for images, labels in val:
            hits += (model(images).argmax(1) == labels).sum().item()
            seen += len(labels)
    print(f"epoch {epoch} loss {total / len(train):.3f} accuracy {hits / seen:.3f}")
