# run: torchrun --nproc-per-node=2
"""Two ranks, a DistributedSampler that is told the epoch, scores summed over the ranks, rank 0 saves."""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(0)
    centers = 2 * torch.randn(4, 12, generator=generator)
    labels = torch.randint(4, (640,), generator=generator)
    features = centers[labels] + torch.randn(640, 12, generator=generator)
    train, val = TensorDataset(features[:512], labels[:512]), (features[512:], labels[512:])
    sampler = DistributedSampler(train, shuffle=True, seed=0, drop_last=True)
    loader = DataLoader(train, batch_size=32, sampler=sampler)

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
    torch.manual_seed(1 + rank)  # each rank drops other units
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    for epoch in range(5):
        sampler.set_epoch(epoch)
        model.train()
        for inputs, targets in loader:
            loss = F.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            x, y = (part[rank::world] for part in val)
            score = torch.stack(((net(x).argmax(1) == y).sum(), torch.tensor(len(y))))
        dist.all_reduce(score)
        if rank == 0:
            print(
                f"epoch {epoch} loss {loss.item():.3f} accuracy {score[0] / score[1]:.3f}",
                flush=True,
            )

    if rank == 0:
        with tempfile.TemporaryDirectory() as out:
            path = os.path.join(out, "model.pt")
            torch.save(
                {"model": net.state_dict(), "optimizer": optimizer.state_dict()}, path + ".tmp"
            )
            os.replace(path + ".tmp", path)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
