"""A loss is read with .item() while a CUDA graph is captured."""

import torch
from torch import nn

model = nn.Linear(16, 16).cuda()
x = torch.randn(4, 16, device="cuda")
model(x).sum().backward()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = model(x).square().mean()
    print(loss.item())
