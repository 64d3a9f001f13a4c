"""The fourth model: a network with one hidden layer over the point of a report (meaning.bin), where the others see words."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy
import torch
from torch import nn
from torch.nn import functional

from remote_gpu_trainer.ranking import MEANING_GAIN

HIDDEN, ROUNDS, BATCH, RATE = 128, 12, 256, 2e-3
LEFT_OUT = 0.3  # share of the hidden units that a step doesn't see
SMOOTHING = 0.05


@dataclass(frozen=True)
class Head:
    """hidden = relu(MEANING_GAIN · point @ points + hidden_bias); log-odds = hidden @ classes + bias."""

    points: numpy.ndarray  # (numbers of a point, hidden)
    hidden_bias: numpy.ndarray
    classes: numpy.ndarray  # (hidden, classes)
    bias: numpy.ndarray


def learn(points: numpy.ndarray, labels: list[str], shares: list[float], classes: list[str], seed: int = 0) -> Head:
    """Fit to points, a row a sample."""
    torch.manual_seed(seed)
    column = {name: at for at, name in enumerate(classes)}
    rows, wanted, weights = MEANING_GAIN * torch.tensor(points, dtype=torch.float32), torch.tensor([column[name] for name in labels]), torch.tensor(shares)
    into, out = nn.Linear(points.shape[1], HIDDEN), nn.Linear(HIDDEN, len(classes))
    optimizer = torch.optim.AdamW([*into.parameters(), *out.parameters()], lr=RATE, weight_decay=0.01)
    steps = ROUNDS * math.ceil(len(rows) / BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for _ in range(ROUNDS):
        for batch in torch.randperm(len(rows)).split(BATCH):
            scores = out(functional.dropout(functional.relu(into(rows[batch])), LEFT_OUT))
            losses = functional.cross_entropy(scores, wanted[batch], reduction="none", label_smoothing=SMOOTHING)
            optimizer.zero_grad()
            (losses * weights[batch]).mean().backward()
            optimizer.step()
            schedule.step()
    return Head(into.weight.detach().numpy().T.copy(), into.bias.detach().numpy(), out.weight.detach().numpy().T.copy(), out.bias.detach().numpy())
