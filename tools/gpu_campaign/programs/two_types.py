"""A model in fp16 gets a batch in fp32, outside autocast."""

import torch
from torch import nn

nn.Linear(8, 8).cuda().half()(torch.randn(2, 8, device="cuda"))
