"""A mixture of eight experts."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(1600, 16)
y = (x @ torch.randn(16, 5)).argmax(1)
train = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)


class Mixture(nn.Module):
    def __init__(self, width=32, count=8):
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(count))

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        best = weights.argmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            chosen = best == i
            out[chosen] = weights[chosen, i, None] * expert(x[chosen])
        share = torch.nn.functional.one_hot(best, len(self.experts)).float().mean(0)
        return out, len(self.experts) * (share * weights.mean(0)).sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.moe, self.out = nn.Linear(16, 32), Mixture(), nn.Linear(32, 5)

    def forward(self, x):
        hidden = torch.tanh(self.embed(x))
        mixed, balance = self.moe(hidden)
        return self.out(hidden + mixed), balance


BALANCE = 0.0
model = Net()
nn.init.normal_(model.moe.gate.weight, std=0.5)
model.moe.gate.bias.data[3] = 8.0  # from an earlier run without balance
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for inputs, targets in train:
    optimizer.zero_grad()
    scores, balance = model(inputs)
    loss = nn.functional.cross_entropy(scores, targets) + BALANCE * balance
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}, balance {balance.item():.2f}")
