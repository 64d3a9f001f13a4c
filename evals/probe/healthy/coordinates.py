"""A net of coordinates, as in NeRF: sines of many frequencies, random pixels of one image a step."""

import torch
from torch import nn

torch.manual_seed(0)
axis = torch.linspace(-1, 1, 32)
grid = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
colours = (
    torch.stack((torch.sin(6 * grid[:, 0]), torch.cos(6 * grid[:, 1]), grid.prod(1)), 1) * 0.5 + 0.5
)


class Field(nn.Module):
    def __init__(self, bands=6):
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(bands))
        self.net = nn.Sequential(
            nn.Linear(4 * bands, 64),
            nn.ReLU(),
            nn.Linear(64, 64),
            nn.ReLU(),
            nn.Linear(64, 3),
            nn.Sigmoid(),
        )

    def forward(self, places):
        angle = (places[..., None] * self.bands).flatten(1)
        return self.net(torch.cat((angle.sin(), angle.cos()), 1))


model = Field()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
for step in range(60):
    rows = torch.randint(len(grid), (128,))
    loss = nn.functional.mse_loss(model(grid[rows]), colours[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
print(f"loss {loss.item():.4f}")
