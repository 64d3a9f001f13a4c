"""A stream of samples, read by two workers."""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        for i in range(1600):
            x = torch.sin(torch.arange(8) * (i + 1) * 0.37)
            yield x, (x.sum() > 0).long()


if __name__ == "__main__":
    torch.manual_seed(0)
    train = DataLoader(Stream(), batch_size=40, num_workers=2)
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for inputs, targets in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")
