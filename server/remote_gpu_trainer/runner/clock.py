"""Time as the runner sees it. Tests put a clock of their own in its place."""

from __future__ import annotations

import time


class Clock:
    """The box's clocks: one that somebody may set, and one that nobody sets."""

    def now(self) -> float:
        """Seconds since 1970, by the clock that can jump."""
        return time.time()

    def up(self) -> float:
        """Seconds of a clock that only runs forward; it stands still while a machine sleeps."""
        return time.monotonic()

    def nap(self, seconds: float) -> None:
        """Sleep; a signal handler may run meanwhile."""
        time.sleep(max(seconds, 0.0))
