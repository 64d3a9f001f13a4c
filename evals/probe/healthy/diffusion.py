"""Predicting the noise of a diffusion process, with embedded time and an EMA of the weights."""

import copy
import math

import torch
from torch import nn

torch.manual_seed(0)
STEPS = 100
alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.1, STEPS), 0)


def time_embedding(t, width=32):
    frequencies = torch.exp(-math.log(1000) * torch.arange(width // 2) / (width // 2))
    angle = t[:, None] * frequencies
    return torch.cat((angle.sin(), angle.cos()), 1)


class Denoiser(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, width), nn.SiLU(), nn.Linear(width, width))
        self.entry, self.middle, self.out = (
            nn.Linear(2, width),
            nn.Linear(width, width),
            nn.Linear(width, 2),
        )
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x, t):
        hidden = nn.functional.silu(self.entry(x) + self.time(time_embedding(t)))
        return self.out(nn.functional.silu(self.middle(hidden)))


model = Denoiser()
ema = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(60):
    angle = 6.28 * torch.rand(128)
    x = torch.stack((angle.cos(), angle.sin()), 1)
    t, noise = torch.randint(STEPS, (128,)), torch.randn(128, 2)
    noisy = alphas[t, None].sqrt() * x + (1 - alphas[t, None]).sqrt() * noise
    loss = nn.functional.mse_loss(model(noisy, t.float()), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(ema.parameters(), model.parameters()):
            slow.lerp_(fast, 0.05)
print(f"loss {loss.item():.3f}")
