"""Eight experts, the best two of each token by topk, and a loss that balances them."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Mixture(nn.Module):
    def __init__(self, width=32, count=8, best=2):
        super().__init__()
        self.best = best
        self.gate = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))
            for _ in range(count)
        )

    def forward(self, x):
        shares = F.softmax(self.gate(x), dim=-1)
        weights, chosen = torch.topk(shares, self.best, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == i)
            if len(rows):
                out.index_add_(0, rows, weights[rows, place, None] * expert(x[rows]))
        used = F.one_hot(chosen, len(self.experts)).float().mean((0, 1))
        return x + out, len(self.experts) * (used * shares.mean(0)).sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.entry, self.mixture, self.head = nn.Linear(16, 32), Mixture(), nn.Linear(32, 5)

    def forward(self, x):
        mixed, balance = self.mixture(self.entry(x))
        return self.head(mixed), balance


x = torch.randn(1600, 16)
y = (x @ torch.randn(16, 5)).argmax(1)
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(40):
    rows = torch.randint(1600, (64,))
    scores, balance = model(x[rows])
    loss = F.cross_entropy(scores, y[rows]) + 0.01 * balance
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}, balance {balance.item():.2f}")
