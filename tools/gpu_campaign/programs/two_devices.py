"""The model is on the card, and a tensor that forward makes isn't."""

import torch
from torch import nn


class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.shift = torch.zeros(8)  # no buffer, so .cuda() leaves it behind

    def forward(self, x):
        return self.layer(x) + self.shift


model = Shifted().cuda()
model(torch.randn(2, 8, device="cuda"))
