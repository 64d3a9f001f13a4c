"""A residual net with GroupNorm, whose last norm of each block begins at zero."""

import torch
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.GroupNorm(4, width), nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.GroupNorm(4, width),
        )  # fmt: skip
        nn.init.zeros_(self.body[-1].weight)

    def forward(self, x):
        return nn.functional.silu(x + self.body(x))


model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1),
    Block(16),
    Block(16),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(16, 4),
)
labels = torch.randint(4, (640,))
images = torch.randn(640, 3, 10, 10) + labels[:, None, None, None] * torch.randn(3, 10, 10)
optimizer = torch.optim.SGD(
    model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4
)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=60)
for step in range(60):
    rows = torch.randint(640, (16,))
    loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
print(f"loss {loss.item():.3f}")
