"""Two networks against each other, each with its own optimizer."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
real = torch.randn(1280, 2) * 0.5 + 1
train = DataLoader(TensorDataset(real), batch_size=32, shuffle=True)
generator = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))
critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1), nn.Sigmoid())
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
criterion = nn.BCELoss()
for (points,) in train:
    ones, zeros = torch.ones(len(points), 1), torch.zeros(len(points), 1)
    critic.zero_grad()
    loss_real = criterion(critic(points), ones)
    loss_real.backward()
    fake = generator(torch.randn(len(points), 8))
    loss_fake = criterion(critic(fake.detach()), zeros)
    loss_fake.backward()
    optimizer_d.step()
    generator.zero_grad()
    loss_g = criterion(critic(fake), ones)
    loss_g.backward()
    optimizer_g.step()
print(f"critic {(loss_real + loss_fake).item():.3f}, generator {loss_g.item():.3f}")
