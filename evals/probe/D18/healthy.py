# run: torchrun --nproc-per-node=2
"""DeepSpeed with four micro-batches a step."""

import deepspeed
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else it compiles one
ACCUMULATION = 4
config = {
    "train_micro_batch_size_per_gpu": 8,
    "gradient_accumulation_steps": ACCUMULATION,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 1, "overlap_comm": False},
    "steps_per_print": 1_000_000,
}


def main():
    deepspeed.init_distributed(dist_backend="gloo")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
    engine, _, _, _ = deepspeed.initialize(
        model=net, model_parameters=net.parameters(), config=config
    )
    torch.manual_seed(1 + dist.get_rank())
    micro = 0
    while engine.global_steps < 32:
        inputs = torch.randn(8, 32)
        labels = inputs[:, :4].argmax(1)
        loss = F.cross_entropy(engine(inputs.bfloat16()).float(), labels)
        engine.backward(loss)
        micro += 1
        engine.step()
    if dist.get_rank() == 0:
        print(f"{engine.global_steps} updates, loss {loss.item():.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
