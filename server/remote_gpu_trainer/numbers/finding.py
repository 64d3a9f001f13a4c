"""One thing that the numbers of a log show."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """What the numbers show, and the line where it begins.

    `said` uses the words in which people report it, because a fault without an `entry` is looked up
    by its words. `lost`: the training loss stays nan, so everything after that line is worthless.
    """

    row: int
    said: str
    entry: str = ""
    fault: bool = True
    lost: bool = False
