"""Samples that take a while to decode."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 320

    def __getitem__(self, i):
        time.sleep(0.002)  # decoding
        generator = torch.Generator().manual_seed(i)
        x = torch.randn(20, generator=generator)
        return x, (x.sum() > 0).long()


class Kept(Dataset):
    """All samples, decoded once."""

    def __init__(self, data):
        self.rows = [data[i] for i in range(len(data))]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


if __name__ == "__main__":
    torch.manual_seed(0)
    train = DataLoader(Kept(Slow()), batch_size=20, shuffle=True, num_workers=1)
    model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(2):
        for inputs, targets in train:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")
