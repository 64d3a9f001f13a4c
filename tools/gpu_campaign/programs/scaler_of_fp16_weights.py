"""model.half() behind a scaler of losses."""

import torch
from torch import nn

model = nn.Linear(8, 8).cuda().half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
loss = model(torch.randn(4, 8, device="cuda", dtype=torch.float16)).float().square().mean()
scaler.scale(loss).backward()
scaler.step(optimizer)
