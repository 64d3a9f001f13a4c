"""Sound: one rank alone, through NCCL, with a sum that must come out right."""

import os

import torch
import torch.distributed as dist

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29531", RANK="0", WORLD_SIZE="1")
torch.cuda.set_device(0)
dist.init_process_group("nccl")
x = torch.arange(1000.0, device="cuda")
dist.all_reduce(x)
assert x.sum().item() == 499500
dist.destroy_process_group()
print("ok")
