"""Many short epochs over data that each worker has to open first."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Archive(Dataset):
    def __init__(self):
        self.opened = False

    def __len__(self):
        return 200

    def __getitem__(self, i):
        if not self.opened:
            time.sleep(0.3)  # opening the archive
            self.opened = True
        x = torch.randn(20, generator=torch.Generator().manual_seed(i))
        return x, (x.sum() > 0).long()


if __name__ == "__main__":
    torch.manual_seed(0)
    train = DataLoader(
        Archive(), batch_size=40, shuffle=True, num_workers=2, persistent_workers=True
    )
    model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(7):
        for inputs, targets in train:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")
