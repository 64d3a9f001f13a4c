"""ranking.bin: the numbers that the ranking needs, in a form that is ready to be asked.

One line of JSON (classes, weights, limits), then the parts, in the form that `binary_parts`
describes. The words are a table of their own (`vocabulary`); those that the network knows have the
first rows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import compress
from operator import add, mul
from pathlib import Path

from .binary_parts import Bytes, mapped, unpack
from .features import is_single, readable
from .matrices import STEPS, Dense, Sparse
from .meaning import load as load_meaning
from .vocabulary import Rows

NONE = "none"
VOTERS = (
    "learned",
    "counted share",
    "counted",
    "signature share",
    "signature",
    "signature elsewhere",
    "network",
    "meaning",
)
GATE = (
    "inside",
    "best learned",
    "best counted",
    "signature",
    "network none",
    "network best",
    "classifiers agree",
    "best share",
    "learned over none",
    "meaning none",
    "constant",
)
PLACE = Path(__file__).with_name("ranking.bin")
MOST_REASONS = 60  # words of a question that are asked why
INPUT_GAIN = 3.0  # a report's words, scaled to length 1, reach the network this much stronger
MEANING_GAIN = 8.0  # and its meaning, of length 1 as well, reaches the head this much


@dataclass(frozen=True)
class Question:
    """The words of a report that the ranking knows, with the row, weight and rarity of each.

    `unknown` counts the words that it doesn't know.
    """

    words: list[str]
    rows: list[int]
    weights: list[float]
    rarities: list[float]
    unknown: int


class Ranking:
    """What evals/train.py learned. Raises ValueError for bytes of another form."""

    def __init__(self, data: Bytes):
        about, parts = unpack(data, PLACE.name, "evals/train.py")
        self.classes: list[str] = about["classes"]
        self.weights: list[float] = about["weights"]
        # Of all voters but the last (meaning): the gate ranks by these.
        self.gate_weights: list[float] = about["gate_weights"]
        self.gate: list[float] = about["gate"]
        self.limits: dict[str, float] = about["limits"]
        self.bias: list[float] = about["bias"]
        self.hidden_bias: list[float] = about["hidden_bias"]
        self.network_bias: list[float] = about["network_bias"]
        self.head_bias: list[float] = about["head_bias"]
        self.meaning_bias: list[float] = about["meaning_bias"]
        self.unknown: float = about["unknown"]  # the rarity of a word never seen
        self.made_from: dict[str, str] = about["made_from"]
        scales, columns, hidden = about["scales"], len(self.classes), len(self.hidden_bias)
        self.rows = Rows(parts["words"], parts["word starts"], parts["word slots"])
        self.network_words = len(parts["words to hidden"]) // hidden
        self._learned = Sparse(
            parts["learned starts"],
            parts["learned places"],
            parts["learned values"],
            columns,
            scales["learned"],
        )
        self._counted = Sparse(
            parts["counted starts"],
            parts["counted places"],
            parts["counted values"],
            columns,
            scales["counted"],
        )
        self._to_hidden = Dense(parts["words to hidden"], hidden, scales["words to hidden"])
        self._to_classes = Dense(parts["hidden to classes"], columns, scales["hidden to classes"])
        self._to_head = Dense(
            parts["points to head"], len(self.head_bias), scales["points to head"]
        )
        self._of_head = Dense(parts["head to classes"], columns, scales["head to classes"])
        self.encoder = load_meaning()
        self.rarity, self.inside = parts["rarity"], parts["inside"]

    @cached_property
    def entries(self) -> list[str]:
        """The classes but NONE, which is the last."""
        return self.classes[:-1]

    @cached_property
    def column(self) -> dict[str, int]:
        """{class: its column}."""
        return {name: column for column, name in enumerate(self.classes)}

    def question(self, values: dict[str, float]) -> Question:
        """The weighted words of a report as rows of the matrices."""
        rows = list(map(self.rows.find, values))
        known = [row is not None for row in rows]
        found = list(compress(rows, known))
        return Question(
            list(compress(values, known)),
            found,
            list(compress(values.values(), known)),
            list(map(self.rarity.__getitem__, found)),
            len(rows) - len(found),
        )

    def learned(self, asked: Question) -> tuple[list[float], float]:
        """(the linear classifier's score of every class, NONE the last; the score for any entry).

        The first weighs known words by the root of their rarity. The second asks only which words
        occur, weighted by rarity. It counts unknown ones too, so that a report of unknown words
        says little.
        """
        alike: dict[float, list[int]] = defaultdict(list)
        for row, weight in zip(asked.rows, asked.weights, strict=True):
            alike[weight].append(row)
        length = sum(map(mul, map(mul, asked.weights, asked.weights), asked.rarities))
        rare = sum(
            map(mul, asked.rarities, asked.rarities), asked.unknown * self.unknown * self.unknown
        )
        inside = sum(map(self.inside.__getitem__, asked.rows))
        length = math.sqrt(length) or 1.0
        raw = self._learned.sums_alike(
            (int(weight * STEPS), rows) for weight, rows in alike.items()
        )
        # The bias after those of the classes is that of the second score.
        sums = [s / length + b for s, b in zip(raw, self.bias, strict=False)]
        return sums, inside / (math.sqrt(rare) or 1.0) + self.bias[-1]

    def network(self, asked: Question) -> list[float]:
        """Log-odds of every class, NONE the last, by a network with one hidden layer over words."""
        last = self.network_words
        known = [row < last for row in asked.rows]
        weighed = [
            weight * math.sqrt(rarity)
            for weight, rarity in zip(
                compress(asked.weights, known), compress(asked.rarities, known), strict=True
            )
        ]
        gain = 4 * INPUT_GAIN / (math.sqrt(sum(map(mul, weighed, weighed))) or 1.0)
        raised = self._to_hidden.sums(
            list(compress(asked.rows, known)), [int(value * STEPS / 4) for value in weighed]
        )
        hidden = [
            max(0, min(3 * STEPS, int((s * gain + b) * STEPS / 4)))
            for s, b in zip(raised, self.hidden_bias, strict=True)
        ]
        sums = self._to_classes.sums(range(len(hidden)), hidden)
        return [4 * s + b for s, b in zip(sums, self.network_bias, strict=True)]

    def meaning(self, point: list[float]) -> list[float]:
        """Log-odds of every class, NONE the last, by a network with one hidden layer over meaning.

        `point` is what `encoder` makes of the report.
        """
        raised = [
            max(0.0, MEANING_GAIN * s + b)
            for s, b in zip(self._to_head.product(point), self.head_bias, strict=True)
        ]
        return list(map(add, self._of_head.product(raised), self.meaning_bias))

    def counted(self, asked: Question) -> list[float]:
        """BM25F of every entry; each word of the question counts once."""
        return self._counted.sums_alike([(STEPS, asked.rows)])[: len(self.entries)]

    def telling(self, asked: Question, most: int) -> int:
        """How many words and concepts of a question the ranking has seen, counted up to `most`.

        Plain numbers and pairs don't count.
        """
        count = 0
        for word in asked.words:
            count += (
                "+" not in word
                and word[0] != "%"
                and word[:2] not in ("x:", "#n")
                and not word[1:].isdigit()
            )
            if count == most:
                break
        return count

    def strongest(self, asked: Question) -> list[tuple[str, int, float]]:
        """(word, row, weight) of the single words that `reasons` considers, heaviest first."""
        heaviest = sorted(range(len(asked.words)), key=asked.weights.__getitem__, reverse=True)[
            :MOST_REASONS
        ]
        words = [(asked.words[at], asked.rows[at], asked.weights[at]) for at in heaviest]
        return [told for told in words if is_single(told[0])]

    def reasons(
        self, name: str, strongest: list[tuple[str, int, float]], most: int = 5
    ) -> list[str]:
        """At most `most` of the words that `strongest` gave: those that speak most for a class."""
        column, matrix = self.column[name], self._learned
        spoken = sorted(
            [(value * matrix.at(row, column), word) for word, row, value in strongest], reverse=True
        )
        told: list[str] = []
        for weight, word in spoken:
            if weight <= 0 or len(told) == most:
                break
            word = readable(word)
            if word and not any(word in other or other in word for other in told):
                told.append(word)
        return told


@lru_cache(maxsize=1)
def load() -> Ranking:
    """The ranking of this installation."""
    return Ranking(mapped(PLACE))
