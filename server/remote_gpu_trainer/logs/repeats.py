"""Did two runs, or two attempts, end at the same step in the same way? Python 3.8.

The runner asks the same of its attempts, and starts no third one then.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from ..readings.line import read
from .kinds import APART, EXCEPTION, FAILURE, MESSAGE, PLAIN
from .lines import Line

_SPOKEN = (PLAIN, MESSAGE, *APART)
_NUMBER = re.compile(r"\d+|0x[0-9a-f]+")
# [default] Worker group FAILED. 2/3 attempts left; will restart worker group
RESTART = "will restart worker group"
MOST = 400  # characters of an error that are compared


class End(NamedTuple):
    """The words of the last failure, their numbers apart, and the last step before it."""

    words: str
    step: str


def same_end(before: list[Line], after: list[Line]) -> bool:
    """Return whether both of two runs, by their lines, failed with the same words at the same step.

    Two runs that failed before any step count as such too.
    """
    end = end_of(after)
    return end is not None and end_of(before) == end


def of_attempts(lines: list[Line]) -> bool:
    """Return whether the last two attempts of torchrun ended in the same way."""
    attempts: dict[int, list[Line]] = {}
    attempt = attempts_in(lines)
    for line in lines:
        number = attempt(line)
        if number is not None:
            attempts.setdefault(number, []).append(line)
    last = sorted(attempts)[-2:]
    if len(last) < 2:
        return False
    return same_end(attempts[last[0]], attempts[last[1]])


def attempt_of(source: str) -> int | None:
    """Return which of torchrun's attempts wrote a log: 1 for "attempt_1/0/stderr.log"."""
    number = source.partition("attempt_")[2].partition("/")[0]
    return int(number) if number.isdecimal() else None


def attempts_in(lines: list[Line]) -> Callable[[Line], int | None]:
    """Return what tells which of torchrun's attempts wrote a line, None where nothing says so.

    The name of its log does, or how often the launcher told before it that it restarts the ranks.
    """
    restarts: dict[str, list[int]] = {}
    for line in lines:
        if RESTART in line.text:
            restarts.setdefault(line.source, []).append(line.number)

    def attempt(line: Line) -> int | None:
        named = attempt_of(line.source)
        if named is None and line.source in restarts:
            return bisect_left(restarts[line.source], line.number)
        return named

    return attempt


def end_of(lines: list[Line]) -> End | None:
    """Return how a run ended, None where no failure of its own is seen."""
    failed = [
        line for line in lines if line.kind in (EXCEPTION, FAILURE) and not line.says("secondary")
    ]
    if not failed:
        return None
    last = [line for line in failed if line.kind == EXCEPTION] or failed
    return End(_NUMBER.sub("#", last[-1].text.strip()[:MOST]), _step(lines))


def _step(lines: list[Line]) -> str:
    """The last step and epoch that one of these lines tells, "" where none does."""
    for line in reversed(lines):
        if line.kind in _SPOKEN:
            said = read(line.text)
            if said.step is not None or said.epoch is not None:
                return f"{said.epoch} {said.step}"
    return ""
