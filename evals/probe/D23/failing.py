# run: torchrun --nproc-per-node=2
"""Both ranks score the whole validation set and write the same checkpoint, at the same moment."""

import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    name = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(name, src=0)
    out = Path(name[0])

    torch.manual_seed(0)
    x = torch.randn(320, 16)
    y = (x[:, :4].sum(1) > 0).long()
    data = TensorDataset(x[:256], y[:256])
    sampler = DistributedSampler(data, seed=0)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    x_val, y_val = x[256:], y[256:]
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    saves = torch.zeros(1)
    for epoch in range(5):
        sampler.set_epoch(epoch)
        model.train()
        for inputs, labels in loader:
            loss = F.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            hits = (model.module(x_val).argmax(1) == y_val).float().mean()
        print(f"epoch {epoch} accuracy {hits.item():.3f} on {len(x_val)} samples", flush=True)
        torch.save(model.module.state_dict(), out / "model.pt")
        saves += 1
        dist.barrier()

    dist.all_reduce(saves)
    if rank == 0:
        print(f"the checkpoint was written {saves.item():.0f} times in 5 epochs", flush=True)
        for path in out.iterdir():
            os.remove(path)
        out.rmdir()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
