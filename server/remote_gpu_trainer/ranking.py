"""ranking.bin: the numbers that ranking needs, in a form that needs no work before it is asked.

One line of JSON (classes, weights, limits), then the parts, as binary_parts.py has them. The words are a table of their own (vocabulary.py); those that the network knows have the first rows.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from operator import add
from pathlib import Path

from .binary_parts import Bytes, mapped, unpack
from .matrices import STEPS, Dense, Sparse
from .meaning import load as load_meaning
from .records import record
from .vocabulary import Rows

NONE = "none"
VOTERS = ("learned", "counted share", "counted", "signature share", "signature", "signature elsewhere", "network", "meaning")
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
    "constant",
)
PLACE = Path(__file__).with_name("ranking.bin")
MOST_REASONS = 60  # words of a question that are asked why
INPUT_GAIN = 3.0  # a report's words, scaled to length 1, reach the network this much stronger
MEANING_GAIN = 8.0  # and its meaning, of length 1 as well, reaches the head this much


@record
class Question:
    """The words of a report that the ranking knows, as (word, row, weight), and how many it doesn't know."""

    known: list[tuple[str, int, float]]
    unknown: int


class Ranking:
    """What evals/train.py learned. Raises ValueError when the bytes are no ranking."""

    def __init__(self, data: Bytes):
        about, parts = unpack(data, PLACE.name, "evals/train.py")
        self.classes: list[str] = about["classes"]
        self.weights: list[float] = about["weights"]
        self.gate_weights: list[float] = about["gate_weights"]  # of the voters but meaning, by which the gate ranks
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
        self._learned = Sparse(parts["learned starts"], parts["learned places"], parts["learned values"], columns, scales["learned"])
        self._counted = Sparse(parts["counted starts"], parts["counted places"], parts["counted values"], columns, scales["counted"])
        self._to_hidden = Dense(parts["words to hidden"], hidden, scales["words to hidden"])
        self._to_classes = Dense(parts["hidden to classes"], columns, scales["hidden to classes"])
        self._to_head = Dense(parts["points to head"], len(self.head_bias), scales["points to head"])
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
        found = [(word, row, value) for (word, value), row in zip(values.items(), map(self.rows.__getitem__, values)) if row is not None]
        return Question(found, len(values) - len(found))

    def learned(self, asked: Question) -> tuple[list[float], float]:
        """(the classifier's score of every class, NONE the last; the score for any entry at all).

        The first weighs known words by the root of their rarity. The second asks which words occur, weighted by rarity,
        unknown ones too, so that a report of unknown words tells little.
        """
        rarity, speaks = self.rarity, self.inside
        rows_of: dict[int, list[int]] = {}
        length = inside = 0.0
        rare = asked.unknown * self.unknown * self.unknown
        for _, row, value in asked.known:
            r = rarity[row]
            weight = int(value * STEPS)
            if weight in rows_of:
                rows_of[weight].append(row)
            else:
                rows_of[weight] = [row]
            length += value * value * r
            rare += r * r
            inside += speaks[row]
        length = math.sqrt(length) or 1.0
        sums = [s / length + b for s, b in zip(self._learned.sums_alike(rows_of), self.bias)]
        return sums, inside / (math.sqrt(rare) or 1.0) + self.bias[-1]

    def network(self, asked: Question) -> list[float]:
        """Log-odds of every class, NONE the last, by a network with one hidden layer over single words."""
        weighted, length, last, rarity = [], 0.0, self.network_words, self.rarity
        for _, row, value in asked.known:
            if row < last:
                root = math.sqrt(rarity[row])
                weighted.append((row, int(value * root * STEPS / 4)))
                length += value * value * root * root
        gain = 4 * INPUT_GAIN / (math.sqrt(length) or 1.0)
        raised = [s * gain + b for s, b in zip(self._to_hidden.sums(weighted), self.hidden_bias)]
        sums = self._to_classes.sums([(row, min(3 * STEPS, int(value * STEPS / 4))) for row, value in enumerate(raised) if value > 0])
        return [4 * s + b for s, b in zip(sums, self.network_bias)]

    def meaning(self, point: list[float]) -> list[float]:
        """Log-odds of every class, NONE the last, by a network with one hidden layer over what `encoder` makes of a report."""
        raised = [max(0.0, MEANING_GAIN * s + b) for s, b in zip(self._to_head.product(point), self.head_bias)]
        return list(map(add, self._of_head.product(raised), self.meaning_bias))

    def counted(self, asked: Question) -> list[float]:
        """BM25F of every entry: unit weights of the question's words."""
        return self._counted.sums_alike({STEPS: [row for _, row, _ in asked.known]})[: len(self.entries)]

    def telling(self, asked: Question, most: int) -> int:
        """How many words and concepts of a question the ranking has seen, counted up to `most`. Plain numbers and pairs don't count."""
        count = 0
        for word, _, _ in asked.known:
            count += "+" not in word and word[0] != "%" and word[:2] not in ("x:", "#n") and not word[1:].isdigit()
            if count == most:
                break
        return count

    def strongest(self, asked: Question) -> list[tuple[str, int, float]]:
        """The words of a question that are asked why, heaviest first."""
        return sorted(asked.known, key=lambda item: -item[2])[:MOST_REASONS]

    def reasons(self, name: str, strongest: list[tuple[str, int, float]], most: int = 5) -> list[str]:
        """The words that speak most for a class, of those that `strongest` gave."""
        column, matrix = self.column[name], self._learned
        spoken = [
            (value * matrix.at(row, column), word)
            for word, row, value in strongest
            if word[0] != "%" and "+" not in word
        ]  # fmt: skip
        spoken.sort(reverse=True)
        told: list[str] = []
        for weight, word in spoken:
            if weight <= 0 or len(told) == most:
                break
            word = word.removeprefix("x:").lstrip("#@")
            if word and not any(word in other or other in word for other in told):
                told.append(word)
        return told


@lru_cache(maxsize=1)
def load() -> Ranking:
    """The ranking of this installation."""
    return Ranking(mapped(PLACE))
