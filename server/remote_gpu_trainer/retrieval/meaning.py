"""A text to the point that a sentence model would give it, near enough, by sums alone: meaning.bin.

Every piece of a word has a vector and a weight. Their weighted mean goes through one hidden layer and comes out as a vector of length 1
along the widest directions of all-MiniLM-L6-v2's space, so that words that were never seen in a report lie near words that were. evals/training/distil.py learns it from what
that model says about many texts, and from what its taught copy names for them; nothing of either is needed here. meaning.bin has the form of ranking.bin: one line of JSON, then the parts.
"""

from __future__ import annotations

import math
from functools import lru_cache
from operator import mul
from pathlib import Path

from .binary_parts import Bytes, mapped, unpack
from .matrices import STEPS, Dense, beside
from .pieces import Pieces
from .vocabulary import Rows

PLACE = Path(__file__).with_name("meaning.bin")
HEAVIEST = 3.0  # weight of a piece


class Meaning:
    """What evals/training/distil.py learned. Raises ValueError when the bytes are something else."""

    def __init__(self, data: Bytes):
        about, parts = unpack(data, "meaning.bin", "evals/training/distil.py")
        scales, biases = about["scales"], about["biases"]
        self.made_from: dict = about["made_from"]
        self._pieces = Pieces(
            Rows(parts["words"], parts["word starts"], parts["word slots"]).__getitem__
        )
        self._weights = parts["weights"]
        inner, hidden, outer = (
            len(parts["pieces"]) // len(self._weights),
            len(biases["hidden"]),
            len(biases["out"]),
        )
        self._vectors = Dense(parts["pieces"], inner, scales["pieces"])
        self._onward = beside(
            Dense(parts["to hidden"], hidden, scales["to hidden"]),
            Dense(parts["straight"], outer, scales["straight"]),
        )
        self._out = Dense(parts["out"], outer, scales["out"])
        self._hidden_bias, self._out_bias = biases["hidden"], biases["out"]

    def vector(self, text: str) -> list[float]:
        """The point of a text, length 1; all zeros for a text without a known piece."""
        rows = self._pieces.rows(text)
        weights = [int(self._weights[row] * STEPS) for row in rows]
        total = sum(weights) / STEPS
        if not total:
            return [0.0] * len(self._out_bias)
        mean = [s / total for s in self._vectors.sums(rows, weights)]
        raised, straight = self._onward(mean)
        hidden = [s + b if s > -b else 0.0 for s, b in zip(raised, self._hidden_bias)]
        found = [s + t + b for s, t, b in zip(straight, self._out.product(hidden), self._out_bias)]
        length = math.sqrt(sum(map(mul, found, found))) or 1.0
        return [v / length for v in found]


@lru_cache(maxsize=1)
def load() -> Meaning:
    """The meaning.bin of this installation."""
    return Meaning(mapped(PLACE))
