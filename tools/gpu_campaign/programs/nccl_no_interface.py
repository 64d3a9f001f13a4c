"""NCCL is told to use an interface that this machine doesn't have."""

import os

import torch
import torch.distributed as dist

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533", RANK="0", WORLD_SIZE="1")
torch.cuda.set_device(0)
dist.init_process_group("nccl")
dist.all_reduce(torch.ones(4, device="cuda"))
