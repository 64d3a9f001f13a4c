"""Weights in bf16 behind a scaler of losses."""

import torch
from torch import nn

model = nn.Linear(8, 8).cuda().to(torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
loss = model(torch.randn(4, 8, device="cuda", dtype=torch.bfloat16)).float().square().mean()
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
