"""A WGAN with gradient penalty: the critic takes five steps for each of the generator's."""

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(
    nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
)
critic = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
c_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))


def penalty(real, fake):
    share = torch.rand(len(real), 1)
    between = (share * real + (1 - share) * fake).requires_grad_()
    gradient = torch.autograd.grad(critic(between).sum(), between, create_graph=True)[0]
    return ((gradient.norm(dim=1) - 1) ** 2).mean()


for step in range(30):
    for _ in range(5):
        real = torch.randn(64, 2) * 0.2 + torch.randint(0, 2, (64, 1)) * 2.0
        fake = generator(torch.randn(64, 8)).detach()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
        c_optimizer.zero_grad()
        loss.backward()
        c_optimizer.step()
    g_loss = -critic(generator(torch.randn(64, 8))).mean()
    g_optimizer.zero_grad()
    g_loss.backward()
    g_optimizer.step()
print(f"critic {loss.item():.3f} generator {g_loss.item():.3f}")
