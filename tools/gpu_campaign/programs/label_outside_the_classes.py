"""A label that the head has no class for."""

import torch
from torch import nn

head = nn.Linear(8, 10).cuda()
labels = torch.tensor([1, 2, 10, 3], device="cuda")
loss = nn.functional.cross_entropy(head(torch.randn(4, 8, device="cuda")), labels)
loss.backward()
print(loss.item())
