"""A function's answers by what it was asked, as a dict: to ask it again costs one look into a table, and `map` asks it without running any Python.

`functools.lru_cache` keeps an order and counts besides, which costs as much as the small functions of the look-up themselves.
"""

from __future__ import annotations

from collections.abc import Callable

MOST = 20_000  # answers that are kept; then it begins anew


class Remembered(dict):
    """remembered[x] is function(x)."""

    def __init__(self, function: Callable, most: int = MOST):
        super().__init__()
        self._function, self._most = function, most

    def __missing__(self, asked):
        if len(self) >= self._most:
            self.clear()
        self[asked] = found = self._function(asked)
        return found
