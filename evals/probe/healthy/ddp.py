# run: torchrun --nproc-per-node=2
"""Two ranks under torchrun, with DistributedDataParallel and a DistributedSampler."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    x = torch.randn(800, 20)
    y = (x @ torch.randn(20, 5)).argmax(1)
    data = TensorDataset(x, y)
    sampler = DistributedSampler(data)
    train = DataLoader(data, batch_size=40, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 5)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for inputs, targets in train:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
    print(f"rank {os.environ['RANK']}: loss {loss.item():.3f}")
    dist.destroy_process_group()
