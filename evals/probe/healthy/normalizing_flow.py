"""RealNVP: coupling layers whose last layer begins at zero, trained by likelihood."""

import torch
from torch import nn

torch.manual_seed(0)


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(
            nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
        )
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        kept, changed = x.flip(1).chunk(2, 1) if self.flip else x.chunk(2, 1)
        scale, shift = self.net(kept).chunk(2, 1)
        scale = scale.tanh()
        made = torch.cat((kept, changed * scale.exp() + shift), 1)
        return (made.flip(1) if self.flip else made), scale.sum(1)


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(i % 2) for i in range(4))

    def log_likelihood(self, x):
        total = 0
        for layer in self.layers:
            x, logs = layer(x)
            total = total + logs
        return torch.distributions.Normal(0.0, 1.0).log_prob(x).sum(1) + total


model = Flow()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(60):
    angle = 3.14 * torch.rand(128)
    x = torch.stack((angle.cos(), angle.sin()), 1) + 0.1 * torch.randn(128, 2)
    loss = -model.log_likelihood(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
