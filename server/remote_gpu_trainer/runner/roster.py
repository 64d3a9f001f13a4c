"""What the cells of a queue came to, as their folders tell it."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import procs
from .cells import Cell, cells_of
from .context import Run, say
from .failures import entry_of

STATES = ("done", "failed", "running", "unsaved", "left")
# What the next cell would meet too. Such a cell is left, so it runs again at the next start.
OF_THE_BOX = ("disk", "gpu", "setup", "preflight")
LONGEST = 4000  # characters of what a status says about single cells


class Seen(NamedTuple):
    """What a cell's folder tells: one of STATES, and the marker of its end."""

    state: str
    marker: dict[str, Any]


def look(run: Run, cell: Cell) -> Seen:
    """Return what a cell's folder tells."""
    folder = cell.folder
    end = folder.ended()
    # Without an end, who is left raises the others.
    hands = ("runner",) if end else ("runner", "supervisor")
    if any(procs.alive(folder, hand) for hand in hands):
        return Seen("running", {})
    started = folder.json("cell")
    if not end or started.get("arguments", cell.arguments) != cell.arguments:
        return Seen("left", {})
    # A marker that a full disk left is empty.
    marker = folder.json(f".{end}") or ({"class": "disk"} if end == "failed" else {})
    if end == "preempted" or is_of_the_box(run, marker):
        return Seen("left", marker)
    return Seen(end, marker)


def look_at_all(run: Run) -> dict[str, Seen]:
    """Return the same for every cell of this part, by its name."""
    return {cell.name: look(run, cell) for cell in cells_of(run)}


def is_of_the_box(run: Run, marker: dict[str, Any]) -> bool:
    """Return whether a cell failed of what another cell would meet too."""
    # Windows line ends are in a file of this cell alone.
    return marker.get("class") in OF_THE_BOX and marker.get("entry") != entry_of(run.spec, "crlf")


def count(seen: Mapping[str, Seen]) -> dict[str, int]:
    """Return how many cells there are, and how many in each state."""
    found = [cell.state for cell in seen.values()]
    return {"total": len(found), **{state: found.count(state) for state in STATES}}


def summary(seen: Mapping[str, Seen]) -> str:
    """Return the same in words."""
    found = count(seen)
    return f"{found['total']} cells: " + ", ".join(f"{found[state]} {state}" for state in STATES)


def row(cell: Seen) -> dict[str, str]:
    """Return state, class, entry and reason of a cell."""
    marker = cell.marker
    return {
        "state": cell.state,
        **{key: str(marker.get(key) or "") for key in ("class", "entry", "reason")},
    }


def for_status(seen: Mapping[str, Seen]) -> dict[str, Any]:
    """Return what `status --json` says: counts, and in `now` what is neither done nor left."""
    now = {name: row(cell) for name, cell in seen.items() if cell.state not in ("done", "left")}
    return {**count(seen), "now": now if len(json.dumps(now)) < LONGEST else {}}


def reconcile(run: Run, as_json: bool) -> int:
    """Print every cell and what it came to, and write those that aren't done to queue.rest, as the
    lines of a queue file; 0 where all are done."""
    seen = look_at_all(run)
    # What is unsaved needs a copy, no training.
    rest = [c for c in cells_of(run) if seen[c.name].state not in ("done", "unsaved")]
    os.makedirs(run.folder.path, exist_ok=True)
    text = "".join(shlex.join([cell.name, *cell.arguments]) + "\n" for cell in rest)
    if not run.folder.write("queue.rest", text):
        say(f"can't write {run.folder.at('queue.rest')}; make room there")
    rows = [{"name": name, **row(cell)} for name, cell in seen.items()]
    if as_json:
        reply = {**count(seen), "rest": run.folder.at("queue.rest"), "cells": rows}
        sys.stdout.write(json.dumps(reply) + "\n")
    else:
        lines = [["cell", "state", "class", "entry", "reason"], *[each.values() for each in rows]]
        text = "".join("\t".join(" ".join(word.split()) for word in line) + "\n" for line in lines)
        sys.stdout.write(f"{text}# {summary(seen)}\n")
    return int(count(seen)["done"] < len(seen))
