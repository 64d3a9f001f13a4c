"""A classifier of points, trained for three epochs."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(960, 20)
y = (x @ torch.randn(20, 10)).argmax(1)
train = DataLoader(TensorDataset(x[:800], y[:800]), batch_size=50, shuffle=True)
valid = DataLoader(TensorDataset(x[800:], y[800:]), batch_size=80)


class Lora(nn.Module):
    """A frozen linear layer with a trainable low-rank part beside it."""

    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base
        self.lora_A = nn.Parameter(torch.randn(rank, base.in_features) * 0.1)
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.lora_A.T @ self.lora_B.T


model = nn.Sequential(Lora(nn.Linear(20, 64)), nn.GELU(), Lora(nn.Linear(64, 64)), nn.GELU())
head = nn.Linear(64, 10)
model = nn.Sequential(model, head)
model.requires_grad_(False)
for name, parameter in model.named_parameters():
    if "lora." in name or name.startswith("1."):
        parameter.requires_grad = True
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
for epoch in range(3):
    for inputs, targets in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
