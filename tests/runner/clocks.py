"""A clock that tests own."""

from __future__ import annotations

from collections.abc import Callable


class Clock:
    """Time that passes by naps alone; `on_nap` is called after each."""

    def __init__(self, on_nap: Callable[[], object] = lambda: None):
        self.time, self.on_nap, self.ahead = 1_800_000_000.0, on_nap, 0.0

    def now(self) -> float:
        return self.time + self.ahead

    def jump(self, seconds: float) -> None:
        """Set the clock that can be set; the other one runs on."""
        self.ahead += seconds

    def up(self) -> float:
        return self.time - 1_799_999_000

    def nap(self, seconds: float) -> None:
        self.time += seconds
        self.on_nap()
