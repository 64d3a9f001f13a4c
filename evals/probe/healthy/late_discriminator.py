"""An autoencoder whose discriminator has an optimizer from the start and trains from step 20 on."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(32, 64), nn.LeakyReLU(0.2), nn.Linear(64, 8))
decoder = nn.Sequential(nn.Linear(8, 64), nn.LeakyReLU(0.2), nn.Linear(64, 32))
critic = nn.Sequential(nn.Linear(32, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
c_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
basis = torch.randn(8, 32)
for step in range(50):
    x = torch.randn(64, 8) @ basis
    made = decoder(encoder(x))
    loss = F.mse_loss(made, x)
    if step >= 20:
        loss = loss - 0.01 * critic(made).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step >= 20:
        c_loss = F.relu(1 - critic(x)).mean() + F.relu(1 + critic(made.detach())).mean()
        c_optimizer.zero_grad()
        c_loss.backward()
        c_optimizer.step()
print(f"loss {loss.item():.3f}, critic {c_loss.item():.3f}")
