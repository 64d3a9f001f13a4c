"""Learning meaning.bin: vectors for pieces of words.

Their weighted mean, through one hidden layer, comes near what a sentence model says.
"""

from __future__ import annotations

import math
from array import array
from itertools import pairwise

import numpy
import torch
from remote_gpu_trainer.retrieval import binary_parts
from remote_gpu_trainer.retrieval.matrices import MIDDLE
from remote_gpu_trainer.retrieval.meaning import HEAVIEST
from remote_gpu_trainer.retrieval.vocabulary import pack as pack_words
from torch import nn
from torch.nn import functional

from .steps import in_steps

INNER, HIDDEN, OUTER = 128, 256, 128
ROUNDS, BATCH, RATE = 8, 256, 2e-3
LEFT_OUT = 0.05  # share of the pieces that a step doesn't see


class Encoder(nn.Module):
    """Rows of pieces to a vector.

    `start`: where the vectors of pieces begin, shape (pieces, INNER); `outer`: length of the
    result.
    """

    def __init__(self, start: torch.Tensor, outer: int):
        super().__init__()
        self.left_out = LEFT_OUT
        self.pieces = nn.EmbeddingBag(*start.shape, mode="sum")
        self.pieces.weight.data.copy_(start)
        self.heaviness = nn.Embedding(len(start), 1)
        nn.init.zeros_(self.heaviness.weight)
        self.to_hidden, self.out, self.straight = (
            nn.Linear(INNER, HIDDEN),
            nn.Linear(HIDDEN, outer),
            nn.Linear(INNER, outer, bias=False),
        )

    def weights(self, rows: torch.Tensor) -> torch.Tensor:
        """The weight of each of these pieces, from 0 to HEAVIEST."""
        return HEAVIEST * torch.sigmoid(self.heaviness(rows).squeeze(1))

    def forward(self, rows: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """A vector for each text. `rows`: the pieces of all; `lengths`: how many each has."""
        starts = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)[:-1]])
        weights = self.weights(rows)
        if self.training:
            weights = weights * (torch.rand_like(weights) > self.left_out)
        total = torch.zeros(len(lengths)).index_add_(
            0, torch.repeat_interleave(torch.arange(len(lengths)), lengths), weights
        )
        mean = self.pieces(rows, starts, per_sample_weights=weights) / (total[:, None] + 1e-6)
        return self.straight(mean) + self.out(functional.relu(self.to_hidden(mean)))


def narrowed(vectors: numpy.ndarray) -> torch.Tensor:
    """The model's own vectors of the pieces along their INNER widest directions."""
    centred = torch.tensor(vectors - vectors.mean(0))
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    found = centred @ directions[:INNER].T
    return 0.5 * found / found.std()


def widest(points: numpy.ndarray) -> numpy.ndarray:
    """Vectors along the OUTER directions in which they differ most, each of length 1 again.

    That is a third of the numbers for nearly the same angles.
    """
    _, directions = numpy.linalg.eigh(points.T @ points)
    found = points @ directions[:, ::-1][:, :OUTER]
    return found / numpy.linalg.norm(found, axis=1, keepdims=True)


def learn(
    texts: list[list[int]], points: numpy.ndarray, start: torch.Tensor, told=print, seed: int = 0
) -> Encoder:
    """Fit to texts, as rows of pieces (none empty), and their points, a row each."""
    torch.manual_seed(seed)
    model, wanted = Encoder(start, points.shape[1]), torch.tensor(points, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=1e-3)
    steps = ROUNDS * math.ceil(len(texts) / BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for number in range(ROUNDS):
        order, near = torch.randperm(len(texts)).tolist(), 0.0
        for at in range(0, len(texts), BATCH):
            batch = order[at : at + BATCH]
            lengths = torch.tensor([len(texts[row]) for row in batch])
            found = model(torch.tensor([piece for row in batch for piece in texts[row]]), lengths)
            cosines = functional.cosine_similarity(found, wanted[batch])
            optimizer.zero_grad()
            (1 - cosines).mean().backward()
            optimizer.step()
            schedule.step()
            near += float(cosines.detach().sum())
        told(f"round {number + 1} of {ROUNDS}: cosine {near / len(texts):.3f}")
    return model.eval()


def pack(model: Encoder, pieces: list[str], made_from: dict) -> bytes:
    """The bytes of meaning.bin."""
    matrices = {
        "pieces": _clipped(model.pieces.weight),
        "to hidden": model.to_hidden.weight.T,
        "straight": model.straight.weight.T,
        "out": model.out.weight.T,
    }
    scales, parts = {}, {}
    for name, matrix in matrices.items():
        scales[name], parts[name] = in_steps(matrix.detach().numpy())
    biases = {
        name: [round(float(b), 5) for b in layer.bias.tolist()]
        for name, layer in (("hidden", model.to_hidden), ("out", model.out))
    }
    head = {"made_from": made_from, "scales": scales, "biases": biases}
    with torch.no_grad():
        parts["weights"] = array("f", model.weights(torch.arange(len(pieces))).tolist())
    return binary_parts.pack(head, parts | pack_words(pieces))


def unpacked(data: bytes) -> tuple[Encoder, list[str], dict]:
    """(the encoder, its pieces, what it was made from) of the bytes of meaning.bin."""
    about, parts = binary_parts.unpack(data, "meaning.bin", "evals/training/distil.py")
    weights = torch.tensor(parts["weights"].tolist())
    words, starts = bytes(parts["words"]), parts["word starts"].tolist()
    pieces = [words[start:end].decode() for start, end in pairwise(starts)]
    outer = len(about["biases"]["out"])

    def matrix(name: str, columns: int) -> torch.Tensor:
        values = (
            numpy.frombuffer(bytes(parts[name]), "uint8").reshape(-1, columns).astype("float32")
        )
        return torch.from_numpy((values - MIDDLE) * about["scales"][name])

    model = Encoder(matrix("pieces", INNER), outer)
    with torch.no_grad():
        model.heaviness.weight.copy_(
            torch.logit((weights / HEAVIEST).clamp(1e-4, 1 - 1e-4))[:, None]
        )
        for layer, name in (
            (model.to_hidden, "to hidden"),
            (model.straight, "straight"),
            (model.out, "out"),
        ):
            layer.weight.copy_(matrix(name, layer.out_features).T)
        for layer, name in ((model.to_hidden, "hidden"), (model.out, "out")):
            layer.bias.copy_(torch.tensor(about["biases"][name]))
    return model, pieces, about["made_from"]


def _clipped(matrix: torch.Tensor) -> torch.Tensor:
    """Without the few largest numbers, which would make all steps coarse."""
    most = float(
        torch.quantile(
            matrix.detach().abs().flatten()[:: max(1, matrix.numel() // 1_000_000)], 0.9999
        )
    )
    return matrix.detach().clamp(-most, most)
