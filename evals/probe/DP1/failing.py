"""Images with random crops and noise, loaded by two workers."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    def __init__(self, count=480):
        rng = np.random.default_rng(0)
        self.images = rng.normal(size=(count, 3, 20, 20)).astype(np.float32)
        self.labels = rng.integers(0, 4, count)
        self.images[:, 0] += self.labels[:, None, None] * 0.4
        self.rng = np.random.default_rng(1)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        top, left = self.rng.integers(0, 5, 2)
        crop = self.images[i, :, top : top + 16, left : left + 16]
        noise = self.rng.normal(size=crop.shape).astype(np.float32)
        return torch.from_numpy(crop + 0.1 * noise), int(self.labels[i])


if __name__ == "__main__":
    torch.manual_seed(0)
    train = DataLoader(Crops(), batch_size=24, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(392, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(2):
        for inputs, targets in train:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")
