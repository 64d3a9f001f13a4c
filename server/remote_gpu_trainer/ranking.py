"""ranking.bin: the numbers that ranking needs, in a form that needs no work before it is asked.

One line of JSON (classes, weights, limits, and the name, type and length of each part), then the parts, little-endian, read where they
lie. The words are a table of their own (vocabulary.py); those that the network knows have the first rows.
"""

from __future__ import annotations

import json
import math
import sys
from array import array
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .matrices import STEPS, Dense, Sparse
from .vocabulary import Rows

NONE = "none"
VOTERS = ("learned", "counted share", "counted", "signature share", "signature", "signature elsewhere", "network")
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


@dataclass(frozen=True)
class Question:
    """The words of a report that the ranking knows, as (word, row, weight), and how many it doesn't know."""

    known: list[tuple[str, int, float]]
    unknown: int


class Ranking:
    """What evals/train.py learned. Raises ValueError when the bytes are no ranking."""

    def __init__(self, data: bytes):
        end = data.find(b"\n") + 1
        about = json.loads(data[:end])
        self.classes: list[str] = about["classes"]
        self.weights: list[float] = about["weights"]
        self.gate: list[float] = about["gate"]
        self.limits: dict[str, float] = about["limits"]
        self.bias: list[float] = about["bias"]
        self.hidden_bias: list[float] = about["hidden_bias"]
        self.network_bias: list[float] = about["network_bias"]
        self.unknown: float = about["unknown"]  # the rarity of a word never seen
        self.made_from: dict[str, str] = about["made_from"]
        parts, scales, columns, hidden = _unpack(about["parts"], memoryview(data)[end:]), about["scales"], len(self.classes), len(self.hidden_bias)
        self.rows = Rows(parts["words"], parts["word starts"], parts["word slots"])
        self.network_words = len(parts["words to hidden"]) // hidden
        self._learned = Sparse(parts["learned starts"], parts["learned places"], parts["learned values"], columns, scales["learned"])
        self._counted = Sparse(parts["counted starts"], parts["counted places"], parts["counted values"], columns, scales["counted"])
        self._to_hidden = Dense(parts["words to hidden"], hidden, scales["words to hidden"])
        self._to_classes = Dense(parts["hidden to classes"], columns, scales["hidden to classes"])
        self.rarity, self.inside = parts["rarity"], parts["inside"]
        self._column = {name: column for column, name in enumerate(self.classes)}

    def question(self, values: dict[str, float]) -> Question:
        """The weighted words of a report as rows of the matrices."""
        found = [(word, row, value) for (word, value), row in zip(values.items(), map(self.rows.__getitem__, values)) if row is not None]
        return Question(found, len(values) - len(found))

    def learned(self, asked: Question) -> tuple[dict[str, float], float]:
        """(the classifier's score of every class, NONE among them; the score for any entry at all).

        The first weighs known words by the root of their rarity. The second asks which words occur, weighted by rarity,
        unknown ones too, so that a report of unknown words tells little.
        """
        rarity, speaks = self.rarity, self.inside
        weighted, length, inside = [], 0.0, 0.0
        rare = asked.unknown * self.unknown * self.unknown
        for _, row, value in asked.known:
            r = rarity[row]
            weighted.append((row, int(value * STEPS)))
            length += value * value * r
            rare += r * r
            inside += speaks[row]
        length = math.sqrt(length) or 1.0
        sums = [s / length + b for s, b in zip(self._learned.sums(weighted), self.bias)]
        return dict(zip(self.classes, sums)), inside / (math.sqrt(rare) or 1.0) + self.bias[-1]

    def network(self, asked: Question) -> dict[str, float]:
        """Log-odds of every class, NONE among them, by a network with one hidden layer over single words."""
        weighted, length, last, rarity = [], 0.0, self.network_words, self.rarity
        for _, row, value in asked.known:
            if row < last:
                root = math.sqrt(rarity[row])
                weighted.append((row, int(value * root * STEPS / 4)))
                length += value * value * root * root
        gain = 4 * INPUT_GAIN / (math.sqrt(length) or 1.0)
        raised = [s * gain + b for s, b in zip(self._to_hidden.sums(weighted), self.hidden_bias)]
        sums = self._to_classes.sums([(row, min(3 * STEPS, int(value * STEPS / 4))) for row, value in enumerate(raised) if value > 0])
        return {name: 4 * s + b for name, s, b in zip(self.classes, sums, self.network_bias)}

    def counted(self, asked: Question) -> dict[str, float]:
        """BM25F of every entry: unit weights of the question's words, NONE left out."""
        sums = self._counted.sums([(row, STEPS) for _, row, _ in asked.known])
        return {name: s for name, s in zip(self.classes, sums) if name != NONE}

    def telling(self, asked: Question, most: int) -> int:
        """How many words and concepts of a question the ranking has seen, counted up to `most`. Plain numbers and pairs don't count."""
        count = 0
        for word, _, _ in asked.known:
            count += "+" not in word and word[0] != "%" and word[:2] not in ("x:", "#n") and not word[1:].isdigit()
            if count == most:
                break
        return count

    def reasons(self, name: str, asked: Question, most: int = 5) -> list[str]:
        """The words of the question that speak most for a class."""
        column, matrix = self._column[name], self._learned
        spoken = [
            (value * matrix.at(row, column), word)
            for word, row, value in sorted(asked.known, key=lambda item: -item[2])[:MOST_REASONS]
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


def _unpack(parts: list[list], data: memoryview) -> dict[str, memoryview]:
    found, place = {}, 0
    for name, code, count in parts:
        end = place + count * array(code).itemsize
        part = data[place:end]
        if len(part) == end - place:
            found[name] = part.cast(code) if sys.byteorder == "little" else _turned(code, part)
        place = end
    if place != len(data):
        raise ValueError(f"found {len(data)} bytes after the head of ranking.bin, expected {place}; run evals/train.py")
    return found


def _turned(code: str, data: memoryview) -> memoryview:
    """The numbers of a part on a machine whose bytes lie the other way round."""
    part = array(code, bytes(data))
    part.byteswap()
    return memoryview(part)


def pack(about: dict, parts: dict[str, array]) -> bytes:
    """The bytes of ranking.bin. `about` holds everything that Ranking reads from the head but `parts`."""
    head = {**about, "parts": [[name, part.typecode, len(part)] for name, part in parts.items()]}
    return json.dumps(head, ensure_ascii=False).encode() + b"\n" + b"".join(part.tobytes() for part in parts.values())


@lru_cache(maxsize=1)
def load() -> Ranking:
    """The ranking of this installation."""
    return Ranking(PLACE.read_bytes())
