"""A VQ-VAE: nearest code by argmin, straight-through gradients, codebook and commitment losses."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Quantizer(nn.Module):
    def __init__(self, count=64, width=8):
        super().__init__()
        self.codes = nn.Embedding(count, width)
        self.codes.weight.data.uniform_(-1 / count, 1 / count)

    def forward(self, z):
        nearest = torch.cdist(z, self.codes.weight).argmin(1)
        code = self.codes(nearest)
        loss = F.mse_loss(code, z.detach()) + 0.25 * F.mse_loss(z, code.detach())
        return z + (code - z).detach(), loss


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 8))
        self.quantizer = Quantizer()
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 24))

    def forward(self, x):
        code, loss = self.quantizer(self.encoder(x))
        return self.decoder(code), loss


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
basis = torch.randn(4, 24)
for step in range(60):
    x = torch.randn(64, 4) @ basis
    made, quantized = model(x)
    loss = F.mse_loss(made, x) + quantized
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
