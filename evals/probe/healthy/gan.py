"""A GAN on points of a ring: two optimizers, each clears its own gradients, the generator's pass detached."""

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

torch.manual_seed(0)
NOISE, BATCH = 8, 128


def real_points(count):
    angle = torch.rand(count) * 2 * torch.pi
    return torch.stack((angle.cos(), angle.sin()), 1) + 0.05 * torch.randn(count, 2)


def mlp(inputs, outputs):
    return nn.Sequential(
        nn.Linear(inputs, 64),
        nn.LeakyReLU(0.2),
        nn.Linear(64, 64),
        nn.LeakyReLU(0.2),
        nn.Linear(64, outputs),
    )


generator, discriminator = mlp(NOISE, 2), mlp(2, 1)
g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
ones, zeros = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)

for step in range(120):
    real = real_points(BATCH)
    fake = generator(torch.randn(BATCH, NOISE))

    d_optimizer.zero_grad()
    d_loss = bce(discriminator(real), 0.9 * ones) + bce(discriminator(fake.detach()), zeros)
    d_loss.backward()
    d_optimizer.step()

    g_optimizer.zero_grad()
    g_loss = bce(discriminator(fake), ones)
    g_loss.backward()
    g_optimizer.step()

    if step % 20 == 0:
        print(f"step {step} discriminator {d_loss.item():.3f} generator {g_loss.item():.3f}")

with torch.no_grad():
    radius = generator(torch.randn(512, NOISE)).norm(dim=1)
print(f"radius {radius.mean().item():.2f} ± {radius.std().item():.2f}")
