# run: torchrun --nproc-per-node=2
"""ZeRO stage 1: gradients are reduced once a step, weights stay whole."""

import time

import deepspeed
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

STAGE = 1
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else it compiles one

config = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 4,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    "bf16": {"enabled": True},
    "zero_optimization": {
        "stage": STAGE,
        "overlap_comm": False,
        "stage3_param_persistence_threshold": 0,
    },
    "steps_per_print": 1_000_000,
}


def main():
    deepspeed.init_distributed(dist_backend="gloo")
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)
    )
    engine, _, _, _ = deepspeed.initialize(
        model=net, model_parameters=net.parameters(), config=config
    )
    torch.manual_seed(1 + dist.get_rank())
    started = time.perf_counter()
    for micro in range(4 * 32):
        inputs = torch.randn(4, 32)
        labels = inputs[:, :4].argmax(1)
        loss = F.cross_entropy(engine(inputs.bfloat16()).float(), labels)
        engine.backward(loss)
        engine.step()
        if micro % 32 == 0 and dist.get_rank() == 0:
            print(f"step {micro // 4} loss {loss.item():.3f}", flush=True)
    if dist.get_rank() == 0:
        print(f"{1000 * (time.perf_counter() - started) / 32:.0f} ms a step", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
