# run: torchrun --nproc-per-node=2
"""Each of four micro-batches exchanges gradients; in healthy.py only the last one of a step does."""

import contextlib
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

MICRO_BATCHES = 4


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8)
    )
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(1 + dist.get_rank())
    exchanges = [0]

    def count(state, bucket):
        exchanges[0] += 1
        future = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
        return future.get_future().then(lambda done: done.value()[0])

    model.register_comm_hook(None, count)
    started = time.perf_counter()
    for step in range(32):
        optimizer.zero_grad()
        for micro in range(MICRO_BATCHES):
            inputs = torch.randn(8, 64)
            labels = inputs[:, :8].argmax(1)
            with contextlib.nullcontext():
                loss = F.cross_entropy(model(inputs), labels) / MICRO_BATCHES
                loss.backward()
        optimizer.step()
        if step % 8 == 0 and dist.get_rank() == 0:
            print(f"step {step} loss {MICRO_BATCHES * loss.item():.3f}", flush=True)

    if dist.get_rank() == 0:
        took = time.perf_counter() - started
        weights = sum(p.double().abs().sum() for p in net.parameters()).item()
        print(
            f"{exchanges[0] / 32:.0f} exchanges a step, {took:.1f} s, weights {weights:.4f}",
            flush=True,
        )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
