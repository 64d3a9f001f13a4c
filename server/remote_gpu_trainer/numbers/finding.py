"""A finding about the numbers of a log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NumbersFinding:
    """What the numbers show, and the line where it begins.

    `message` is in the words in which people report it: a fault without an `entry` is looked up by
    them. `lost`: the training loss stays nan, so everything after that line is worthless.
    `end` is what `runner.failures` calls the end that a scheduler tells, where that decides.
    """

    row: int
    message: str
    entry: str = ""
    fault: bool = True
    lost: bool = False
    end: str = ""
