"""Lines of a kernel log in a report: the reader in `kernel` alone says what failed in them.

The words of the kernel mislead whoever doesn't know them: `NMI watchdog: Enabled` is no failure,
and an Xid looks like any other line. So a line of the kernel tells of a failure only where the
reader finds an event in it. Of many lines of one event the first is kept, and says how many they
are. Events before the last boot, load of the driver or reset of the card are left out, and told.
Python 3.8.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Dict

from .kernel.advice import RANK
from .kernel.kernel_log import OLD, events_of
from .kernel.places import clean
from .kernel.storms import STAMP, storm
from .kinds import EXCEPTION, FAILURE, PLAIN, WARNING
from .lines import KERNEL_ROW, Line
from .windows import WHOLE

# NVRM: Xid (PCI:0000:3b:00): 45      what an answer quotes before the number of lines
HEAD = re.compile(r"NVRM: Xid \([^)]*\): \d+|.{1,60}\b")
# Clocks may be of two time zones, so an event shortly before the run may be one of the run.
BEFORE_THE_RUN = timedelta(days=1)
LARGEST = 1 << 28  # bytes of a file that is read once more to count a storm
_LEVELS = {**RANK, "ok": len(RANK)}

Event = Dict[str, Any]


def read(lines: list[Line], path: str = "") -> tuple[list[Line], str]:
    """Return the lines with what the reader says of those of the kernel, and what is old in them.

    `path` is the file that they come from, if it is one; of a large one only some lines are among
    `lines`, so a storm is counted in the file. The second is a sentence, or "".
    """
    sources: dict[str, list[Line]] = {}
    for line in lines:
        sources.setdefault(line.source, []).append(line)
    kept, old = [], []
    begin = None
    for own in sources.values():
        if any(KERNEL_ROW.match(line.text) for line in own):
            begin = begin or _begin(lines)
            own, ended = _of_one(own, path, begin)
            old += ended
        kept += own
    if kept == lines:
        return lines, ""
    order = {line.source: at for at, line in enumerate(reversed(lines))}
    kept.sort(key=lambda line: (-order[line.source], line.number))
    return kept if len(sources) > 1 else kept, _describe_old(old)


def _begin(lines: list[Line]) -> datetime:
    """The time of the first line of the run that has a date, the beginning of time without one."""
    times = (_date(line.time) for line in lines if not KERNEL_ROW.match(line.text))
    return min(filter(None, times), default=datetime.min + BEFORE_THE_RUN)


def _date(text: str) -> datetime | None:
    """The time that a line begins with, None for one without a year."""
    forms = {"[": ("[%a %b %d %H:%M:%S %Y]", 26)}
    form, most = forms.get(text[:1], ("%Y-%m-%d %H:%M:%S", 19))
    try:
        return datetime.strptime(re.sub(r"^([\d-]+)T", r"\1 ", text)[:most], form)
    except ValueError:
        return None


def _of_one(lines: list[Line], path: str, begin: datetime) -> tuple[list[Line], list[Event]]:
    """Return the lines of one source, and the events that ended, or came long before `begin`."""
    events, _ = events_of([f"{line.time} {line.text}".lstrip() for line in lines])
    for event in events:
        time = _date(event["line"])
        if time and time < begin - BEFORE_THE_RUN:
            event.update(old=True, before=True)
    old = [event for event in events if event["old"]]
    groups = _grouped(event for event in events if _counts(event))
    every = _grouped(_in_file(path)) if groups else {}
    worst = min((_level(group) for group in groups.values()), default=0)
    is_kernels = [bool(KERNEL_ROW.match(line.text)) for line in lines]
    own = any(
        line.kind in (EXCEPTION, FAILURE) and not of_kernel
        for line, of_kernel in zip(lines, is_kernels)
    )
    # Beside a failure of the program, a warning of the kernel is one of its consequences.
    leads = worst < _LEVELS["unknown"] or not own
    kinds: dict[int, Line] = {}
    dropped = {event["at"] for event in old}
    for key, group in groups.items():
        first = lines[group[0]["at"]]
        kind = FAILURE if leads and _level(group) == worst else WARNING
        alike = max(group, every.get(key, []), key=len)
        text = _with_number(group[0]["line"] if first.time == "" else first.text, alike)
        kinds[group[0]["at"]] = Line(first.source, first.number, first.rank, text, kind, first.time)
        dropped.update(event["at"] for event in group[1:])
    kept = []
    for at, (line, of_kernel) in enumerate(zip(lines, is_kernels)):
        if at in kinds:
            kept.append(kinds[at])
        elif at not in dropped:
            kept.append(line.of_kind(PLAIN) if of_kernel and line.kind != PLAIN else line)
    return kept, old


def _counts(event: Event) -> bool:
    """Whether an event is one that a reader should know: Xid 45 follows what went wrong."""
    return not event["old"] and (event["level"] != "ok" or event["code"] == 45)


def _grouped(events: Iterable[Event]) -> dict[tuple, list[Event]]:
    """{(place, kind, number): the events, in order}"""
    groups: dict[tuple, list[Event]] = {}
    for event in events:
        groups.setdefault((event["bdf"], event["kind"], event["code"]), []).append(event)
    return groups


def _level(group: list[Event]) -> int:
    return min(_LEVELS[event["level"]] for event in group)


def _in_file(path: str) -> list[Event]:
    """The events of a file that is too large to be kept whole; none of any other."""
    try:
        if not path or not WHOLE < os.path.getsize(path) <= LARGEST:
            return []
        with open(path, encoding="utf-8", errors="replace") as file:
            rows = [clean(row).rstrip("\n") for row in file if "NVRM" in row or OLD.search(row)]
    except OSError:
        return []
    return [event for event in events_of(rows)[0] if _counts(event)]


def _with_number(text: str, group: list[Event]) -> str:
    """The line of an event, with the number of lines, and from when to when, behind its head."""
    several = storm([event["line"] for event in group])
    if not several:
        return text
    bare = STAMP.sub("", text, count=1).strip()
    head = HEAD.search(bare)
    end = head.end() if head else 0
    return f"{bare[:end]},{several}{bare[end:]}"


def _describe_old(old: list[Event]) -> str:
    """A sentence on the events that are old, and why, or ""."""
    by_run = [event for event in old if event.get("before")]
    ended = [event for event in old if not event.get("before")]
    return " ".join(
        f"Old, and not counted, because {why}: {names}."
        for why, names in (
            ("a boot, a load of the driver or a reset ended it", _names(ended)),
            ("more than a day before this run's first line", _names(by_run)),
        )
        if names
    )


def _names(events: list[Event]) -> str:
    named = [
        f"Xid {event['code']}" if event["kind"] == "xid" else event["kind"]
        for event in events
        if event["level"] != "ok" and event["code"] != 154
    ]
    return ", ".join(list(dict.fromkeys(named))[:4])
