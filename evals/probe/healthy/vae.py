"""A variational autoencoder: reconstruction summed over pixels, divergence over dimensions, warmed up."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
row, column = torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij")
centers = 2 + 4 * torch.rand(512, 2, 1, 1)
blobs = torch.exp(-((row - centers[:, 0]) ** 2 + (column - centers[:, 1]) ** 2) / 3)
loader = DataLoader(blobs.flatten(1), batch_size=64, shuffle=True)


class VAE(nn.Module):
    def __init__(self, pixels=64, hidden=64, latent=2):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(pixels, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent)
        )
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, pixels)
        )

    def forward(self, x):
        mean, log_var = self.encoder(x).chunk(2, dim=1)
        latent = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        return self.decoder(latent), mean, log_var


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
step, warm_up = 0, 40
for epoch in range(15):
    for x in loader:
        logits, mean, log_var = model(x)
        reconstruction = (
            F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1).mean()
        )
        divergence = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(1).mean()
        loss = reconstruction + min(1.0, (step + 1) / warm_up) * divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
    if epoch % 3 == 0:
        print(
            f"epoch {epoch} pixels {reconstruction.item():.2f} divergence {divergence.item():.2f}"
        )
print(f"last loss {loss.item():.2f}")
