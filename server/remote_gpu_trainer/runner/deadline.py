"""The deadline: absolute, and written once; and how long it still is by two clocks."""

from __future__ import annotations

import datetime
import re

from .context import Run

_SPAN = re.compile(r"hours:(\d+(?:\.\d+)?)\Z")
_TIME = re.compile(r"(?:at:)?(\d+)\Z")
_DAILY = re.compile(r"clock:(\d\d):(\d\d)([+-])(\d\d):(\d\d)\Z")


def after(text: str, first: float) -> int | None:
    """Return the deadline, seconds since 1970, of a run that was first started at `first`.

    `text`: hours:N, at:EPOCH, or clock:HH:MM+HH:MM for the next such time of day; of several with
    ` or ` between them the first to come. None for anything else.
    """
    found = [_after_one(part, first) for part in text.split(" or ")]
    ends = [end for end in found if end is not None]
    return min(ends) if len(ends) == len(found) else None


def cause(deadline: str, budget: str | None, first: float) -> str:
    """Return what ends a run at its deadline: that itself, or the budget of its job.

    `deadline`: as `after` reads it, with the end of the budget behind the first " or ".
    """
    own = after(deadline.split(" or ")[0], first)
    if budget and own is not None and own != after(deadline, first):
        return f"its budget of {budget}"
    return "its deadline"


def _after_one(text: str, first: float) -> int | None:
    if found := _SPAN.match(text):
        return int(first + float(found[1]) * 3600)
    if found := _TIME.match(text):
        return int(found[1])
    if found := _DAILY.match(text):
        hour, minute, sign, east, part = found.groups()
        away = datetime.timedelta(hours=int(east), minutes=int(part))
        zone = datetime.timezone(away if sign == "+" else -away)
        begin = datetime.datetime.fromtimestamp(first, zone)
        wanted = begin.replace(hour=int(hour), minute=int(minute), second=0, microsecond=0)
        if wanted <= begin:
            wanted += datetime.timedelta(days=1)
        return int(wanted.timestamp())
    return None


def known(run: Run) -> int | None:
    """Return the deadline that deadline.from and the job give, None where that file is lost."""
    first = run.folder.number("deadline.from")
    told = run.folder.read("deadline.from").rstrip("\n").split("\t")
    same = first is not None and told[1:] == [run.spec.deadline]
    return after(run.spec.deadline, first) if first is not None and same else None


def settle(run: Run) -> int:
    """Return the deadline and write it down; only a job with another one counts anew.

    It counts from the first start. Raises ValueError for a text that says none.
    """
    before = known(run)
    if before is not None:
        run.folder.write("deadline", f"{before}\n")
        return before
    first = run.folder.number("deadline.from")
    lost = first is None and run.folder.has("state.json")
    if first is None:
        first = _first_start(run) if lost else run.now
    found = after(run.spec.deadline, first)
    if found is None:
        raise ValueError(f"the deadline is {run.spec.deadline!r}; use hours:N or at:EPOCH")
    if lost:
        run.log(f"the file of the deadline was lost; it is counted again from {int(first)}")
    run.folder.write("deadline.from", f"{int(first)}\t{run.spec.deadline}\n")
    run.folder.write("deadline", f"{found}\n")
    return found


def _first_start(run: Run) -> float:
    """Return the first start that events.jsonl tells, where deadline.from was lost."""
    found = re.search(r'"t": ?(\d+), ?"event": ?"start"', run.folder.read("events.jsonl"))
    return float(found[1]) if found else run.now


def cause_of(run: Run) -> str:
    """Return what ends this run at its deadline, as `cause` does."""
    first = run.folder.number("deadline.from")
    return cause(run.spec.deadline, run.spec.budget, run.now if first is None else first)


class Countdown:
    """Counts down to a deadline by two clocks: one may be set back, the other may stand still.

    `at`: in seconds since 1970.
    """

    def __init__(self, at: float, now: float, up: float):
        self.at, self._monotonic = at, up + at - now + 1

    def left(self, now: float, up: float) -> float:
        """Return the seconds left by the clock that says less."""
        return min(self.at - now, self._monotonic - up)
