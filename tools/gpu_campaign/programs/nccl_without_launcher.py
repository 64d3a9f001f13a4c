"""A script for torchrun, started with python."""

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
dist.all_reduce(torch.ones(4, device="cuda"))
