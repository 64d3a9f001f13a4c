"""A compiled classifier of sequences of many lengths."""

import torch
from torch import nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 32))
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        return self.head(self.layers(x).mean(1))


model = Model()
compiled = torch.compile(model, backend="eager", dynamic=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(36):
    length = 5 + 7 * step % 36
    labels = torch.randint(3, (16,))
    inputs = torch.randn(16, length, 8) + labels[:, None, None]
    loss = nn.functional.cross_entropy(compiled(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 8 == 0:
        print(f"step {step} length {length} loss {loss.item():.3f}")
