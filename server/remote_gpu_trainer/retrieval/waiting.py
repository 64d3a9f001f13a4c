"""waiting.bin: which entry that the ranking hasn't learned a report is about, if any.

To learn an entry with the others takes practice reports, and costs its neighbours. Until then its
literal texts find it, and this does: one linear classifier over the words and the meaning of a
report, made by evals/training/train_waiting.py. It is asked where no literal text decides, and
heard only where it is sure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from operator import mul
from pathlib import Path

from .binary_parts import Bytes, mapped, unpack
from .features import is_single, readable
from .matrices import STEPS, Dense, Sparse
from .vocabulary import Rows
from .voting import shares_of

OTHER = "other"
PLACE = Path(__file__).with_name("waiting.bin")
REASONS = 3
TITLE = 0.5  # the probability of any waiting entry from which a title is shown where titles are
FINER = 3  # weights of at most 1 lose less as thousandths when they are this much larger


@dataclass(frozen=True)
class Guess:
    """The likeliest of the waiting entries, its probability, and the words that speak most for it.

    `enough`: what the probability is enough for: to be claimed "alone", "beside" a match that is
    claimed, or as a "title" among others.
    """

    id: str
    probability: float
    enough: str
    words: tuple[str, ...]


class Waiting:
    """What evals/training/train_waiting.py learned. Raises ValueError for bytes of another form."""

    def __init__(self, data: Bytes):
        about, parts = unpack(data, PLACE.name, "evals/training/train_waiting.py")
        self.classes: list[str] = about["classes"]  # OTHER is the last
        self.made_from: dict[str, str] = about["made_from"]
        # The probability of any waiting entry from which a guess is "beside" and "alone".
        self.limits: dict[str, float] = about["limits"]
        self._bias: list[float] = about["bias"]
        columns, scales = len(self.classes), about["scales"]
        self._rows = Rows(parts["words"], parts["word starts"], parts["word slots"])
        self._rarity = parts["rarity"]
        self._of_words = Sparse(
            parts["word places starts"],
            parts["word places"],
            parts["word values"],
            columns,
            scales["words"],
        )
        self._of_points = Dense(parts["points"], columns, scales["points"])

    def shares(self, values: dict[str, float], point: list[float]) -> list[float]:
        """The probability of each class.

        `values`: the features of a report with their weights; `point`: what it means, a vector of
        length 1 or all zeros.
        """
        _, rows, weights = self._known(values)
        length = math.sqrt(sum(map(mul, weights, weights))) or 1.0
        told = self._of_words.sums(
            rows, [int(FINER * STEPS * weight / length) for weight in weights]
        )
        meant = self._of_points.product(point)
        return shares_of(
            [w / FINER + p + b for w, p, b in zip(told, meant, self._bias, strict=True)]
        )

    def guess(self, values: dict[str, float], point: list[float]) -> Guess | None:
        """The entry that a report is about, or None where no waiting entry is likely enough."""
        shares = self.shares(values, point)
        sure = 1 - shares[-1]
        if sure < TITLE:
            return None
        enough = (
            "alone"
            if sure >= self.limits["alone"]
            else "beside"
            if sure >= self.limits["beside"]
            else "title"
        )
        column = max(range(len(shares) - 1), key=shares.__getitem__)
        words, rows, weights = self._known(values)
        spoken = sorted(
            [
                (weight * self._of_words.at(row, column), word)
                for word, row, weight in zip(words, rows, weights, strict=True)
                if is_single(word)
            ],
            reverse=True,
        )
        told = [readable(word) for weight, word in spoken[: 2 * REASONS] if weight > 0]
        return Guess(
            self.classes[column], shares[column], enough, tuple(dict.fromkeys(told))[:REASONS]
        )

    def _known(self, values: dict[str, float]) -> tuple[list[str], list[int], list[float]]:
        """The known words, their rows, and their weights times the root of their rarity."""
        found = list(map(self._rows.find, values))
        known = [row is not None for row in found]
        rows = list(compress(found, known))
        weights = [
            weight * self._rarity[row]
            for weight, row in zip(compress(values.values(), known), rows, strict=True)
        ]
        return list(compress(values, known)), rows, weights


@lru_cache(maxsize=1)
def load() -> Waiting:
    """The waiting.bin of this installation."""
    return Waiting(mapped(PLACE))
