"""A batch that was never moved to the card of the convolution."""

import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).cuda()
model(torch.randn(2, 3, 16, 16))
