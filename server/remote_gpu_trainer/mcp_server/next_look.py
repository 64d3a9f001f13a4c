"""When another look at a run pays: seldom enough that no night costs more than `MOST` calls.

An agent's session keeps one server, so the looks of a night are counted here, for each question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SOONEST = 300  # seconds until another look tells anything new
SHARE = 0.1  # of the time left
NIGHT, MOST = 14 * 3600, 40  # seconds, and looks in them at most
FREE = 13  # looks that no run needs to wait for; after them the steps grow, by `SHARE` each
MOST_QUESTIONS = 200  # that are remembered, the newest


@dataclass
class _Watch:
    """The looks of a night: when the first was, when the next is due, and how many there were."""

    first: float
    due: float
    count: int = 0


class Looks:
    """The looks that were told to pay, by question."""

    def __init__(self) -> None:
        self._watches: dict[str, _Watch] = {}

    def next_in(self, question: str, left: Sequence[float | None], now: float) -> int | None:
        """Return the seconds until the same question pays again; None where nothing goes on.

        `left`: for each run that goes on the seconds until it ends, None where nobody knows. One
        whose time is over counts as unknown. A question that comes early isn't counted.
        """
        watch = self._watches.pop(question, None)
        if not left:
            return None
        if watch is None or now >= watch.first + NIGHT:
            watch = _Watch(now, now)
        self._watches[question] = watch
        while len(self._watches) > MOST_QUESTIONS:
            del self._watches[next(iter(self._watches))]
        counts = now >= watch.due
        watch.count += counts
        wanted = min(SHARE * (seconds or 0.0) for seconds in left)
        least = watch.first + _earliest(watch.count) - now
        seconds = math.ceil(max(SOONEST, wanted, least))
        if counts:
            watch.due = now + seconds
        return seconds


def _earliest(count: int) -> float:
    """Return the seconds of a night before which the look after so many isn't due.

    A run that keeps its time, whatever that is, never has as many looks by then.
    """
    return SOONEST / SHARE * (1 - SHARE) ** (FREE - 1 - count) if count >= FREE else 0.0
