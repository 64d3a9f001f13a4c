"""Meaning taught on: the vectors of meaning.bin learn what a teacher said about many texts.

A sentence model puts texts side by side that speak of the same thing, whatever a training run makes
of it. Its taught copy (teacher.py) knows which differences matter here. A network over the vector
learns the teacher's chances, and its errors move the vectors, which stay near what they were. The
network isn't kept: head.py learns another with the labels. No case has a part in this.
"""

from __future__ import annotations

import math

import numpy
import torch
from remote_gpu_trainer.retrieval.ranking import MEANING_GAIN
from torch import nn
from torch.nn import functional

from .encoder import Encoder

HIDDEN, ROUNDS, BATCH, RATE = 128, 20, 256, 2e-3
PIECES_LEFT_OUT, HIDDEN_LEFT_OUT = 0.25, 0.1  # shares that a step doesn't see
NEAR = 0.2  # what a cosine lost to the old point counts for beside a nat of the teacher's chances


def learn(
    model: Encoder,
    texts: list[list[int]],
    chances: numpy.ndarray,
    told=print,
    seed: int = 0,
    rounds: int = ROUNDS,
) -> Encoder:
    """Teach `model` on. `texts`: rows of pieces, none empty; `chances`: logs, (texts, classes)."""
    torch.manual_seed(seed)
    lengths = torch.tensor([len(text) for text in texts])
    old = _points(model.eval(), texts)
    wanted = torch.from_numpy(chances)
    into, out = nn.Linear(old.shape[1], HIDDEN), nn.Linear(HIDDEN, chances.shape[1])
    optimizer = torch.optim.AdamW(
        [*model.parameters(), *into.parameters(), *out.parameters()],
        lr=RATE,
        weight_decay=1e-3,
        fused=True,
    )
    steps = rounds * math.ceil(len(texts) / BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    model.left_out = PIECES_LEFT_OUT
    model.train()
    for number in range(rounds):
        total = near = 0.0
        for batch in torch.randperm(len(texts)).split(BATCH):
            point = functional.normalize(
                model(
                    torch.tensor([piece for row in batch.tolist() for piece in texts[row]]),
                    lengths[batch],
                ),
                dim=1,
            )
            said = out(
                functional.dropout(functional.relu(into(MEANING_GAIN * point)), HIDDEN_LEFT_OUT)
            )
            cosine = (point * old[batch]).sum(1).mean()
            loss = functional.kl_div(
                functional.log_softmax(said, 1),
                wanted[batch].float(),
                reduction="batchmean",
                log_target=True,
            )
            optimizer.zero_grad()
            (loss - NEAR * cosine).backward()
            optimizer.step()
            schedule.step()
            total, near = (
                total + float(loss.detach()) * len(batch),
                near + float(cosine.detach()) * len(batch),
            )
        told(
            f"round {number + 1} of {rounds}: {total / len(texts):.3f} nats from the teacher, "
            f"cosine to the old point {near / len(texts):.3f}"
        )
    return model.eval()


@torch.no_grad()
def _points(model: Encoder, texts: list[list[int]]) -> torch.Tensor:
    """What the model says, a row a text, each of length 1."""
    found = []
    for at in range(0, len(texts), BATCH):
        part = texts[at : at + BATCH]
        found.append(
            model(
                torch.tensor([piece for text in part for piece in text]),
                torch.tensor([len(text) for text in part]),
            )
        )
    return functional.normalize(torch.cat(found), dim=1)
