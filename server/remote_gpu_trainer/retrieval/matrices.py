"""Sums of weighted rows of small integers, in plain Python, at the price of one product a row.

A row is one long integer with LANE bytes a column. MIDDLE is added to each value so that none is
negative, and taken off the sums again. Weights are whole thousandths, so a lane never overflows:
255 · 3000 · 5000 rows stay below 2³².
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import compress
from operator import mul

LANE, MIDDLE = 4, 128
HALF = 1 << 31  # what a lane begins with where sums may fall below zero
LEAST = 1e-12  # a vector without a larger number counts as zeros
STEPS = 1000  # weights are counted in thousandths
MOST_BYTES = 24 << 20  # of rows that are kept as long integers


class Matrix:
    """What sparse and dense rows share. Coefficients are the stored integers times `scale`."""

    def __init__(self, columns: int, scale: float):
        self.columns, self.scale = columns, scale
        blank = bytearray(LANE * columns)
        blank[::LANE] = bytes([MIDDLE]) * columns
        self._blank = bytes(blank)
        self._half = int.from_bytes(HALF.to_bytes(LANE, "little") * columns, "little")
        self._row = lru_cache(MOST_BYTES // (LANE * columns))(self._long)

    def _lanes(self, row: int) -> bytearray | None:
        """The bytes of a row, or None for one that is empty."""
        raise NotImplementedError

    def _long(self, row: int) -> int:
        lanes = self._lanes(row)
        return int.from_bytes(lanes, "little") if lanes else 0

    def _found(self, rows: Iterable[int]) -> list[int]:
        """These rows as long integers, 0 for an empty one."""
        return list(map(self._row, rows))

    def sums(self, rows: Sequence[int], weights: Sequence[int]) -> list[float]:
        """For each column the sum of weight times coefficient, over these rows.

        Weights are in thousandths, from 0 to 3000.
        """
        found = self._found(rows)
        total = sum(map(mul, found, weights))
        return self._summed(
            total,
            sum(weights)
            if all(found)
            else sum(weight for lanes, weight in zip(found, weights, strict=True) if lanes),
        )

    def sums_alike(self, groups: Iterable[tuple[int, list[int]]]) -> list[float]:
        """As `sums`, over (weight in thousandths, its rows).

        Rows of one weight are added up first, so there is one product a weight.
        """
        total = weights = 0
        for weight, rows in groups:
            filled = list(filter(None, self._found(rows)))
            total += sum(filled) * weight
            weights += len(filled) * weight
        return self._summed(total, weights)

    def _summed(self, total: int, weights: int) -> list[float]:
        """The columns of a sum of weights in thousandths, as coefficients."""
        middle, scale = MIDDLE * weights, self.scale / STEPS
        return [(lane - middle) * scale for lane in self._lanes_of(total)]

    def _lanes_of(self, total: int) -> array:
        """The columns of a sum."""
        found = array("I", total.to_bytes(LANE * self.columns, "little"))
        if sys.byteorder == "big":
            found.byteswap()
        return found

    def at(self, row: int, column: int) -> float:
        """One coefficient."""
        lanes = self._row(row)
        return ((lanes >> (8 * LANE * column) & 255) - MIDDLE) * self.scale if lanes else 0.0


class Sparse(Matrix):
    """Rows of (column, value): `starts` has one more item than there are rows."""

    def __init__(self, starts: array, places: array, values: array, columns: int, scale: float):
        super().__init__(columns, scale)
        self.starts, self.places, self.values = starts, places, values

    def _lanes(self, row: int) -> bytearray | None:
        start, end = self.starts[row], self.starts[row + 1]
        if start == end:
            return None
        lanes = bytearray(self._blank)
        places, values = self.places[start:end].tolist(), self.values[start:end].tolist()
        for place, value in zip(places, values, strict=True):
            lanes[place * LANE] = value + MIDDLE
        return lanes


class Dense(Matrix):
    """Rows of bytes, one a column, MIDDLE already added. Rows after the last are empty."""

    def __init__(self, values: bytes, columns: int, scale: float):
        super().__init__(columns, scale)
        self.bytes = values
        self._every: list[int] = []

    def _lanes(self, row: int) -> bytearray | None:
        values = self.bytes[row * self.columns : (row + 1) * self.columns]
        if not values:
            return None
        lanes = bytearray(self._blank)
        lanes[::LANE] = values
        return lanes

    def product(self, numbers: list[float]) -> list[float]:
        """A vector with one number a row, of either sign, times the matrix of up to 2,800 rows."""
        lanes, middle, step = self._product(numbers)
        scale = self.scale / step
        return [(lane - middle) * scale for lane in lanes]

    def _product(self, numbers: list[float]) -> tuple[array, int, float]:
        """(the lanes of the product, what each is too large by, how many steps go into 1)."""
        if len(self._every) != len(numbers):
            self._every = self._found(range(len(numbers)))
        top = max(map(abs, numbers), default=0.0)
        step = 3 * STEPS / (top if top > LEAST else 1.0)
        weights = [int(number * step) for number in numbers]
        total = sum(
            map(mul, compress(self._every, weights), compress(weights, weights)), self._half
        )
        return self._lanes_of(total), HALF + MIDDLE * sum(weights), step


def beside(one: Dense, other: Dense) -> Callable[[list[float]], tuple[list[float], list[float]]]:
    """The products of one vector with two matrices of equal height, for the price of one."""
    cut, rows = one.columns, len(one.bytes) // one.columns
    parts = (
        matrix.bytes[row * matrix.columns : (row + 1) * matrix.columns]
        for row in range(rows)
        for matrix in (one, other)
    )
    both = Dense(b"".join(parts), cut + other.columns, 1.0)

    def product(numbers: list[float]) -> tuple[list[float], list[float]]:
        lanes, middle, step = both._product(numbers)
        first, second = one.scale / step, other.scale / step
        return [(lane - middle) * first for lane in lanes[:cut]], [
            (lane - middle) * second for lane in lanes[cut:]
        ]

    return product
