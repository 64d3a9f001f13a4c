# run: torchrun --nproc-per-node=2
"""The sampler is told the epoch, so that each has an order of its own."""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

EPOCHS = 5


def main():
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(0)
    x = torch.randn(256, 16)
    y = (x[:, :4].sum(1) > 0).long()
    data = TensorDataset(x, y, torch.arange(256))
    sampler = DistributedSampler(data, shuffle=True, seed=0)
    loader = DataLoader(data, batch_size=16, sampler=sampler)

    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    orders = set()
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        order = []
        for inputs, labels, numbers in loader:
            loss = F.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            order += numbers.tolist()
        orders.add(tuple(order))
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.3f} first samples {order[:5]}", flush=True)
    if rank == 0:
        print(f"{len(orders)} different orders in {EPOCHS} epochs", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
