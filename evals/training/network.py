"""The third model of words: a network with one hidden layer, over single words only (neighbouring words made it worse).

It sees a report as the linear classifier does, words by the root of their rarity, scaled to length 1. Words are left out at random
while it learns, so that it relies on no single one.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy
import torch
from torch import nn
from torch.nn import functional

from remote_gpu_trainer.ranking import INPUT_GAIN

HIDDEN, ROUNDS, BATCH, RATE = 64, 12, 128, 3e-3
LEFT_OUT = 0.3  # share of words, and of hidden units, that a step doesn't see
SMOOTHING = 0.05
LEAST_REPORTS = 2  # in which a word must occur


@dataclass(frozen=True)
class Network:
    """hidden = relu(INPUT_GAIN · report @ words + hidden_bias); log-odds = hidden @ classes + bias."""

    vocabulary: list[str]
    words: numpy.ndarray  # (words, hidden)
    hidden_bias: numpy.ndarray
    classes: numpy.ndarray  # (hidden, classes)
    bias: numpy.ndarray


def learn(samples: list[tuple[dict[str, float], str, float]], classes: list[str], rarity: dict[str, float], seed: int = 0) -> Network:
    """Fit to (words with weights, label, weight) samples."""
    torch.manual_seed(seed)
    frequency = Counter(word for values, *_ in samples for word in values if "+" not in word)
    vocabulary = sorted(word for word, count in frequency.items() if count >= LEAST_REPORTS and "\n" not in word)
    place = {word: row for row, word in enumerate(vocabulary)}
    root = [math.sqrt(max(rarity[word], 0.0)) for word in vocabulary]
    column = {name: at for at, name in enumerate(classes)}
    reports = []
    for values, label, share in samples:
        rows = [(place[word], value * root[place[word]]) for word, value in values.items() if word in place]
        length = math.sqrt(sum(v * v for _, v in rows)) or 1.0
        reports.append(([row for row, _ in rows], [v / length for _, v in rows], column[label], share))

    words = nn.EmbeddingBag(len(vocabulary), HIDDEN, mode="sum")
    nn.init.normal_(words.weight, 0, 0.1)
    hidden_bias, out = nn.Parameter(torch.zeros(HIDDEN)), nn.Linear(HIDDEN, len(classes))
    optimizer = torch.optim.AdamW(
        [
            {"params": words.parameters(), "weight_decay": 0.0},
            {"params": [hidden_bias], "weight_decay": 0.0},
            {"params": out.parameters(), "weight_decay": 0.01},
        ],
        lr=RATE,
        fused=True,
    )
    steps = ROUNDS * math.ceil(len(reports) / BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for _ in range(ROUNDS):
        order = torch.randperm(len(reports)).tolist()
        for start in range(0, len(reports), BATCH):
            batch = [reports[at] for at in order[start : start + BATCH]]
            rows, starts = [], []
            for found, *_ in batch:
                starts.append(len(rows))
                rows.extend(found)
            weights = torch.tensor([v for _, values, *_ in batch for v in values])
            weights = weights * (torch.rand_like(weights) > LEFT_OUT) / math.sqrt(1 - LEFT_OUT)
            hidden = functional.relu(INPUT_GAIN * words(torch.tensor(rows), torch.tensor(starts), per_sample_weights=weights) + hidden_bias)
            scores = out(functional.dropout(hidden, LEFT_OUT))
            losses = functional.cross_entropy(scores, torch.tensor([label for *_, label, _ in batch]), reduction="none", label_smoothing=SMOOTHING)
            loss = (losses * torch.tensor([share for *_, share in batch])).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return Network(vocabulary, words.weight.detach().numpy(), hidden_bias.detach().numpy(), out.weight.detach().numpy().T.copy(), out.bias.detach().numpy())
