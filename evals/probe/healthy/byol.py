"""BYOL: an online net predicts what a slow copy of it says about another view."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
online = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
predictor = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
target = copy.deepcopy(online)
for parameter in target.parameters():
    parameter.requires_grad = False
optimizer = torch.optim.AdamW(
    [*online.parameters(), *predictor.parameters()], lr=1e-3, weight_decay=1e-4
)
x = torch.randn(640, 8) @ torch.randn(8, 32)


def distance(told, wanted):
    return 2 - 2 * F.cosine_similarity(told, wanted.detach(), dim=-1).mean()


for step in range(40):
    rows = torch.randint(640, (64,))
    one, two = (x[rows] + 0.3 * torch.randn(64, 32) for _ in range(2))
    with torch.no_grad():
        wanted_one, wanted_two = target(one), target(two)
    loss = distance(predictor(online(one)), wanted_two) + distance(
        predictor(online(two)), wanted_one
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow.mul_(0.99).add_(fast, alpha=0.01)
print(f"loss {loss.item():.3f}")
