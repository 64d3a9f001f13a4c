"""The deadline: absolute, and written once; and how long it still is by two clocks."""

from __future__ import annotations

import datetime
import re

from .context import Run

FILE = "deadline"  # in seconds since 1970, as the first start was behind it, and as the job has it
_FILE = re.compile(r"\d+ (\d+)\t(.*)\n")
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


def first_start(run: Run) -> float | None:
    """Return when the run was first started, None where its file is lost."""
    found = _FILE.match(run.folder.read(FILE))
    return float(found[1]) if found else None


def known(run: Run) -> int | None:
    """Return the deadline that the first start and the job give, None where their file is lost."""
    found = _FILE.match(run.folder.read(FILE))
    return (
        after(run.spec.deadline, float(found[1]))
        if found and found[2] == run.spec.deadline
        else None
    )


def settle(run: Run) -> int:
    """Return the deadline and write it down; only a job with another one counts anew.

    It counts from the first start. Raises ValueError for a text that says none.
    """
    first = first_start(run)
    lost = first is None and run.folder.has("state.json")
    if first is None:
        first = _first_start(run) if lost else run.now
    found = after(run.spec.deadline, first)
    if found is None:
        raise ValueError(f"the deadline is {run.spec.deadline!r}; use hours:N or at:EPOCH")
    if lost:
        run.log(f"the file of the deadline was lost; it is counted again from {int(first)}")
    run.folder.write(FILE, f"{found} {int(first)}\t{run.spec.deadline}\n")
    return found


def _first_start(run: Run) -> float:
    """Return the first start that events.jsonl tells."""
    found = re.search(r'"t": ?(\d+), ?"event": ?"start"', run.folder.read("events.jsonl"))
    return float(found[1]) if found else run.now


def cause_of(run: Run) -> str:
    """Return what ends this run at its deadline, as `cause` does."""
    first = first_start(run)
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
