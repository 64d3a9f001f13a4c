"""A text to roughly the vector that a sentence model would give it, by sums alone: meaning.bin.

Every piece of a word has a vector and a weight. Their weighted mean goes through one hidden layer
and comes out as a vector of length 1 along the widest directions of the space of all-MiniLM-L6-v2.
So words that no report had before lie near words that some had. evals/training/distil.py learns
this from what that model says about many texts, and from what a copy of it, taught on labels, names
for them. Neither model is needed here. The file has the form that `binary_parts` describes.
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
    """What evals/training/distil.py learned. Raises ValueError for bytes of another form."""

    def __init__(self, data: Bytes):
        about, parts = unpack(data, "meaning.bin", "evals/training/distil.py")
        scales, biases = about["scales"], about["biases"]
        self.made_from: dict = about["made_from"]
        self._pieces = Pieces(Rows(parts["words"], parts["word starts"], parts["word slots"]).find)
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
        """The vector of a text, of length 1; all zeros for a text without a known piece."""
        rows = self._pieces.rows(text)
        weights = [int(self._weights[row] * STEPS) for row in rows]
        total = sum(weights) / STEPS
        if not total:
            return [0.0] * len(self._out_bias)
        mean = [s / total for s in self._vectors.sums(rows, weights)]
        raised, straight = self._onward(mean)
        hidden = [s + b if s > -b else 0.0 for s, b in zip(raised, self._hidden_bias, strict=True)]
        outer = zip(straight, self._out.product(hidden), self._out_bias, strict=True)
        found = [s + t + b for s, t, b in outer]
        length = math.sqrt(sum(map(mul, found, found))) or 1.0
        return [v / length for v in found]


@lru_cache(maxsize=1)
def load() -> Meaning:
    """The meaning.bin of this installation."""
    return Meaning(mapped(PLACE))
