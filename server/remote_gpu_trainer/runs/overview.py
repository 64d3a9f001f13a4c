"""Every run known from here, in a row each: all boxes are asked at once, each for a few seconds.

Known are the boxes of the ledger, the user's own machines on which jobs were started from here, and
this machine. What a box said last is kept in a local file, for a time when it doesn't answer.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ..boxes import box as boxes
from ..boxes.box import BadBox, Box
from ..text.masking import shown
from . import known_jobs, ledger, local_files, other_runs, status_cost
from .home_copy import why_lost
from .known_jobs import Known, is_named
from .status_reply import Status

LIMIT = 5.0  # seconds for one box
A_COPY = 5.0  # and for a look at the copy of one run
AT_ONCE = 32  # boxes that are asked at the same time
MOST_SEEN = 2000  # rows that are kept of what boxes said
ENDED = ("finished", "failed", "stopped", "deadline", "preempted", "unsaved", "gone")
NO_ANSWER = "no answer"
LOST = "no release verified its results here"


@dataclass
class Row:
    """One run. What isn't known is None or ''.

    `box`: what the user calls it. `state`: as `Status.state`, 'no answer', or 'gone' for a run of a
    box that is known to be gone. `last_state`: of a box that doesn't answer. `loss`: now, 'nan' as
    a text. `seconds_left`: to the end of the run; `low` and `high` are its spread. `cost`: of the
    box so far, since the first contact, in `currency`; `left` and `hours_left`: of the job's
    budget. All three are estimated. `deadline`, `at`: seconds since 1970; `at` is of the answer
    that the row is from. `why`: what the state follows from. `is_home`: of a box that is gone, its
    results were verified here.
    """

    name: str
    box: str
    state: str
    folder: str = ""
    last_state: str = ""
    step: int | None = None
    total: int | None = None
    percent: float | None = None
    loss: float | str | None = None
    seconds_left: float | None = None
    low: float | None = None
    high: float | None = None
    cost: float | None = None
    currency: str = ""
    left: float | None = None
    hours_left: float | None = None
    deadline: float | None = None
    at: float | None = None
    why: str = ""
    is_home: bool = False

    @property
    def has_ended(self) -> bool:
        """Return whether the run is over, as far as is known."""
        return (self.last_state or self.state) in ENDED or self.state == "gone"

    def as_dict(self, now: float) -> dict[str, Any]:
        """Return all fields, and the age of the answer in seconds, as `runs --json` prints them."""
        return {**asdict(self), "age": None if self.at is None else round(now - self.at, 1)}


@dataclass
class Place:
    """A box to ask. `opened`: what the ledger has of it. `jobs`: started there from here."""

    address: str
    name: str
    opened: ledger.Opened | None = None
    jobs: list[Known] = field(default_factory=list)


def rows(*, with_ended: bool = False, limit: float = LIMIT) -> list[Row]:
    """Return a row for each run that is known from here, those that live first."""
    known, seen = places(), _read_seen()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = list(pool.map(lambda place: ask(place, seen.get(place.address, []), limit), known))
    now = time.time()
    found = [row for answer in asked for row in answer]
    _write_seen({place.address: answer for place, answer in zip(known, asked, strict=True)}, seen)
    if with_ended:
        found += _gone({place.address for place in known}, seen)
    else:
        found = [row for row in found if not row.has_ended]
    for row in found:
        row.at = min(row.at, now) if row.at is not None else None
    return sorted(found, key=lambda row: (row.has_ended, row.box, -(row.at or 0), row.name))


def places() -> list[Place]:
    """Return the boxes that are asked; this machine first, if a job ever ran here."""
    jobs: dict[str, list[Known]] = {}
    for known in known_jobs.every():
        jobs.setdefault(known.address, []).append(known)
    found = {box.address: Place(box.address, box.name, box) for box in ledger.still_open()}
    for address, name in ledger.own_machines().items():
        if address in jobs:
            found.setdefault(address, Place(address, name))
    if "" in jobs or os.path.isdir(os.path.expanduser("~/runs")):
        found = {"": Place("", "local"), **found}
    for address, place in found.items():
        place.jobs = jobs.get(address, [])
    return list(found.values())


def boxes_of(name: str) -> list[str]:
    """Return the boxes that have a run of this name, as far as is known here; none is asked."""
    seen = _read_seen()
    return [
        place.name
        for place in places()
        if any(is_named(job.folder, name) for job in place.jobs)
        or any(row.name == name for row in seen.get(place.address, []))
    ]


def ask(place: Place, seen: list[Row], limit: float) -> list[Row]:
    """Return the rows of one box; `seen`: what it said last."""
    try:
        box = boxes.parse(place.name)
        answers = other_runs.rows_of(box, tuple(job.folder for job in place.jobs), limit)
        leads_to = "" if box.local else boxes.address(box, limit=limit)
        if leads_to == place.address:
            found = (_row(box, place, one, seen, time.time()) for one in answers)
            return [row for row in found if row]
        why = f"{shown(place.name, 60)} leads to {leads_to} now, which is another box"
    except (BadBox, other_runs.NoRows) as error:
        why = str(error)
    return _silent(place, seen, why, time.time())


def _row(box: Box, place: Place, answer: dict, seen: list[Row], now: float) -> Row | None:
    """Return the row of a run that a box told; None where nothing began.

    One whose script gives no state keeps what it said last, as a box does that gives no answer.
    """
    status = other_runs.status_of(box, answer)
    if status.state == "nothing":
        return None
    job = _job(place, status.dir)
    if status.state == "unknown":
        before = next((row for row in seen if is_named(row.folder, status.dir)), None)
        if before is None and job is None and answer.get("began") is not True:
            return None  # only rehearsed
        row = before or Row(other_runs.name_of(status.dir), place.name, "", status.dir)
        why = status.text if answer.get("status") else "its script gave no state in time"
        _keep(row, f"{shown(row.name, 60)} on {shown(place.name, 60)}: {why}")
        _add_cost(row, place, job, status, now)
        return row
    row = Row(other_runs.name_of(status.dir), place.name, status.state, status.dir)
    progress, loss = status.progress, status.numbers.get("loss", {})
    row.at, row.loss = now, loss.get("value")
    _add_cost(row, place, job, status, now)
    row.step = _whole(progress.get("step", status.signs.step or status.step))
    row.total, row.percent = _whole(progress.get("total")), progress.get("percent")
    row.seconds_left = progress.get("seconds_left")
    row.low, row.high = progress.get("seconds_left_low"), progress.get("seconds_left_high")
    row.deadline = status.deadline or None
    row.why = status.text or next(iter(status.evidence), "")
    return row


def _keep(row: Row, why: str) -> None:
    """Let a row of a run that gave no answer tell what it said last."""
    row.last_state, row.state, row.why = row.last_state or row.state, NO_ANSWER, why


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _add_cost(row: Row, place: Place, job: Known | None, status: Status, now: float) -> None:
    """Let a row tell what its box has cost so far, and what is left of the job's budget."""
    if cost := status_cost.cost_of(status, job, place.opened, now):
        row.cost, row.currency = cost["so_far"], cost.get("currency", "")
        row.left, row.hours_left = cost.get("left"), cost.get("hours_left")


def _job(place: Place, folder: str) -> Known | None:
    """Return the job that was started from here in a folder of a box."""
    return next((job for job in place.jobs if is_named(job.folder, folder)), None)


def _silent(place: Place, seen: list[Row], why: str, now: float) -> list[Row]:
    """Return the rows of a box that gave no answer: of each run on it that may still live."""
    found, unknown = [], Status("unreachable", place.name)
    for before in seen:
        _keep(before, why)
        _add_cost(before, place, _job(place, before.folder), unknown, now)
        found.append(before)
    for job in place.jobs:
        if not any(is_named(job.folder, row.folder) for row in found):
            found.append(Row(job.name, place.name, NO_ANSWER, job.folder, why=why))
            _add_cost(found[-1], place, job, unknown, now)
    if not found:
        found = [Row("", place.name, NO_ANSWER, why=why)]
        _add_cost(found[0], place, None, unknown, now)
    return found


def _gone(asked: Iterable[str], seen: dict[str, list[Row]]) -> list[Row]:
    """Return the rows of boxes that aren't asked any more; what they cost ends with them."""
    found = []
    ended = {rental.box.address: rental for rental in ledger.rentals() if rental.end is not None}
    for address, before in seen.items():
        if address not in asked:
            released, rental = ledger.releases(address), ended.get(address)
            for row in before:
                row.last_state, row.state = row.last_state or row.state, "gone"
                own = [copy for at, (_, copy) in released.items() if is_named(at, row.folder)]
                lost = why_lost(own[-1], A_COPY, reads=False) if own else LOST
                row.is_home = not lost
                row.why = f"its box is gone; {lost or 'its results are here'}"
                if rental and rental.end and (cost := rental.box.cost(rental.end)) is not None:
                    row.cost, row.currency = cost, rental.box.currency
                found.append(row)
    return found


def _place() -> Path:
    return ledger.place().parent / "seen.json"


def _read_seen() -> dict[str, list[Row]]:
    """Return what boxes said last, by their addresses; {} where nothing can be read."""
    found: dict[str, list[Row]] = {}
    names = {one.name for one in fields(Row)}
    with suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
        for address, rows in json.loads(_place().read_text(encoding="utf-8")).items():
            found[address] = [
                Row(**{name: value for name, value in row.items() if name in names}) for row in rows
            ]
    return found


def _write_seen(asked: dict[str, list[Row]], seen: dict[str, list[Row]]) -> None:
    """Keep what boxes said; of one that gave no answer, what it said before."""
    kept = {address: [_before(row) for row in rows if row.at] for address, rows in asked.items()}
    kept = {**seen, **kept}
    while sum(map(len, kept.values())) > MOST_SEEN:
        del kept[
            min(kept, key=lambda address: max([row.at or 0 for row in kept[address]], default=0))
        ]
    rows = {address: [asdict(row) for row in some] for address, some in kept.items() if some}
    with suppress(OSError):
        local_files.write(_place(), json.dumps(rows).encode())


def _before(row: Row) -> Row:
    """Return a row as its box said it."""
    if row.state != NO_ANSWER:
        return row
    return Row(**{**asdict(row), "state": row.last_state, "last_state": "", "why": ""})
