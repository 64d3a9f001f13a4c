"""What is held on this box, because another attempt may write over the only complete one.

It lies in generations of the run's own folder, as at the durable place, until a round of copies has
brought it there; without a durable place the best and the newest of each kind stay.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import Any

from .. import completeness, content, results
from ..child import Failed
from ..completeness import COMPLETE, CORRUPT, UNKNOWN
from ..context import Run, user_mask
from . import groups
from .generations import NAME as NAME_OF
from .generations import WHOLE, Generations, digest_of, home, name_of
from .groups import Group
from .place import Local, join
from .plan import SPARE, Here, There, age_of, find_line, is_mixed
from .reading import Reader
from .records import SAFE, Records, read_mixed
from .records import is_mixed as was_mixed
from .tool import Tools

NAME = ".held"  # in the run folder
NO_ROOM = os.strerror(errno.ENOSPC)


def generations(run: Run) -> Generations:
    """Return what is held of the run, as generations of a place. Raises Failed."""
    place = Local(Tools({}, lambda: None), user_mask())
    found = Generations("", place, run.folder.at(NAME), {})
    found.read()
    return found


def names(run: Run) -> list[str]:
    """Return what is held, by the names under which it was saved. Raises Failed."""
    if not has_any(run):
        return []
    return [one.source for one in generations(run).listed() if one.counts]


def has_any(run: Run) -> bool:
    """Return whether something may be held."""
    with suppress(OSError):
        return any(NAME_OF.match(name) for name in os.listdir(home(run.folder.at(NAME))))
    return False


def find_alone(run: Run) -> list[Group]:
    """Return what an earlier attempt left complete here, and neither the durable place has nor is
    held: the newest checkpoint that nothing speaks against, the newest that is proven, and results.
    Raises Failed and OSError."""
    if not run.folder.attempt() or run.rank:
        return []
    records = Records(run)
    known = records.known.values() if run.durable else ()
    there = {str(manifest.get("stamp")) for manifest in known if manifest.get("state") in WHOLE}
    there |= {str(manifest.get("stamp")) for manifest in generations(run).known.values()}
    found = [*_find_checkpoints(run), *_find_results(run)]
    return [group for group in found if group.stamp not in there]


def _find_checkpoints(run: Run) -> list[Group]:
    known, mixed = content.Known(run.folder.at("own/whole.cache")), read_mixed(run)
    found: list[Group] = []
    for group in groups.look(run):
        if group.role or was_mixed(mixed, group.items[0].path):
            continue
        state = groups.state_of(group, known)[0]
        if state == COMPLETE or (state == UNKNOWN and not found):
            found.append(group)
        if state == COMPLETE:
            break
    return found


def _find_results(run: Run) -> list[Group]:
    """Return the results of this run that aren't proven at the durable place."""
    missing = results.look(run).missing  # among them what is from before the run
    proven = dict(run.folder.json(SAFE).get("results") or {}) if run.durable else {}
    found = []
    for name in run.spec.results:
        for path in results.expand(run.inside(name)) if name not in missing else ():
            is_safe = proven.get(path) == content.fingerprint([path])
            if is_safe or not os.path.exists(path) or _is_checkpoint(run, path):
                continue
            if completeness.judge_path(path).state != CORRUPT:
                found.append(groups.of_result(path))
    return found


def _is_checkpoint(run: Run, path: str) -> bool:
    """Return whether a result is a checkpoint by the job's pattern, and held as one."""
    folder, pattern = run.checkpoints, run.spec.checkpoint.pattern
    return bool(folder and pattern) and path in content.find(folder, pattern)


def hold_groups(run: Run) -> list[str]:
    """Hold what lies here alone; return why some of it can't be held. Raises Failed and OSError."""
    held, reader = generations(run), None
    faults = []
    for group in find_alone(run):
        reader = reader or Reader(run, Records(run))
        fault = _hold_group(run, group, held, reader)
        faults += [f"{group.name}: {fault}"] if fault else []
    if not run.durable:
        _drop_older(held)
    return faults


def _hold_group(run: Run, group: Group, held: Generations, reader: Reader) -> str:
    """Copy one, and return why that fails, '' for success. What lies here changes no more once its
    copy was compared with it."""
    os.makedirs(held.home, exist_ok=True)
    free = held.place.free(held.home)
    if free is not None and group.size + SPARE > free:
        need, has = group.size / 1e6, free / 1e6
        return f"{NO_ROOM}: it takes {need:,.1f} MB, and {run.folder.path} has {has:,.1f} MB free"
    fresh = join(held.home, "copying")
    held.place.drop(fresh)
    try:
        sums = {}
        held.place.put(group.files, join(fresh, "files"))
        for name in group.files:
            sums[name], fault = completeness.digest(
                join(fresh, f"files/{name}"), held.place.tools.moved
            )
            if fault:
                return fault
        if groups.is_changed(group):
            return "it changed while it was copied"
        manifest = _make_manifest(run, group, sums, held, reader)
        name = name_of(manifest["line"], manifest["step"], manifest["digest"])
        held.place.drop(join(held.home, name))
        os.rename(fresh, join(held.home, name))
        held.commit(name, manifest)
        run.event("held", source=group.name, generation=name)
        run.log(f"held before the next attempt: {group.name} ({join(held.home, name)})")
        return ""
    finally:
        with suppress(Failed):
            held.place.drop(fresh)


def _make_manifest(
    run: Run, group: Group, sums: dict[str, str], held: Generations, reader: Reader
) -> dict[str, Any]:
    """Return the manifest of a checkpoint that is held."""
    here = reader.describe_group(group)
    durable = Generations("", held.place, held.home, reader.records.known) if run.durable else held
    there = [*durable.listed(), *held.listed()]
    line, is_anew = find_line(here, there, reader.job(frozenset(), None, None))
    return {
        "run": run.spec.name,
        "source": group.name,
        "kind": group.kind,
        "line": line,
        "anew": is_anew,
        "step": here.step,
        "named": group.is_named,
        "apart": group.apart,
        "rhythms": here.has_rhythms,
        "role": group.role,
        "lacks": group.lacks,
        "state": UNKNOWN if is_mixed(here, there) else here.state,
        "why": here.why,
        "digest": digest_of({name: sums[name] for name in group.own}),
        "stamp": group.stamp,
        "saved": group.saved,
        "size": group.size,
        "links": group.links,
        "own": sorted(group.own),
        "files": {name: [os.path.getsize(path), sums[name]] for name, path in group.files.items()},
        "ours": True,
        "copied": int(run.now),
    }


def _drop_older(held: Generations) -> None:
    """Keep of each kind the one that came farthest, and the newest."""
    rows = held.listed()
    for one in rows:
        of_kind = [other for other in rows if other.kind == one.kind]
        best = max(of_kind, key=lambda other: (other.step or 0, age_of(other)))
        if one not in (best, max(of_kind, key=age_of)):
            held.drop(one.name)


def look(held: Generations) -> list[tuple[Group, Here]]:
    """Return what is held as what lies here, for a plan. Raises OSError."""
    rows = {one.name: one for one in held.listed() if one.counts}
    return [(_group(held, one), _here(held, one)) for one in rows.values()]


def _group(held: Generations, one: There) -> Group:
    manifest = held.known[one.name]
    paths = {name: join(held.home, f"{one.name}/files/{name}") for name in manifest["files"]}
    stamp = content.fingerprint(sorted(paths.values()))
    own = {name: paths[name] for name in manifest["own"] if name in paths}
    return Group(
        one.name, one.kind, paths, own, one.step, bool(manifest["named"]), one.at, one.at, one.size,
        stamp, stamp, [content.stamp(path) for path in own.values()], [],
        dict(manifest["links"]), {}, one.role, str(manifest["lacks"]),
    )  # fmt: skip


def _here(held: Generations, one: There) -> Here:
    manifest = held.known[one.name]
    return Here(
        name=one.name,
        kind=one.kind,
        order=one.at,
        step=one.step,
        is_named=bool(manifest["named"]),
        state=one.state,
        stamp=one.stamp,
        age=1e9,
        digest=one.digest,
        size=one.size,
        apart=one.apart,
        is_cut=not manifest["rhythms"],
        why=str(manifest["why"]),
        is_earlier=True,
        source=one.source,
        line=one.line,
        is_anew=one.is_anew,
    )
