"""The third model of words: a network with one hidden layer, over single words only.

Neighbouring words made it worse. It sees a report as the linear classifier does: words by the root
of their rarity, scaled to length 1. Words are left out at random while it learns, so that it relies
on no single one. Where a teacher has judged texts (teach.py), it learns from those chances too.
That is worth more than labels alone, because a teacher knows words that no report had.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy
import torch
from remote_gpu_trainer.retrieval.ranking import INPUT_GAIN
from torch import nn
from torch.nn import functional

HIDDEN, ROUNDS, BATCH, RATE = 64, 12, 128, 3e-3
TAUGHT_ROUNDS, TAUGHT_BATCH, TAUGHT_RATE = (
    12,
    256,
    4e-3,
)  # with a teacher's judgements there are five times as many texts
TAUGHT_SHARE = 2.0  # what such a text counts for beside a report with a label
LEFT_OUT = 0.3  # share of words, and of hidden units, that a step doesn't see
SMOOTHING = 0.05
LEAST_REPORTS = 2  # in which a word must occur


@dataclass(frozen=True)
class Network:
    """A network with one hidden layer.

    hidden = relu(INPUT_GAIN · report @ words + hidden_bias)
    log-odds = hidden @ classes + bias
    """

    vocabulary: list[str]
    words: numpy.ndarray  # (words, hidden)
    hidden_bias: numpy.ndarray
    classes: numpy.ndarray  # (hidden, classes)
    bias: numpy.ndarray


@dataclass(frozen=True)
class Taught:
    """A teacher's judgements. `chances`: a row a text, logarithms, in the order of the classes."""

    values: list[dict[str, float]]
    points: numpy.ndarray  # (texts, numbers of a point)
    chances: numpy.ndarray


def learn(
    samples: list[tuple[dict[str, float], str, float]],
    classes: list[str],
    rarity: dict[str, float],
    taught: Taught | None = None,
    seed: int = 0,
) -> Network:
    """Fit to (words with weights, label, weight) samples, and to what a teacher said."""
    torch.manual_seed(seed)
    frequency = Counter(word for values, *_ in samples for word in values if "+" not in word)
    vocabulary = sorted(
        word for word, count in frequency.items() if count >= LEAST_REPORTS and "\n" not in word
    )
    place = {word: row for row, word in enumerate(vocabulary)}
    root = [math.sqrt(max(rarity[word], 0.0)) for word in vocabulary]
    column = {name: at for at, name in enumerate(classes)}
    reports = [_rows(values, place, root) for values, *_ in samples]
    labels, shares = [column[label] for _, label, _ in samples], [share for *_, share in samples]
    told = len(reports)  # what follows has chances in place of a label
    if taught:
        reports += [_rows(values, place, root) for values in taught.values]
    chances = torch.from_numpy(taught.chances) if taught else None
    rounds, size, rate = (
        (TAUGHT_ROUNDS, TAUGHT_BATCH, TAUGHT_RATE) if taught else (ROUNDS, BATCH, RATE)
    )

    words = nn.EmbeddingBag(len(vocabulary), HIDDEN, mode="sum")
    nn.init.normal_(words.weight, 0, 0.1)
    hidden_bias, out = nn.Parameter(torch.zeros(HIDDEN)), nn.Linear(HIDDEN, len(classes))
    optimizer = torch.optim.AdamW(
        [
            {"params": words.parameters(), "weight_decay": 0.0},
            {"params": [hidden_bias], "weight_decay": 0.0},
            {"params": out.parameters(), "weight_decay": 0.01},
        ],
        lr=rate,
        fused=True,
    )
    steps = rounds * math.ceil(len(reports) / size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for _ in range(rounds):
        for picked in torch.randperm(len(reports)).split(size):
            batch = torch.cat(
                [picked[picked < told], picked[picked >= told]]
            ).tolist()  # those with a label first
            rows = torch.from_numpy(numpy.concatenate([reports[at][0] for at in batch]))
            weights = torch.from_numpy(numpy.concatenate([reports[at][1] for at in batch]))
            starts = torch.tensor([0, *(len(reports[at][0]) for at in batch[:-1])]).cumsum(0)
            weights = weights * (torch.rand_like(weights) > LEFT_OUT) / math.sqrt(1 - LEFT_OUT)
            hidden = functional.relu(
                INPUT_GAIN * words(rows, starts, per_sample_weights=weights) + hidden_bias
            )
            loss = loss_of(
                out(functional.dropout(hidden, LEFT_OUT)), batch, labels, shares, chances, SMOOTHING
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return Network(
        vocabulary,
        words.weight.detach().numpy(),
        hidden_bias.detach().numpy(),
        out.weight.detach().numpy().T.copy(),
        out.bias.detach().numpy(),
    )


def loss_of(
    scores: torch.Tensor,
    batch: list[int],
    labels: list[int],
    shares: list[float],
    chances: torch.Tensor | None,
    smoothing: float,
) -> torch.Tensor:
    """The mean loss over a batch.

    Its first members have a label and a share; the others are rows of `chances`.
    """
    hard = [at for at in batch if at < len(labels)]
    losses = functional.cross_entropy(
        scores[: len(hard)],
        torch.tensor([labels[at] for at in hard], dtype=torch.long),
        reduction="none",
        label_smoothing=smoothing,
    )
    total = (losses * torch.tensor([shares[at] for at in hard])).sum()
    if len(hard) < len(batch):
        wanted = chances[[at - len(labels) for at in batch[len(hard) :]]].float().exp()
        total = (
            total - TAUGHT_SHARE * (wanted * functional.log_softmax(scores[len(hard) :], 1)).sum()
        )
    return total / len(batch)


def _rows(
    values: dict[str, float], place: dict[str, int], root: list[float]
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The known words of a report as rows, and their weights scaled to length 1."""
    found = [
        (place[word], value * root[place[word]]) for word, value in values.items() if word in place
    ]
    length = math.sqrt(sum(v * v for _, v in found)) or 1.0
    return numpy.array([row for row, _ in found], dtype="int64"), numpy.array(
        [v / length for _, v in found], dtype="float32"
    )
