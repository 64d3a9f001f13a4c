"""waiting.bin: which of the entries that the ranking hasn't learned a report is about, or that it is about none of them.

An entry is written in a day, and learning it with the others takes practice reports, a quarter of an hour, and costs its neighbours. Until then its literal texts
find it, and this: one linear classifier over the words of a report and over what it means, made by evals/training/train_waiting.py in two minutes. It is asked
where no literal text decides, and heard only where it is sure.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import compress
from operator import mul
from pathlib import Path

from ..text.records import record
from .binary_parts import Bytes, mapped, unpack
from .features import is_single, readable
from .matrices import STEPS, Dense, Sparse
from .vocabulary import Rows
from .voting import shares_of

OTHER = "other"
PLACE = Path(__file__).with_name("waiting.bin")
REASONS = 3
TITLE = 0.5  # the probability of any waiting entry from which a title is shown where titles are
FINER = 3  # weights of at most 1 in thousandths lose less when they are counted so many times


@record
class Guess:
    """The likeliest of the waiting entries, the probability that it is the one, what that is enough for, and the words that speak most for it.

    enough: "alone" where nothing else is claimed, "beside" something that is, or for a "title" among others.
    """

    id: str
    probability: float
    enough: str
    words: tuple[str, ...]


class Waiting:
    """What evals/training/train_waiting.py learned. Raises ValueError when the bytes are something else."""

    def __init__(self, data: Bytes):
        about, parts = unpack(data, PLACE.name, "evals/training/train_waiting.py")
        self.classes: list[str] = about["classes"]  # OTHER is the last
        self.made_from: dict[str, str] = about["made_from"]
        self.limits: dict[str, float] = about[
            "limits"
        ]  # the probability of any waiting entry from which a guess is "beside" and "alone"
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
        """The probability of each class. `values`: the words of a report with their weights; `point`: what it means, length 1 or all zeros."""
        _, rows, weights = self._known(values)
        length = math.sqrt(sum(map(mul, weights, weights))) or 1.0
        told = self._of_words.sums(
            rows, [int(FINER * STEPS * weight / length) for weight in weights]
        )
        return shares_of(
            [w / FINER + p + b for w, p, b in zip(told, self._of_points.product(point), self._bias)]
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
                for word, row, weight in zip(words, rows, weights)
                if is_single(word)
            ],
            reverse=True,
        )
        told = [readable(word) for weight, word in spoken[: 2 * REASONS] if weight > 0]
        return Guess(
            self.classes[column], shares[column], enough, tuple(dict.fromkeys(told))[:REASONS]
        )

    def _known(self, values: dict[str, float]) -> tuple[list[str], list[int], list[float]]:
        """The words that it knows, their rows, and their weights times the root of their rarity."""
        found = list(map(self._rows.__getitem__, values))
        known = [row is not None for row in found]
        rows = list(compress(found, known))
        weights = [
            weight * self._rarity[row]
            for weight, row in zip(compress(values.values(), known), rows)
        ]
        return list(compress(values, known)), rows, weights


@lru_cache(maxsize=1)
def load() -> Waiting:
    """The waiting.bin of this installation."""
    return Waiting(mapped(PLACE))
