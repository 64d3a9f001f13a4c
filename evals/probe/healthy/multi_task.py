"""One body, three heads, weights for the losses that are learned along."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
x = torch.randn(800, 20)
wanted = x @ torch.randn(20, 1)
y = (x @ torch.randn(20, 5)).argmax(1)
tags = (x @ torch.randn(20, 7) > 0).float()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(20, 64), nn.GELU())
        self.classes, self.number, self.tags = nn.Linear(64, 5), nn.Linear(64, 1), nn.Linear(64, 7)
        self.log_variances = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        hidden = self.body(x)
        return self.classes(hidden), self.number(hidden), self.tags(hidden)


model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(60):
    rows = torch.randint(800, (40,))
    classes, number, told = model(x[rows])
    losses = torch.stack(
        [
            F.cross_entropy(classes, y[rows], label_smoothing=0.1),
            F.mse_loss(number, wanted[rows]),
            F.binary_cross_entropy_with_logits(told, tags[rows]),
        ]
    )
    loss = (losses * torch.exp(-model.log_variances) + model.log_variances).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print([round(one, 3) for one in losses.tolist()])
