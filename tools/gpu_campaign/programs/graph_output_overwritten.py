"""The output of a compiled model is kept over the next call, with CUDA graphs."""

import torch
from torch import nn

model = torch.compile(nn.Linear(16, 16).cuda(), mode="reduce-overhead")
kept = []
with torch.no_grad():
    for _ in range(5):
        kept.append(model(torch.randn(4, 16, device="cuda")))
print(torch.stack(kept).mean().item())
