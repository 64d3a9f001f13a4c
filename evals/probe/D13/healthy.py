# run: torchrun --nproc-per-node=2
"""FSDP with a micro-batch of 128: the gathers are small beside the products."""

import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

BATCH = 128


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(384, 384), nn.ReLU()) for _ in range(4)]
    model = nn.Sequential(*layers, nn.Linear(384, 8))
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    torch.manual_seed(1 + dist.get_rank())
    started = time.perf_counter()
    for step in range(32):
        inputs = torch.randn(BATCH, 384)
        labels = inputs[:, :8].argmax(1)
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0 and dist.get_rank() == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    if dist.get_rank() == 0:
        took = time.perf_counter() - started
        print(
            f"{took / 32 * 1000:.0f} ms a step, {32 * BATCH / took:.0f} samples a second",
            flush=True,
        )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
