"""Which files of the runner's log each of its attempts wrote, and how it ended. Python 3.8.

The runner tells both in the events.jsonl of its folder, so nothing has to be guessed from the text.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ..text.masking import shown
from .files import Unreadable

EVENTS = "events.jsonl"
LARGEST = 16 << 20  # bytes of events that are read
MOST_TOLD = 3  # earlier attempts that a sentence tells of
# Ends that the runner brought about, or was told of. A failure in the log is a consequence.
FROM_OUTSIDE = ("preempted", "deadline", "stall")
_PART = re.compile(r"train\.log\.(\d{4,9})\Z")


class Attempt(NamedTuple):
    """An attempt, the files of its log, and its end: a class of `runner.failures`, "" for success.

    `failure` is None for one that nobody saw end.
    """

    number: int
    files: list[str]
    failure: str | None = None
    reason: str = ""

    def ended(self, raised: Mapping[int, str] = MappingProxyType({})) -> str:
        """How it failed, in words; "" where it didn't. `raised` as in `said`."""
        how = raised.get(self.number) or self.reason or self.failure
        return f"attempt {self.number}: {how}" if self.failure else ""

    def ended_as(self) -> str:
        """What `runner.failures` calls the end."""
        return "stopped" if self.reason == "asked" else self.failure or ""


def attempts(paths: Sequence[str]) -> list[Attempt]:
    """Return the attempts that wrote these files of a runner's log; none if no events tell them."""
    if not paths or not all(_PART.search(path) for path in paths):
        return []
    folder = os.path.dirname(os.path.dirname(os.path.abspath(paths[0])))
    begun, ended = _read_ends(os.path.join(folder, EVENTS))
    files = {int(_PART.search(path)[1]): path for path in paths}  # type: ignore[index]
    order = sorted(begun)
    found = []
    for at, number in enumerate(order):
        last = begun[order[at + 1]] if at + 1 < len(order) else max(files) + 1
        own = [files[part] for part in sorted(files) if begun[number] <= part < last]
        found.append(Attempt(number, own, *ended.get(number, (None, ""))))
    return found


def choose(found: list[Attempt], run: int | None) -> Attempt:
    """Return the attempt of this number, or the last one of which a log is there for None.

    Raises Unreadable for a number that left none.
    """
    for attempt in reversed(found):
        if attempt.files and run in (None, attempt.number):
            return attempt
    what = f"attempt {run} of" if run else "the attempts of"
    raise Unreadable(f"no log is here of {what} {len(found)}; pass --run all")


def choose_before(found: list[Attempt], chosen: Attempt) -> list[Attempt]:
    """Return the attempts before this one of which a sentence tells."""
    return [other for other in found if other.number < chosen.number][-MOST_TOLD:]


def said(found: list[Attempt], chosen: Attempt, raised: Mapping[int, str]) -> str:
    """Return which attempt was read, and how those before it ended; also later ones without a log.

    `raised` are the names of exceptions that ended attempts, by their numbers.
    """
    behind = [other for other in found if other.number > chosen.number and not other.files]
    others = [*choose_before(found, chosen), *behind[-MOST_TOLD:]]
    which = f"attempt {chosen.number} of {len(found)}" if len(found) > 1 else ""
    return "; ".join(filter(None, [which, *(other.ended(raised) for other in others)]))


def _read_ends(path: str) -> tuple[dict[int, int], dict[int, tuple[str, str]]]:
    """({attempt: its first file}, {attempt: (class of its end, reason)}) as the events tell it."""
    begun: dict[int, int] = {}
    ended: dict[int, tuple[str, str]] = {}
    for event in _events(path):
        number, first = str(event.get("attempt")), str(event.get("log"))
        if not _is_count(number):
            continue
        if event.get("event") == "attempt" and _is_count(first):
            begun[int(number)] = int(first)
        elif event.get("event") == "ended":
            reason = shown(str(event.get("reason", "")), 160).replace("`", "")
            ended[int(number)] = (shown(str(event.get("class", "")), 20), reason)
    return begun, ended


def _events(path: str) -> list[dict]:
    """The events of a file; a line that a crash cut is none."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > LARGEST:
            return []
        with open(path, encoding="utf-8", errors="replace") as file:
            rows = file.read(LARGEST).splitlines()
    except OSError:
        return []
    found = []
    for row in rows:
        try:
            event = json.loads(row)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            found.append(event)
    return found


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
