"""Each block is checkpointed, so that its activations are computed again in the backward pass."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.body = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        return x + self.body(self.norm(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.entry = nn.Linear(20, 32)
        self.blocks = nn.ModuleList(Block(32) for _ in range(4))
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        x = self.entry(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


x = torch.randn(800, 20)
y = (x @ torch.randn(20, 5)).argmax(1)
model = Net().train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(40):
    rows = torch.randint(800, (40,))
    loss = F.cross_entropy(model(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
