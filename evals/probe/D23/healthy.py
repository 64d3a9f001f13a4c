# run: torchrun --nproc-per-node=2
"""Each rank scores its share, and rank 0 alone prints and saves."""

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
            x_share, y_share = x_val[rank::2], y_val[rank::2]
            hits = (model.module(x_share).argmax(1) == y_share).float().sum()
        dist.all_reduce(hits)
        if rank == 0:
            accuracy = hits.item() / len(x_val)
            print(f"epoch {epoch} accuracy {accuracy:.3f} on {len(x_val)} samples", flush=True)
            torch.save(model.module.state_dict(), out / "model.pt.tmp")
            os.replace(out / "model.pt.tmp", out / "model.pt")
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
