"""The course of a run: the rows of its series.jsonl and its events, as its box has them.

Nothing in them is trusted: types are checked, texts are cut, cleaned and masked. What can't be read
is left out.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..boxes import box as boxes
from ..boxes.box import Box
from ..numbers import finite
from ..runner.folder import read_rows as json_rows
from ..text import UserError
from ..text.masking import shown, shown_some
from . import calling, run_script, status_facts
from .series_reader import MOST

LIMIT = 60.0  # seconds for the answer of a box
MOST_REPLY = 24 << 20  # bytes of it
MOST_TEXT = 2 * sum(MOST.values())  # bytes of it unpacked
MOST_ROWS, MOST_EVENTS = 40_000, 20_000  # the newest ones
MOST_SAVES = 20  # of a row; the runner looks for them at each heartbeat


class NoSeries(UserError):
    """The course of a run isn't known. One line: what is wrong; what to do."""


@dataclass
class Row:
    """A moment of a run. `t`: seconds since 1970. `numbers`: of status_facts.NAMES, infinite where
    the program told nan or inf. `gpus`: as `status_facts.gpus_of` gives them. `disk_free`,
    `disk_total`: bytes. `saved`: the step of each checkpoint that is new, and when
    it was written. `rate`: steps a second.
    """

    t: float
    attempt: int = 0
    phase: str = ""
    step: float | None = None
    total: float | None = None
    epoch: float | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    gpus: list[dict[str, float]] = field(default_factory=list)
    disk_free: float | None = None
    disk_total: float | None = None
    saved: list[tuple[float, float]] = field(default_factory=list)
    rate: float | None = None


@dataclass
class Event:
    """What the runner noted. `fields`: its other words, by name."""

    t: float
    name: str
    fields: dict[str, str]


@dataclass
class RunSeries:
    """The course of a run, the oldest first. `folder`: the run's on its box."""

    folder: str
    rows: list[Row]
    events: list[Event]


def ask(box: Box, run: str, *, accept_new: bool = False) -> RunSeries:
    """Return the course of a run, by one call. `run`: as for `calling.call`. Raises NoSeries."""
    words = (run, "python3", "-I", "-c", run_script.program("runs.series_reader"))
    reply = boxes.run(
        box, calling.PROGRAM, args=words, limit=LIMIT, most=MOST_REPLY, accept_new=accept_new
    )
    name = shown(box.name, 80)
    place, packed = calling.read_reply(reply, box, run, NoSeries)
    try:
        unpacker = zlib.decompressobj()
        answer = json.loads(unpacker.decompress(base64.b64decode(packed), MOST_TEXT))
        texts = [str(answer[name]) for name in MOST]
        others = list(answer["others"])
    except (ValueError, TypeError, KeyError, RecursionError, binascii.Error, zlib.error):
        last = shown(reply.errors.strip().rpartition("\n")[2], 200) or "it can't be read"
        raise NoSeries(f"{name} sent no course of the run: {last}") from None
    if others:
        named = shown_some(others, width=200)
        raise NoSeries(f"{place} has several runs; name one with --run: {named}")
    series = read(shown(answer["folder"], 300), *texts)
    if not series.rows:
        raise NoSeries(
            f"{series.folder} has no series.jsonl; its runner writes a row a minute while it trains"
        )
    return series


def read(folder: str, series: str, events: str) -> RunSeries:
    """Return the course of a run by the texts of series.jsonl and events.jsonl. Pure."""
    found = []
    for event in filter(_is_timed, json_rows(events)[-MOST_EVENTS:]):
        fields = {
            shown(key, 40): shown(value, 300)
            for key, value in list(event.items())[:20]
            if key not in ("t", "event")
        }
        found.append(Event(float(event["t"]), shown(event.get("event", ""), 40), fields))
    return RunSeries(folder, read_rows(json_rows(series)[-MOST_ROWS:]), found)


def read_rows(objects: Iterable[dict[str, Any]]) -> list[Row]:
    """Return the rows of a series by its JSON objects, the oldest first. Pure."""
    rows = [_row(one) for one in objects if _is_timed(one)]
    rows.sort(key=lambda row: row.t)
    _add_rates(rows)
    return rows


def _is_timed(row: dict[str, Any]) -> bool:
    return _time(row.get("t")) is not None


def _time(value: object) -> float | None:
    """Return seconds since 1970, None for what can't be a time."""
    seconds = finite(value, 1e11)
    return seconds if seconds is not None and seconds > 0 else None


def _row(row: dict[str, Any]) -> Row:
    numbers = {}
    for name in status_facts.NAMES:
        value = row.get(name)
        is_lost = value in status_facts.NOT_FINITE or value != value
        number = math.inf if is_lost else finite(value)
        if number is not None:
            numbers[name] = number
    places = ("step", "total", "epoch", "disk_free", "disk_total")
    attempt = row.get("attempt")
    return Row(
        float(row["t"]),
        attempt if isinstance(attempt, int) else 0,
        shown(row.get("phase", ""), 40),
        numbers=numbers,
        gpus=status_facts.gpus_of(row),
        saved=list(_saves(row.get("saved"))),
        **{name: finite(row.get(name)) for name in places},
    )


def _saves(pairs: object) -> Iterator[tuple[float, float]]:
    for pair in pairs[:MOST_SAVES] if isinstance(pairs, list) else []:
        step, t = pair if isinstance(pair, list) and len(pair) == 2 else (None, None)
        step, t = finite(step), _time(t)
        if step is not None and t is not None:
            yield step, t


def _add_rates(rows: list[Row]) -> None:
    """Note the steps a second since the last row of the attempt with a smaller step."""
    last: Row | None = None
    for row in rows:
        if row.step is None or row.phase != "running":
            continue
        if last is None or last.attempt != row.attempt or row.step < (last.step or 0):
            last = row
        elif row.step > (last.step or 0) and row.t > last.t:
            row.rate = (row.step - (last.step or 0)) / (row.t - last.t)
            last = row
