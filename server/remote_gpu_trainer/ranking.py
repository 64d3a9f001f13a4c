"""ranking.bin: the numbers that ranking needs, in a form that loads in a few milliseconds.

One line of JSON (classes, weights, limits, lengths), the vocabulary one word a line, then for each of the two
matrices the row starts (uint32), the classes (uint16) and the values (int8, times a scale), last for each word how
rare it is and how much it speaks for any entry at all (float32). Little-endian.
"""

from __future__ import annotations

import json
import math
import sys
from array import array
from functools import lru_cache
from pathlib import Path

NONE = "none"
VOTERS = ("learned", "counted share", "counted", "signature share", "signature", "signature elsewhere")
GATE = ("inside", "best learned", "lead over the second", "best counted", "signature", "signature elsewhere", "constant")
PLACE = Path(__file__).with_name("ranking.bin")


class _Matrix:
    """Rows of sparse small integers: one row a word, one column a class."""

    def __init__(self, starts: array, columns: array, values: array, scale: float):
        self.starts, self.columns, self.values, self.scale = starts, columns, values, scale

    def add(self, row: int, weight: float, sums: list[float]) -> None:
        weight *= self.scale
        values, columns = self.values, self.columns
        for at in range(self.starts[row], self.starts[row + 1]):
            sums[columns[at]] += weight * values[at]

    def at(self, row: int, column: int) -> float:
        for at in range(self.starts[row], self.starts[row + 1]):
            if self.columns[at] == column:
                return self.values[at] * self.scale
        return 0.0


class Ranking:
    """What evals/train.py learned. Raises ValueError when the bytes are no ranking."""

    def __init__(self, data: bytes):
        head, _, rest = data.partition(b"\n")
        about = json.loads(head)
        self.classes: list[str] = about["classes"]
        self.weights: list[float] = about["weights"]
        self.gate: list[float] = about["gate"]
        self.limits: dict[str, float] = about["limits"]
        self.bias: list[float] = about["bias"]
        self.unknown: float = about["unknown"]  # the rarity of a word never seen
        self.made_from: dict[str, str] = about["made_from"]
        words = rest[: about["vocabulary"]].decode().split("\n")
        self.rows = dict(zip(words, range(len(words))))
        place = about["vocabulary"]

        def take(code: str, count: int) -> array:
            nonlocal place
            part = array(code)
            part.frombytes(rest[place : place + count * part.itemsize])
            if sys.byteorder == "big":
                part.byteswap()
            place += count * part.itemsize
            return part

        self._matrices = []
        for size, scale in about["matrices"]:
            self._matrices.append(_Matrix(take("I", len(words) + 1), take("H", size), take("b", size), scale))
        self.rarity, self.inside = take("f", len(words)), take("f", len(words))
        if place != len(rest):
            raise ValueError(f"found {len(rest)} bytes after the head of ranking.bin, expected {place}; run evals/train.py")
        self._column = {name: column for column, name in enumerate(self.classes)}

    def learned(self, values: dict[str, float]) -> tuple[dict[str, float], float]:
        """(the classifier's score of every class, NONE among them; the score for any entry at all).

        The second asks which words occur, weighted by rarity, so that a report of unknown words tells little.
        """
        sums = self._sums(self._matrices[0], values, self.bias[:-1])
        inside = length = 0.0
        for word in values:
            row = self.rows.get(word)
            rarity = self.unknown if row is None else self.rarity[row]
            length += rarity * rarity
            if row is not None:
                inside += self.inside[row]
        return dict(zip(self.classes, sums)), inside / (math.sqrt(length) or 1.0) + self.bias[-1]

    def counted(self, values: dict[str, float]) -> dict[str, float]:
        """BM25F of every entry: unit weights of the question's words, NONE left out."""
        present = {word: 1.0 for word in values}
        sums = self._sums(self._matrices[1], present, [0.0] * len(self.classes))
        return {name: s for name, s in zip(self.classes, sums) if name != NONE}

    def _sums(self, matrix: _Matrix, values: dict[str, float], start: list[float]) -> list[float]:
        sums = list(start)
        rows = self.rows
        for word, value in values.items():
            row = rows.get(word)
            if row is not None:
                matrix.add(row, value, sums)
        return sums

    def known(self, values: dict[str, float]) -> set[str]:
        """The words and concepts of a question that the ranking has seen. Plain numbers and pairs don't count."""
        return {word for word in values if word in self.rows and "+" not in word and not word.startswith(("x:", "%", "#num")) and not word[1:].isdigit()}

    def reasons(self, name: str, values: dict[str, float], most: int = 5) -> list[str]:
        """The words of the question that speak most for a class."""
        column = self._column[name]
        spoken = []
        for word, value in values.items():
            row = self.rows.get(word)
            if row is not None and word[0] not in "%":
                spoken.append((value * self._matrices[0].at(row, column), word))
        spoken.sort(reverse=True)
        told: list[str] = []
        for weight, word in spoken:
            word = word.removeprefix("x:").replace("+", " ").lstrip("#@")
            if weight > 0 and word and not any(word in other or other in word for other in told):
                told.append(word)
        return told[:most]


@lru_cache(maxsize=1)
def load() -> Ranking:
    """The ranking of this installation."""
    return Ranking(PLACE.read_bytes())


def pack(about: dict, words: list[str], matrices: list[tuple[array, array, array, float]], rarity: array, inside: array) -> bytes:
    """The bytes of ranking.bin. `about` holds classes, weights, gate, limits, bias, unknown and made_from."""
    vocabulary = "\n".join(words).encode()
    head = {**about, "vocabulary": len(vocabulary), "matrices": [[len(columns), scale] for _, columns, _, scale in matrices]}
    body = b"".join(part.tobytes() for starts, columns, values, _ in matrices for part in (starts, columns, values))
    return json.dumps(head, ensure_ascii=False).encode() + b"\n" + vocabulary + body + rarity.tobytes() + inside.tobytes()
