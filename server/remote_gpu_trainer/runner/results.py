"""The results that a job names: which are there, and which are from before the run.

They may lie on a mount that hangs, so a child looks at them; what can't be seen is missing.
"""

from __future__ import annotations

import glob
import json
import os
from contextlib import suppress
from typing import NamedTuple

from . import child, completeness, content
from .checkpoints import Checkpoint
from .child import Failed
from .context import Run

INDEX = ".safetensors.index.json", ".bin.index.json"  # of weights in several files
BEFORE = "own/results.before"  # {path: [ns since 1970, bytes]} of what lay there before


class Found(NamedTuple):
    """`missing`: names of results that aren't there, or are `stale`: as before the run."""

    missing: list[str]
    stale: list[str]


def note_before(run: Run) -> None:
    """Note before the first attempt what lies there: of a rehearsal or an earlier run."""
    if run.folder.attempt() is None:
        _note(run, [pair for found in _stamps(run).values() for pair in found.items()])


def look(run: Run) -> Found:
    """Return which results are missing now. They are the first node's to write."""
    if run.rank or not run.spec.results:
        return Found([], [])
    before = run.folder.json(BEFORE)
    missing, stale = [], []
    stamps = _stamps(run)
    for name in run.spec.results:
        there = {path: stamp for path, stamp in stamps.get(name, {}).items() if stamp}
        if there and all(stamp == before.get(path) for path, stamp in there.items()):
            stale.append(name)
        if not there or name in stale:
            missing.append(name)
    return Found(missing, stale)


def owed(run: Run) -> list[str]:
    """Return which results would show, after a request to save and end, that the program came to
    its end by itself.

    Those that are missing now; but what lies among the checkpoints shows nothing, for the save
    writes there.
    """
    missing = look(run).missing
    if not run.checkpoints or not missing:
        return missing
    try:
        return child.call(
            run, _outside, {name: run.inside(name) for name in missing}, run.checkpoints
        )
    except Failed:
        return []


def trust_later(run: Run, checkpoint: Checkpoint | None) -> None:
    """Take results for this run's that came to this box along with the checkpoint it begins with:
    they were written after it."""
    if checkpoint is None or not run.folder.json(BEFORE):
        return
    saved, stamps = int(checkpoint.id.rpartition(" ")[2]), _stamps(run)
    pairs = [pair for name in look(run).stale for pair in stamps.get(name, {}).items()]
    _note(run, [(path, stamp) for path, stamp in pairs if (stamp or [0])[0] < saved])


def find_corrupt(run: Run) -> list[str]:
    """Return the results that are checkpoints and aren't whole, each with its fault."""
    if run.rank:
        return []
    try:
        return child.call(run, _faults, {name: run.inside(name) for name in run.spec.results})
    except Failed:
        return []


def _note(run: Run, stamps: list[tuple[str, list[int] | None]]) -> None:
    known_stamps = {path: stamp for path, stamp in stamps if stamp}
    run.folder.write(BEFORE, json.dumps(known_stamps) + "\n")


def _stamps(run: Run) -> dict[str, dict[str, list[int] | None]]:
    """Return for each result the stamps of the paths that it names."""
    if not run.spec.results:
        return {}
    try:
        return child.call(run, _stamp_all, {name: run.inside(name) for name in run.spec.results})
    except Failed as error:
        run.log(f"the results can't be looked at: {error}")
        return {}


def expand(path: str) -> list[str]:
    """Return the paths that a result names: itself, or what its pattern finds; with an index of
    weights also the files that it lists."""
    if os.path.lexists(path) or not glob.has_magic(path):
        found = [path]
    else:
        found = sorted(glob.glob(path, recursive=True)) or [path]
    listed = [shard for name in found if name.endswith(INDEX) for shard in _shards(name)]
    return list(dict.fromkeys([*found, *listed]))


def _shards(index: str) -> list[str]:
    """Return the files beside an index of weights that it lists; those elsewhere are ignored."""
    try:
        with open(index, encoding="utf-8") as file:
            names = set(json.load(file)["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    folder = os.path.dirname(index)
    return [os.path.join(folder, n) for n in sorted(map(str, names)) if os.path.basename(n) == n]


def _stamp_all(paths: dict[str, str]) -> dict[str, dict[str, list[int] | None]]:
    found: dict[str, dict[str, list[int] | None]] = {name: {} for name in paths}
    for name, pattern in paths.items():
        for path in expand(pattern):
            with suppress(OSError):
                item = content.stamp(path)
                has_content = item.size and any(completeness.files_of(path))
                found[name][path] = [item.changed, item.size] if has_content else None
    return found


def _outside(paths: dict[str, str], folder: str) -> list[str]:
    """Return the names whose paths don't lead into a folder."""
    below = os.path.realpath(folder).rstrip("/") + "/"
    return [n for n, path in paths.items() if not (os.path.realpath(path) + "/").startswith(below)]


def _faults(paths: dict[str, str]) -> list[str]:
    found = []
    for name, path in [(n, path) for n, pattern in paths.items() for path in expand(pattern)]:
        with suppress(OSError):
            verdict = completeness.judge_path(path) if os.path.exists(path) else None
            if verdict and verdict.state == completeness.CORRUPT:
                found.append(f"{name}: {verdict.why}")
    return found
