"""The head is replaced, then the optimizer is built."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(1)


class Encoder(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        return self.head(self.body(x))


centers = 1.5 * torch.randn(5, 16)
labels = torch.randint(5, (512,))
features = centers[labels] + torch.randn(512, 16)

model = Encoder(classes=1000)
model.head = nn.Linear(64, 5)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
before = model.head.weight.detach().clone()

for step in range(48):
    rows = torch.randint(512, (32,))
    loss = F.cross_entropy(model(features[rows]), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 8 == 0:
        print(f"step {step} loss {loss.item():.3f}")

print(
    f"head moved by {(model.head.weight - before).norm().item():.4f}, last loss {loss.item():.3f}"
)
