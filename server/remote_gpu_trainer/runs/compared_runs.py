"""Find the runs that are to be compared, ask each box once for its own, and price them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..boxes import box as boxes
from ..boxes.box import BadBox, Box
from ..numbers import finite
from ..text import UserError
from ..text.masking import shown
from . import ledger, other_runs, overview, status_cost
from .comparison import Run, object_of, run_of
from .status_reply import cards_named

LIMIT = 60.0  # seconds for the runs of one box
AT_ONCE = 32  # boxes that are asked at the same time
LOCAL = "local"


class NotCompared(UserError):
    """Runs can't be compared. One line: what is wrong; what to do."""


def find(names: Iterable[str], metric: str = "", series: bool = False) -> list[Run]:
    """Return the runs of some names, the cells of a queue each as a run. Raises NotCompared.

    A name is one that `runs` shows, BOX:RUN, or a folder of this machine; behind a queue's stands
    /CELL for one cell. `metric`: the name of the number that counts, '' for the job's own.
    """
    wanted = [(name, *_place_of(name)) for name in names]
    by_box: dict[str, list[str]] = {}
    for _, box, run in wanted:
        by_box.setdefault(box, []).append(run)
    words = json.dumps({"metric": metric, "series": series})
    places = {name: _box_of(name) for name in by_box}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda one: _ask(places[one], words, by_box[one]), by_box))
    found = dict(zip(by_box, answers, strict=True))
    return [one for name, box, run in wanted for one in _runs(places[box], name, run, *found[box])]


def find_cells(box: Box, folder: str, series: bool = False) -> list[Run]:
    """Return the cells of a queue, each as a run, by its folder on a box. Raises NotCompared."""
    words = json.dumps({"metric": "", "series": series})
    return _runs(box, folder, folder, *_ask(box, words, [folder]))


def _runs(box: Box, name: str, run: str, jobs: list[dict], rows: list[dict]) -> list[Run]:
    """Return the runs among the rows of a box that one name stands for."""
    found = []
    for row in [row for row in rows if row.get("asked") == run]:
        if "why" in row:
            raise NotCompared(
                f"{shown(name, 100)}: {shown(row['why'], 100)}; rgt runs --all shows the runs"
            )
        sent = _job_of(row, jobs)
        found.append(_priced(run_of(row, sent, name, box.name), sent, box, row))
    return found


def _box_of(name: str) -> Box:
    try:
        return boxes.parse(name)
    except BadBox as error:
        raise NotCompared(str(error)) from None


def _place_of(name: str) -> tuple[str, str]:
    """Return the box of a name, and what the box calls the run. Raises NotCompared."""
    if os.path.isdir(os.path.expanduser(name)) and ("/" in name or name.startswith((".", "~"))):
        return LOCAL, os.path.abspath(os.path.expanduser(name))
    box, colon, run = name.partition(":")
    if colon and run and box:
        return box, run
    places = overview.boxes_of(name.partition("/")[0])
    if not places:
        return LOCAL, name
    if len(places) > 1:
        named = " or ".join(f"{shown(place, 60)}:{shown(name, 60)}" for place in places[:5])
        raise NotCompared(f"{shown(name, 60)} is a run on several boxes; name it as {named}")
    return places[0], name


def _ask(box: Box, words: str, runs: list[str]) -> tuple[list[dict], list[dict]]:
    """Return the jobs and the rows that a box tells. Raises NotCompared."""
    args = (words, *dict.fromkeys(runs))
    try:
        answer = other_runs.ask_json(box, "runs.run_facts", args, LIMIT)
        jobs, rows = answer["jobs"], answer["rows"]
        if all(isinstance(one, dict) for one in (*jobs, *rows)):
            return jobs, rows
        why = other_runs.UNREAD
    except other_runs.NoRows as error:
        why = str(error)
    except (KeyError, TypeError):
        why = other_runs.UNREAD
    raise NotCompared(f"{shown(box.name, 80)}: {why}; rgt runs shows which boxes answer")


def _job_of(row: dict[str, Any], jobs: list[dict]) -> dict[str, Any]:
    number = row.get("job")
    return jobs[number] if isinstance(number, int) and 0 <= number < len(jobs) else {}


def _priced(run: Run, sent: dict[str, Any], box: Box, row: dict[str, Any]) -> Run:
    """Add what the hours of a run have cost, where a price is known: of all boxes that trained it,
    and of a cell its share of the box."""
    job, rendered = (object_of(sent.get(part)) for part in ("job", "rendered"))
    cards = cards_named(row.get("gpu"))
    address = "" if box.local else boxes.address(box)
    opened = next((one for one in ledger.still_open() if one.address == address), None)
    profile, card = str(rendered.get("profile") or ""), next(iter(cards), "")
    price = status_cost.price_of(job, opened, profile, card, len(cards))
    if price is None or run.hours is None:
        return run
    nodes = finite(job.get("nodes")) or 1
    slots = finite(object_of(job.get("queue")).get("slots")) or 1
    run.money = price["price"] * run.hours * nodes / (slots if row.get("cell") else 1)
    run.currency, run.price_by = str(price.get("currency") or ""), str(price["by"])
    return run
