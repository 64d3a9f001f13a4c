"""A batch too large for the card, met in the middle of training."""

import torch
from torch import nn

free, total = torch.cuda.mem_get_info()
width = 1024
model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(4))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
batch = free // (4 * width) // 12  # each layer keeps two batches of this width
for step in range(20):
    x = torch.randn(batch, width, device="cuda")
    for layer in model:
        x = nn.functional.gelu(layer(x))
    loss = x.square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    batch = batch * 5 // 4
