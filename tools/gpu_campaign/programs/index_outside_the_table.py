"""A token id behind the end of the embedding table."""

import torch
from torch import nn

table = nn.Embedding(100, 16).cuda()
ids = torch.tensor([[1, 2, 100]], device="cuda")
loss = table(ids).sum()
loss.backward()
print(loss.item())
