"""The checkpoints that lie here, each as the files that belong together."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from typing import Iterable, NamedTuple

from .. import content, results
from ..completeness import COMPLETE, CORRUPT, TRACKERS, UNKNOWN, WEIGHTS, files_of
from ..context import Run
from .plan import BESIDE, COMPANION, PART, RESULT
from .records import Records


class Group(NamedTuple):
    """A checkpoint here. `name`: below the checkpoint folder; `files`: {name below it: path}, of
    which `own` are its alone: by these it is told from others. A tracker beside them goes along.
    `saved`, `changed`: the last change of its weights and of any file, in ns since 1970.
    `is_named`: its name or its own file tells the step. `stamp`: of its own files, `moment`: of
    all. `role`: '' for a checkpoint, else BESIDE or COMPANION. `lacks`: a file of its save that was
    never written, or was lost: without it nothing goes on from it. `items`: what is judged.
    `links`: {name: target} of links to it beside it. `times`: {name: last change in ns} of its own
    weights."""

    name: str
    kind: str
    files: dict[str, str]
    own: dict[str, str]
    step: int | None
    is_named: bool
    saved: int
    changed: int
    size: int
    stamp: str
    moment: str
    items: list[content.Item]
    older: list[content.Item]
    links: dict[str, str]
    times: dict[str, int]
    role: str
    lacks: str

    @property
    def apart(self) -> float | None:
        """Return the seconds between its first and its last weights, None for a single file."""
        times = self.times.values()
        return (max(times) - min(times)) / 1e9 if len(times) > 1 else None

    @property
    def paths(self) -> set[str]:
        """Return its own files and folders."""
        return {*self.own.values(), *(item.path for item in self.items)}


def look(run: Run) -> list[Group]:
    """Return the checkpoints in the run's folder, newest first: what the pattern names, and other
    weights beside them. Raises OSError.

    Files of one folder that have the same numbers in their names, or none, are one checkpoint: a
    program that saves a model and its optimizer in two files needs both from one moment.
    """
    folder, pattern = run.checkpoints, run.spec.checkpoint.pattern
    if not folder or not pattern:
        return []
    items = content.newest_first(folder, pattern)
    real = {item.path for item in items if not os.path.islink(item.path)}
    items = [item for item in items if item.path in real or os.path.realpath(item.path) not in real]
    taken = {path for item in items for path in files_of(item.path)}
    together: dict[tuple[object, ...], list[content.Item]] = {}
    for item in [*items, *_weights_beside(run, taken)]:
        together.setdefault(content.save_of(item.path, os.path.isdir(item.path)), []).append(item)
    taken |= {path for parts in together.values() for item in parts for path in files_of(item.path)}
    groups = []
    for parts in together.values():
        own, beside = _with(run, parts[0])
        own = [path for path in own if path not in taken]
        beside = [path for path in beside if path not in taken]
        older = items[items.index(parts[0]) + 1 :] if parts[0] in items else []
        with suppress(OSError):  # it went away meanwhile
            groups.append(_group(run, parts, own, beside, older))
        taken |= {*own, *beside}
    return _find_lacking(run, _find_beside(run, groups, {item.path for item in items}))


def _find_beside(run: Run, groups: list[Group], named: set[str]) -> list[Group]:
    """Note which groups are no checkpoints: what the pattern (`named`: its paths) doesn't name,
    what only stands beside a model, and, by a pattern for everything, the model without a state
    that a trainer leaves above its numbered folders."""
    trainers = {
        os.path.dirname(item.path)
        for group in groups
        for item in group.items
        if os.path.exists(os.path.join(item.path, "trainer_state.json"))
    }
    takes_all = run.spec.checkpoint.pattern == "*"  # else a job may keep its checkpoints in JSON
    found = []
    for group in groups:
        path = group.items[0].path
        is_export = os.path.dirname(path) in trainers and not content.numbers_of(path)
        if all(
            content.COMPANION.search(name) or (takes_all and content.NOTE.search(name))
            for name in group.own
        ):
            role = COMPANION
        elif not named & {item.path for item in group.items}:
            role = BESIDE
        else:
            role = BESIDE if takes_all and is_export else ""
        found.append(group._replace(role=role))
    return found


def _find_lacking(run: Run, groups: list[Group]) -> list[Group]:
    """Note which files of one number are only some of a save: the saves before them, here or at
    the durable place, have what they lack. They are of that save's kind."""
    saves = [
        (one.saved, _save(one.name, one.own), one.kind, _shape(one.own))
        for one in groups
        if not one.role
    ]
    for manifest in Records(run).known.values():
        with suppress(KeyError, TypeError, ValueError):
            if not manifest.get("role") and not manifest.get("lacks"):
                name, files = str(manifest["source"]), manifest["files"]
                row = (
                    int(manifest["saved"]),
                    _save(name, files),
                    str(manifest["kind"]),
                    _shape(files),
                )
                saves.append(row)
    found = []
    for group in groups:
        shape, own = _shape(group.own), _save(group.name, group.own)
        if content.numbers_of(group.items[0].path):
            # What lies here and there is one save, and so are the copies of one while it grew.
            older: dict[tuple[object, ...], tuple[str, frozenset[str]]] = {}
            for saved, save, kind, other in sorted(saves, key=lambda one: -one[0]):
                if saved < group.saved and save != own and shape & other:
                    older.setdefault(save, (kind, other))
            rows = list(older.values())
            lacks = content.find_lacking(shape, (other for _, other in rows))
            if lacks:
                group = group._replace(role="", kind=rows[0][0], lacks=lacks)
        found.append(group)
    return found


def _save(name: str, files: Iterable[str]) -> tuple[object, ...]:
    """Return what the copies of one save share, by its name and files below one folder."""
    return content.save_of(name, any(file != name and is_within(file, name) for file in files))


def _shape(names: Iterable[str]) -> frozenset[str]:
    return content.shape_of(name for name in names if name.endswith(WEIGHTS))


def parts_of(run: Run, group: Group, known: content.Known) -> list[Group]:
    """Return the complete files of a checkpoint that is corrupt otherwise, each as one by itself,
    the newest first. Whether they mean something without the others is for their user to say."""
    found = []
    for item in sorted(_files_alone(group), key=lambda item: -item.weights):
        with suppress(OSError):
            if known.judge_item(item).state == COMPLETE:
                part = _group(run, [item], [], [], [])
                kind = f"{group.kind}{PART}{part.name}"
                found.append(part._replace(name=f"{part.name} alone", kind=kind))
    return found


def _files_alone(group: Group) -> list[content.Item]:
    """Return the weights of a checkpoint that may mean something by themselves: not those in a
    folder of one step, such as checkpoint-54."""
    if group.items[1:]:
        return group.items
    path = group.items[0].path
    if not os.path.isdir(path) or content.counted(os.path.basename(path)):
        return []
    with suppress(OSError):
        return [content.stamp(file) for file in files_of(path) if file.endswith(WEIGHTS)]
    return []


def _weights_beside(run: Run, taken: set[str]) -> list[content.Item]:
    """Return weights in the checkpoint folder that the pattern doesn't name, and no result does: a
    folder among the results, such as the model at the end, is copied as it lies."""
    folder, found = run.checkpoints, []
    named = {os.path.realpath(path) for name in run.spec.results for path in expand(run, name)}
    home = os.path.realpath(folder)
    below = [path for path in named if path != home and is_within(path, home)]
    for path in files_of(folder) if os.path.isdir(folder) else ():
        is_weights = path.endswith(WEIGHTS) and not content.is_leftover(path[len(folder) :])
        real = os.path.realpath(path)
        is_result = real in named or any(is_within(real, one) for one in below)
        if is_weights and not is_result and path not in taken and real not in taken:
            with suppress(OSError):
                found.append(content.stamp(path))
    return found


def expand(run: Run, name: str) -> list[str]:
    """Return the paths that a result names: itself, or what its pattern finds."""
    return results.expand(run.inside(name))


def state_of(group: Group, known: content.Known) -> tuple[str, str]:
    """Judge a checkpoint: it is as good as the worst of its weights. What can't be read is
    unknown, and so is what lacks a file of its save."""
    judged = {item.path for item in group.items}
    beside = [path for path in group.files.values() if path.endswith(WEIGHTS)]
    worst = content.Verdict(COMPLETE, "")
    try:
        inside = [path for path in beside if not any(is_within(path, item) for item in judged)]
        for item in [*group.items, *map(content.stamp, inside)]:
            verdict = known.judge_item(item, group.older if item is group.items[0] else ())
            if verdict.state == CORRUPT:
                return verdict.state, verdict.why
            worst = verdict if verdict.state == UNKNOWN else worst
        if group.lacks:
            return UNKNOWN, content.say_missing(group.lacks)
    except OSError as error:
        return UNKNOWN, error.strerror or str(error)
    return worst.state, worst.why


def _group(
    run: Run,
    items: list[content.Item],
    own: list[str],
    beside: list[str],
    older: list[content.Item],
) -> Group:
    folder = run.checkpoints
    paths = [path for item in items for path in files_of(item.path)] + own
    whole = [*paths, *beside]
    name = min(os.path.relpath(item.path, folder) for item in items)
    first = os.path.join(folder, name)
    step = content.step_of(first)
    named = _step_inside(first) if step is None else step
    is_numbered = os.path.isdir(first) or content.save_of(first, False)[1]
    kind = re.sub(r"\d+", "0", name) if is_numbered else os.path.join(os.path.dirname(name), "*")
    stamp, moment = content.fingerprint(sorted(paths)), content.fingerprint(sorted(whole))
    links = {}
    for entry in os.scandir(folder):
        if entry.is_symlink() and os.path.realpath(entry.path) == os.path.realpath(first):
            links[entry.name] = os.readlink(entry.path)
    links.pop(name, None)
    return Group(
        name,
        kind + (f" of node {run.rank}" if run.rank else ""),
        {os.path.relpath(path, folder): path for path in whole},
        {os.path.relpath(path, folder): path for path in paths},
        named,
        named is not None,
        max(item.weights for item in items),
        max(item.changed for item in items),
        sum(os.path.getsize(path) for path in whole if os.path.exists(path)),
        stamp,
        moment,
        items,
        older,
        links,
        {
            os.path.relpath(path, folder): os.stat(path).st_mtime_ns
            for path in paths
            if path.endswith(WEIGHTS)
        },
        "",
        "",
    )


def _with(run: Run, item: content.Item) -> tuple[list[str], list[str]]:
    """Return the files that belong to an item besides, as the job groups them: its own, and those
    that others share with it, among them a tracker that names it."""
    folder, name = os.path.split(item.path)
    found = content.find_beside(run.checkpoints, run.spec.checkpoint.files, item.path)
    own, beside = ([file for path in some for file in files_of(path)] for some in found)
    for tracker in TRACKERS:
        path = os.path.join(folder, tracker)
        with suppress(OSError, ValueError), open(path, encoding="utf-8") as stream:
            tracked = stream.read(200).strip()
            if tracked == name or tracked.isdigit() and name == f"iter_{int(tracked):07d}":
                beside.append(path)
    return own, beside


def _step_inside(path: str) -> int | None:
    """Return the step that a folder's trainer_state.json tells."""
    with suppress(OSError, ValueError, AttributeError):
        with open(os.path.join(path, "trainer_state.json"), encoding="utf-8") as stream:
            step = json.load(stream).get("global_step")
        return step if isinstance(step, int) else None
    return None


def of_result(path: str) -> Group:
    """Return a result as a group of its own, by the name of its file. Raises OSError."""
    item, folder = content.stamp(path), os.path.dirname(path)
    files = {os.path.relpath(one, folder): one for one in files_of(path)}
    stamp, name = content.fingerprint(sorted(files.values())), os.path.basename(path)
    return Group(
        name, f"result {name}", files, files, None, False, item.weights, item.changed, item.size,
        stamp, stamp, [item], [], {}, {}, RESULT, "",
    )  # fmt: skip


def is_changed(group: Group) -> bool:
    """Return whether a file of a checkpoint was written since it was looked at."""
    return content.fingerprint(sorted(group.files.values())) != group.moment


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is a folder's own or lies below it."""
    return (path + "/").startswith(folder.rstrip("/") + "/")
