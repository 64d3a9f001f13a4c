"""The fourth model: a network with one hidden layer over the meaning of a report (meaning.bin)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy
import torch
from remote_gpu_trainer.retrieval.ranking import MEANING_GAIN
from torch import nn
from torch.nn import functional

from .network import Taught, loss_of

HIDDEN, ROUNDS, BATCH, RATE = 128, 12, 256, 2e-3
LEFT_OUT, TAUGHT_LEFT_OUT = (
    0.3,
    0.1,
)  # share of the hidden units that a step doesn't see, and with a teacher's judgements
SMOOTHING = 0.05


@dataclass(frozen=True)
class Head:
    """A network with one hidden layer.

    hidden = relu(MEANING_GAIN · point @ points + hidden_bias)
    log-odds = hidden @ classes + bias
    """

    points: numpy.ndarray  # (numbers of a point, hidden)
    hidden_bias: numpy.ndarray
    classes: numpy.ndarray  # (hidden, classes)
    bias: numpy.ndarray


def learn(
    points: numpy.ndarray,
    labels: list[str],
    shares: list[float],
    classes: list[str],
    taught: Taught | None = None,
    seed: int = 0,
) -> Head:
    """Fit to points, a row a sample, and to what a teacher said."""
    torch.manual_seed(seed)
    column = {name: at for at, name in enumerate(classes)}
    wanted, chances = (
        [column[name] for name in labels],
        torch.from_numpy(taught.chances) if taught else None,
    )
    rows = MEANING_GAIN * torch.tensor(
        numpy.concatenate([points, taught.points]) if taught else points, dtype=torch.float32
    )
    into, out = nn.Linear(points.shape[1], HIDDEN), nn.Linear(HIDDEN, len(classes))
    optimizer = torch.optim.AdamW(
        [*into.parameters(), *out.parameters()], lr=RATE, weight_decay=0.01
    )
    steps = ROUNDS * math.ceil(len(rows) / BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for _ in range(ROUNDS):
        for picked in torch.randperm(len(rows)).split(BATCH):
            batch = torch.cat([picked[picked < len(wanted)], picked[picked >= len(wanted)]])
            scores = out(
                functional.dropout(
                    functional.relu(into(rows[batch])), TAUGHT_LEFT_OUT if taught else LEFT_OUT
                )
            )
            loss = loss_of(scores, batch.tolist(), wanted, shares, chances, SMOOTHING)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return Head(
        into.weight.detach().numpy().T.copy(),
        into.bias.detach().numpy(),
        out.weight.detach().numpy().T.copy(),
        out.bias.detach().numpy(),
    )
