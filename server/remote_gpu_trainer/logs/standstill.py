"""Does a log go on telling the time while the run stands still?

A run that hangs may still be written about: a scheduler's pulse, a heartbeat, the same step again
and again, a progress bar that is drawn anew. Such lines differ in nothing but their times. They
count if the log made progress before them, if they are at least TIMES times as many as ever came
in a row until then, and if their own times say that LEAST_S passed. A line that never stood beside
progress may be the progress itself, as "saving the checkpoint" is.

Standard library, Python 3.8.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import NamedTuple

from ..numbers.rows import Row
from ..text.masking import ANSI
from .ends import tells_progress

LEAST_S = 600  # seconds
ROUNDS = 3  # how often each line of the end comes again
MOST_FORMS = 4  # different lines that take turns at the end
TIMES = 2
MOST_TEXTS = 4000  # at the end of a log that are looked at
LONGEST = 400  # characters of a line

# 2022-05-01 03:56:11, the only time that needn't go on: several processes may write at once
_STAMP = r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
# 1-07:27:33 of Slurm, 1 day, 2:03:04 of Python, 1:02:03, 02:03
_LASTED = r"(?:(\d{1,4})(?:-| days?, ))?(\d{1,4}(?::\d\d){1,2})(?:[.,]\d{1,9})?"
_COUNTED = r"(\d{1,9}(?:\.\d{1,9})?) ?(s|secs?|seconds?|min|minutes?|h|hours?)\b"
_RATE = r"(?:\d{1,9}(?:\.\d{1,9})?|\?) ?(?:s/it|it/s)\b"
_TIME = re.compile(rf"{_STAMP}|{_LASTED}|{_RATE}|{_COUNTED}")
_DAY_S = 86_400
_UNITS_S = {"s": 1, "m": 60, "h": 3600}  # by the first letter of a unit


class Standstill(NamedTuple):
    """The lines at the end of a log, from `first` to `last`, that repeat for `seconds`."""

    first: int
    last: int
    seconds: int

    def describe(self) -> str:
        """Return a sentence about it."""
        minutes = self.seconds // 60
        lasted = f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} hours"
        what = f"lines {self.first} to {self.last} differ in nothing but their times"
        if self.first == self.last:
            what = f"the bar in line {self.first} changes nothing but its times"
        return f"No line tells of an error, but the run stands still: {what}, over {lasted}."


def standstill_of(rows: Sequence[Row]) -> Standstill | None:
    """Return the standstill in which these rows of one log end, None where they end in none."""
    texts = _texts_of(rows[-MOST_TEXTS:])
    forms = [_TIME.sub("#", text) for _, text in texts]
    start = _start_of_end(forms)
    end = set(forms[start:])
    if not end or not any(tells_progress(text) for _, text in texts[:start]):
        return None
    if len(forms) - start < TIMES * _longest_before(forms[:start], end):
        return None
    seconds = _seconds_of(texts[start:], forms[start:])
    if seconds < LEAST_S:
        return None
    return Standstill(texts[start][0], texts[-1][0], seconds)


def _texts_of(rows: Sequence[Row]) -> list[tuple[int, str]]:
    """(line number, text) of all that isn't blank. A bar that was drawn anew counts each time."""
    texts: list[tuple[int, str]] = []
    for number, raw in rows:
        for part in raw[-LONGEST * 100 :].split(b"\r"):
            text = part[:LONGEST].decode("utf-8", "replace")
            text = (ANSI.sub("", text) if "\x1b" in text else text).strip()
            if text:
                texts.append((number, text))
    return texts[-MOST_TEXTS:]


def _start_of_end(forms: list[str]) -> int:
    """Where the longest end begins whose lines all come ROUNDS times; the length without one."""
    count: Counter[str] = Counter()
    start = len(forms)
    for at in range(len(forms) - 1, -1, -1):
        count[forms[at]] += 1
        if len(count) > MOST_FORMS:
            break
        if min(count.values()) >= ROUNDS:
            start = at
    return start


def _longest_before(forms: list[str], end: set[str]) -> int:
    """The most lines in a row that were of the end's forms."""
    longest = row = 0
    for form in forms:
        row = row + 1 if form in end else 0
        longest = max(longest, row)
    return longest


def _seconds_of(texts: list[tuple[int, str]], forms: list[str]) -> int:
    """The longest time that a form's own times say, 0 if one of them goes back.

    How long each epoch took goes up and down: such a line tells of work.
    """
    longest = 0.0
    for form in set(forms):
        same = [text for (_, text), other in zip(texts, forms) if other == form]
        for times in zip(*map(_times_in, same)):
            if any(a > b for a, b in zip(times, times[1:])):
                return 0
            longest = max(longest, times[-1] - times[0])
    return int(longest)


def _times_in(text: str) -> list[float]:
    """The times in a text in their order, in seconds; 0 for a rate."""
    return [_seconds(hit) for hit in _TIME.finditer(text)]


def _seconds(hit: re.Match) -> float:
    *stamp, days, lasted, count, unit = hit.groups()
    if stamp[0]:
        try:
            return datetime(*map(int, stamp), tzinfo=timezone.utc).timestamp()
        except ValueError:  # no day of the calendar
            return 0.0
    if lasted:
        parts = [int(part) for part in reversed(lasted.split(":"))]
        return int(days or 0) * _DAY_S + sum(part * 60**at for at, part in enumerate(parts))
    return float(count) * _UNITS_S[unit[0]] if count else 0.0
