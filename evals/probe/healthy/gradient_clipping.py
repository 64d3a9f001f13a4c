"""A recurrent network with its gradients clipped between backward() and step()."""

import torch
from torch import nn

torch.manual_seed(0)
LENGTH = 8


def batch(count):
    """Two marked numbers of a sequence are to be added."""
    numbers = torch.rand(count, LENGTH)
    marks = torch.zeros(count, LENGTH)
    half = LENGTH // 2
    rows = torch.arange(count)
    marks[rows, torch.randint(half, (count,))] = 1
    marks[rows, half + torch.randint(half, (count,))] = 1
    return torch.stack((numbers, marks), 2), (numbers * marks).sum(1, keepdim=True)


class Adder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, 32, batch_first=True)
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


model = Adder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
clipped = 0
for step in range(150):
    inputs, targets = batch(64)
    loss = nn.functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0, error_if_nonfinite=True)
    optimizer.step()
    clipped += int(norm > 1.0)
    if step % 25 == 0:
        print(f"step {step} loss {loss.item():.4f} grad norm {norm.item():.3f}")
print(f"last loss {loss.item():.4f}, {clipped} steps clipped")
