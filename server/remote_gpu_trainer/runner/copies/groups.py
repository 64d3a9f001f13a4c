"""The checkpoints that lie here, each as the files that belong together."""

from __future__ import annotations

import glob
import json
import os
import re
from contextlib import suppress
from typing import NamedTuple

from .. import content, results
from ..completeness import CORRUPT, TRACKERS, UNKNOWN, WEIGHTS, files_of
from ..context import Run

REST = 5.0  # seconds without a change, where nothing proves that a save is over
AT_ONCE = 1.0  # the same, where something does


class Group(NamedTuple):
    """A checkpoint here. `name`: below the checkpoint folder; `files`: {name below it: path}, of
    which `own` are its alone: by these it is told from others. A tracker beside them goes along.
    `saved`: the last change of its weights, in ns since 1970. `is_named`: its name or its own file
    tells the step. `stamp`: of its own files, `moment`: of all. `item`: what is judged. `links`:
    {name: target} of links to it beside it."""

    name: str
    kind: str
    files: dict[str, str]
    own: dict[str, str]
    step: int | None
    is_named: bool
    saved: int
    size: int
    stamp: str
    moment: str
    item: content.Item
    older: list[content.Item]
    links: dict[str, str]


def look(run: Run) -> list[Group]:
    """Return the checkpoints in the run's folder, newest first: what the pattern names, and other
    weights beside them. Raises OSError."""
    folder, pattern = run.checkpoints, run.spec.checkpoint_pattern
    if not folder or not pattern:
        return []
    items = content.newest_first(folder, pattern)
    real = {item.path for item in items if not os.path.islink(item.path)}
    items = [item for item in items if item.path in real or os.path.realpath(item.path) not in real]
    named = {os.path.realpath(path) for name in run.spec.results for path in expand(run, name)}
    taken = {path for item in items for path in files_of(item.path)}
    groups = []
    for place, item in enumerate(items):
        own, beside = _with(run, item)
        own = [*files_of(item.path), *(path for path in own if path not in taken)]
        beside = [path for path in beside if path not in taken]
        groups.append(_group(run, item, own, beside, items[place + 1 :]))
        taken |= {*own, *beside}
    for path in files_of(folder) if os.path.isdir(folder) else ():
        rest = os.path.relpath(path, folder)
        is_weights = path.endswith(WEIGHTS) and not content.is_leftover(rest)
        is_weights = is_weights and not (os.path.islink(path) and os.path.realpath(path) in taken)
        if is_weights and path not in taken and os.path.realpath(path) not in named:
            with suppress(OSError):
                groups.append(_group(run, content.stamp(path), [path], [], []))
    return groups


def expand(run: Run, name: str) -> list[str]:
    """Return the paths that a result names: itself, or what its pattern finds."""
    return results.expand(run.inside(name))


def state_of(group: Group, known: content.Known) -> tuple[str, str]:
    """Judge a checkpoint; what can't be read is unknown."""
    try:
        verdict = known.judge(group.item, group.older)
        others = [path for path in group.files.values() if not is_within(path, group.item.path)]
        for path in others:
            if verdict.state != CORRUPT and path.endswith(WEIGHTS):
                other = known.judge(content.stamp(path))
                if other.state in (CORRUPT, UNKNOWN):
                    verdict = other
    except OSError as error:
        return UNKNOWN, error.strerror or str(error)
    return verdict.state, verdict.why


def _group(
    run: Run, item: content.Item, paths: list[str], beside: list[str], older: list[content.Item]
) -> Group:
    folder, whole = run.checkpoints, [*paths, *beside]
    files = {os.path.relpath(path, folder): path for path in whole}
    own = {name: path for name, path in files.items() if path not in beside}
    name = os.path.relpath(item.path, folder)
    step = content.step_of(item.path)
    named = _step_inside(item.path) if step is None else step
    kind = re.sub(r"\d+", "0", name) + (f" of node {run.rank}" if run.rank else "")
    size = sum(os.path.getsize(path) for path in whole if os.path.exists(path))
    stamp, moment = content.fingerprint(paths), content.fingerprint(whole)
    links = {}
    for entry in os.scandir(folder):
        if entry.is_symlink() and os.path.realpath(entry.path) == os.path.realpath(item.path):
            links[entry.name] = os.readlink(entry.path)
    links.pop(name, None)
    is_named = named is not None
    return Group(
        name, kind, files, own, named, is_named, item.weights, size, stamp, moment, item, older,
        links,
    )  # fmt: skip


def _with(run: Run, item: content.Item) -> tuple[list[str], list[str]]:
    """Return the files that belong to an item besides, as the job groups them: its own, and those
    that others share with it, among them a tracker that names it."""
    folder, name = os.path.split(item.path)
    own: list[str] = []
    beside: list[str] = []
    numbers = content.numbers_of(item.path)
    for pattern in run.spec.checkpoint_files:
        for path in glob.glob(os.path.join(glob.escape(run.checkpoints), pattern), recursive=True):
            if content.numbers_of(path) == numbers:
                own += files_of(path)
            elif not content.numbers_of(path):
                beside += files_of(path)
    for tracker in TRACKERS:
        path = os.path.join(folder, tracker)
        with suppress(OSError, ValueError), open(path, encoding="utf-8") as stream:
            told = stream.read(200).strip()
            if told == name or told.isdigit() and name == f"iter_{int(told):07d}":
                beside.append(path)
    return own, beside


def _step_inside(path: str) -> int | None:
    """Return the step that a folder's trainer_state.json tells."""
    with suppress(OSError, ValueError, AttributeError):
        with open(os.path.join(path, "trainer_state.json"), encoding="utf-8") as stream:
            step = json.load(stream).get("global_step")
        return step if isinstance(step, int) else None
    return None


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is a folder's own or lies below it."""
    return (path + "/").startswith(folder.rstrip("/") + "/")
