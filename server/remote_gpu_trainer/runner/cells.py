"""The cells of a queue: each one's job, folder and share of the box, and the parts of the whole."""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

from . import procs
from .context import Run
from .folder import Folder
from .spec import SpecError

# Variables of a runner: its cell, the cell's share of the box as JSON, its part of the queue.
CELL, SHARE, PART = "RGT_CELL", "RGT_SHARE", "RGT_PART"
_NAME = re.compile(r"[^\W_][\w.=+-]{0,99}\Z", re.ASCII)
_PART = re.compile(r"([1-9]\d{0,5})/([1-9]\d{0,5})\Z")


class Cell(NamedTuple):
    """A cell of this part: its name, its arguments, and the folder of its run."""

    name: str
    arguments: list[str]
    folder: Folder


def cells_of(run: Run) -> list[Cell]:
    """Return the cells of this part, in the order of the job."""
    found = _PART.match(os.environ.get(PART, ""))
    which, parts = (int(found[1]), int(found[2])) if found else (1, 1)
    return [
        Cell(cell["name"], cell["arguments"], Folder(os.path.join(run.base, "cells", cell["name"])))
        for cell in run.spec.queue.cells[which - 1 :: parts]
    ]


def shape(spec: SimpleNamespace, verb: str, environ: Mapping[str, str]) -> SimpleNamespace:
    """Return the job of this process: the queue as a run, or the cell that RGT_CELL names.

    Raises SpecError.
    """
    seen: dict[str, list[str]] = {}
    for cell in spec.queue.cells:
        name = cell["name"]
        if not _NAME.match(name) or name in seen:
            raise SpecError(
                f"the queue has a cell {name!r}; use letters, digits and ._=+-, and each name once"
            )
        seen[name] = cell["arguments"]
    name = environ.get(CELL, "") if seen else ""
    if name and name not in seen:
        raise SpecError(f"{CELL} is {name!r}; name a cell of this queue")
    whole = copy.deepcopy(spec)
    if name:
        share = environ.get(SHARE, "")
        return _as_cell(spec, name, seen[name], json.loads(share) if share else {})
    if seen and verb == "rehearse":
        # The first cell stands for all.
        whole.command = _with_arguments(spec.command, spec.queue.cells[0]["arguments"])
        whole.queue.cells = []
    elif seen:
        whole.checkpoint.folder, whole.results, whole.durable.what = "", [], []
    return whole


def _with_arguments(command: str | list[str], arguments: list[str]) -> list[str]:
    from .program import with_arguments, words_of  # a status goes without what it reads in

    return with_arguments(words_of(command), arguments)


def _as_cell(
    spec: SimpleNamespace, name: str, arguments: list[str], share: dict[str, Any]
) -> SimpleNamespace:
    """Return the job of one cell. What belongs to the box is the queue's: installation,
    data, its end."""
    cell, whole = copy.deepcopy(spec), Run(spec)
    rendered = cell.rendered
    cell.queue.cells = []
    cell.command = _with_arguments(spec.command, arguments)
    rendered.run_dir = os.path.join(rendered.run_dir, "cells", name)
    rendered.work_dir = rendered.work_dir or spec.rendered.run_dir
    if spec.checkpoint.folder:
        cell.checkpoint.folder = os.path.join(spec.checkpoint.folder, name)
    if spec.durable.to:
        cell.durable.to = f"{spec.durable.to.rstrip('/')}/{name}"
    cell.durable.what = [
        cell.checkpoint.folder
        if whole.checkpoints and whole.inside(item) == whole.checkpoints
        else item.replace("{cell}", name)
        for item in spec.durable.what
    ]
    cell.results = [item.replace("{cell}", name) for item in spec.results]
    cell.variables = {**spec.variables, CELL: name}
    cell.data, cell.notify, cell.slurm.requeue = [], [], False
    rendered.install, rendered.notice, rendered.billed = [], "", False
    rendered.end.command = ""
    cell.gpus_shared = share.get("gpus_shared", False)
    for field in ("deadline", "gpus", "processes"):
        setattr(cell, field, share.get(field, getattr(spec, field)))
    return cell


def share(run: Run, slot: int) -> dict[str, str]:
    """Return the variables by which a cell in this slot knows its share of the box.

    Cards are shared out evenly: those of the box, or those that were given to the queue. Where
    there are more slots than cards, slots take turns.
    """
    spec, slots = run.spec, run.spec.queue.slots
    given_share: dict[str, Any] = {"slot": slot}
    deadline = run.folder.number("deadline")
    if deadline:
        given_share["deadline"] = f"at:{int(deadline)}"
    if not spec.gpus:
        return {SHARE: json.dumps(given_share)}
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    cards = (given.split(",") if given else [str(card) for card in range(spec.gpus)])[: spec.gpus]
    each = max(len(cards) // slots, 1)
    start = slot * each if each * slots <= len(cards) else slot % len(cards)
    given_share.update(gpus=each, processes=max(spec.processes * each // spec.gpus, 1))
    given_share["gpus_shared"] = slots > len(cards)
    return {
        SHARE: json.dumps(given_share),
        "CUDA_VISIBLE_DEVICES": ",".join(cards[start : start + each]),
    }


def take_part(run: Run) -> None:
    """Give a part a state of its own: parts may share the run folder, as the tasks of a Slurm array
    do. Raises SpecError."""
    part = os.environ.get(PART, "")
    found = _PART.match(part)
    if part and (not found or int(found[1]) > int(found[2])):
        raise SpecError(f"--part is {part!r}; write K/N such as 1/2")
    if found:
        run.folder = Folder(os.path.join(run.base, "parts", f"{found[1]}-of-{found[2]}"))


def take_newest_part(run: Run) -> None:
    """Let the parts of one run folder answer as one: one that lives, else the last that wrote."""
    place = run.folder.at("parts")
    if run.folder.has("state.json") or not os.path.isdir(place):
        return
    parts = [Folder(os.path.join(place, name)) for name in os.listdir(place)]
    states = [
        (bool(procs.alive(part, "runner")), part.json("state.json").get("updated", 0), part.path)
        for part in parts
        if part.has("state.json")
    ]
    if states:
        run.folder = Folder(max(states)[2])
