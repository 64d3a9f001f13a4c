"""Two ranks that both take card 0, as without set_device."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29532", RANK=str(rank), WORLD_SIZE="2")
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    dist.all_reduce(torch.ones(4, device="cuda"))


if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
