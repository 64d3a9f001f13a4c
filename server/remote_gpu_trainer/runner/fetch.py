"""What comes to the box before the program starts: data, and checkpoints of this run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from . import child, completeness, content, durable, failures, notices
from .child import Asked, Beat, Failed
from .completeness import COMPLETE, CORRUPT
from .context import Run, home, user_mask
from .copies import clouds, groups, held, place, place_at
from .copies.generations import Generations
from .copies.place import join
from .copies.plan import There, wanted
from .copies.records import Records, is_mixed, read_mixed
from .copies.tool import Tools
from .core.copying import LASTING, NO_ROOM
from .core.model import Verdict
from .spec import place_kind

TRIES = 3
PROGRESS = "own/fetch.progress"  # in the run folder: changes as long as something comes


class Corrupt(Failed):
    """The bytes of a generation aren't as its manifest says."""


def data(run: Run, beat: Beat) -> Verdict | None:
    """Bring what the job lists under `data`; None for success, or when the run was asked to end."""
    with suppress(Asked):
        return _data(run, beat)
    return None


def restore(run: Run, beat: Beat) -> Verdict | None:
    """Bring checkpoints back from the durable place where none here is complete, or where it has
    newer ones that another box wrote; None as above.

    Where the place doesn't answer and nothing complete is here, it fails as `network`: to begin
    again from nothing would be dearer, so the run asks later once more, or ends.
    """
    with suppress(Asked):
        return _restore(run, beat)
    return None


def _data(run: Run, beat: Beat) -> Verdict | None:
    for copy in run.spec.data:
        source, target = copy["from"], copy["to"]
        run.log(f"staging {source}")
        start, end = home(source), run.inside(target)

        def bring(start: str = start, end: str = end) -> None:
            _place(run, start).get(start, end)
            # A bucket's tools copy an address that names nothing, or one object, in silence.
            if place_kind(start) != "local" and not _has_file(end):
                raise Failed("no file came; name a folder")

        error = _try(run, beat, bring, "stage-failed")[1]
        if NO_ROOM.search(error):
            return Verdict(
                "disk", failures.entry_of(run.spec, "disk"), f"staging {source}: no room left"
            )
        if error:
            entry = failures.entry_of(run.spec, "network")
            return Verdict("network", entry, f"staging {source} failed: {error}")
    return None


def _restore(run: Run, beat: Beat) -> Verdict | None:
    if not run.checkpoints or not run.spec.checkpoint.pattern:
        return None
    if not run.durable and not held.has_any(run):
        return None
    if run.spec.resume == "none":
        return None
    try:
        here, corrupt_here, is_empty = child.call(run, _look_here, run, beat=beat)
    except Failed:
        return None  # whoever begins looks again, and tells
    brought, error = _try(
        run, beat, lambda: _bring(run, here, set(corrupt_here), is_empty), "restore-failed"
    )
    if error and here is not None:
        run.log(f"the durable checkpoints can't be looked for, those here are used: {error}")
    elif error:
        there = durable.address_of_checkpoints(run)
        reason = f"the checkpoints at {there} can't be looked for: {error}"
        return Verdict("network", failures.entry_of(run.spec, "network"), reason)
    elif brought and brought["refusal"]:
        return Verdict("bug", "", brought["refusal"])
    for fault in brought["corrupt"] if brought else ():
        entry = failures.entry_of(run.spec, "corrupt")
        run.event("generation-corrupt", why=fault, entry=entry)
        notices.notify(run, f"{fault} ({entry}): it stays there, and nothing goes on from it")
    if brought and brought["corrupt"] and here is None and not brought["brought"]:
        reason = f"nothing complete is left at the durable place: {brought['corrupt'][0]}"
        return Verdict("bug", failures.entry_of(run.spec, "corrupt"), reason)
    for name, paths in brought["brought"] if brought else ():
        run.event("restored", **{"from": name}, checkpoint=paths)
        run.log(f"brought back from the durable place: {paths} ({name})")
    return None


def _bring(run: Run, here: Any, corrupt_here: set[str], is_empty: bool) -> dict[str, Any]:
    """Bring what is wanted, after what _look_here found; return what came, which generations
    turned out to be corrupt, and why nothing may come from there. Raises Failed."""
    address = durable.address_of_checkpoints(run)
    of = _place(run, address)
    records = Records(run)
    found = Generations(run.spec.name, of, address, records.known)
    near = held.generations(run)
    there = _read(found, near) if run.durable else []
    if refusal := found.refusal():
        return {"refusal": refusal, "brought": [], "corrupt": []}
    there += [one for one in near.listed() if one.name not in found.known]
    if here is None and not is_empty:  # only what is proven is better than what can't be
        there = [one for one in there if one.state == COMPLETE]
    brought, corrupt = [], []
    todo, doubted = wanted(there, here, corrupt_here), ""
    while todo:
        one, *todo = todo
        at = found if one.name in found.known else near
        try:
            install(at.place, join(at.home, one.name), at.known[one.name], run.checkpoints)
        except Corrupt as fault:
            if doubted != one.name:  # it may have broken on its way
                todo, doubted = [one, *todo], one.name
                continue
            corrupt.append(str(fault))
            at.call_corrupt(one.name)
            there = [other for other in there if other != one]
            todo += wanted([other for other in there if other.kind == one.kind], here, corrupt_here)
            continue
        at.known[one.name]["ours"] = True
        brought.append([join(at.home, one.name), one.source])
    if brought and is_empty:  # alone they make a program take its folder for another run's
        _bring_notes(of, address, run.checkpoints)
    is_old = not there and is_empty and not corrupt  # of before there were generations
    if is_old and any(content.may_be_checkpoint(name) for name in of.names(address)):
        with suppress(Failed):
            of.get(address, run.checkpoints)
            brought += [[address, "all"]] if _has_file(run.checkpoints) else []
    records.write()
    return {"refusal": "", "brought": brought, "corrupt": corrupt}


def _read(found: Generations, near: Generations) -> list[There]:
    """Return what lies at the durable place; [] where that doesn't answer, but something is held
    here. Raises Failed."""
    try:
        return found.read()
    except Failed:
        if not near.known:
            raise
        return []


def _look_here(run: Run) -> tuple[tuple[int | None, int] | None, list[str], bool]:
    """Return step and time of save of the newest complete checkpoint here, the names of corrupt
    ones and of those of two saves, and whether nothing is here."""
    mixed = read_mixed(run)
    known = content.Known(run.folder.at("own/whole.cache"))
    corrupt_here: set[str] = set()
    here, is_empty = None, True
    for group in groups.look(run):
        state = groups.state_of(group, known)[0]
        is_empty = False
        if state == CORRUPT or is_mixed(mixed, group.items[0].path):
            corrupt_here |= {group.name, *group.own}
        elif state == COMPLETE and here is None and not group.role:
            here = (group.step, group.saved)
    return here, sorted(corrupt_here), is_empty


def _bring_notes(of: place.Place, there: str, here: str) -> None:
    """Bring the small files that lay beside the checkpoints, such as a table of losses."""
    for name in of.names(there):
        if content.NOTE.search(name) and not name.startswith(".rgt-"):
            text = of.read(join(there, name))
            path = os.path.join(here, name)
            if text is not None and len(text) < 1 << 24 and not os.path.lexists(path):
                os.makedirs(here, exist_ok=True)
                with open(path, "xb") as file:
                    file.write(text)


def install(of: place.Place, there: str, manifest: dict[str, Any], here: str) -> None:
    """Bring a generation into the checkpoint folder, once its bytes are as its manifest says; what
    has its name there is moved aside. Raises Failed, and Corrupt where they aren't."""
    fresh = os.path.join(here, ".rgt-fetched")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        of.get(join(there, "files"), fresh)
        for name, (_, digest) in manifest["files"].items():
            path = os.path.join(fresh, name)
            if not os.path.isfile(path) or completeness.digest(path, of.tools.moved)[0] != digest:
                raise Corrupt(f"{there}: {name} isn't as its manifest says")
        for name in sorted({name.split("/")[0] for name in manifest["files"]}):
            target = os.path.join(here, name)
            if os.path.isfile(target) and not content.NOTE.search("/" + name):
                content.quarantine(target)
            elif os.path.lexists(target):
                _set_aside(fresh, target, manifest)
            if os.path.isdir(target):
                _merge(os.path.join(fresh, name), target)
            else:
                os.replace(os.path.join(fresh, name), target)
        for name, target in (manifest.get("links") or {}).items():
            link = os.path.join(here, name)
            if "/" not in name and not os.path.exists(link):
                with suppress(FileNotFoundError):
                    os.unlink(link)
                os.symlink(target, link)
    except OSError as error:
        raise Failed(f"can't bring {there} here: {error.strerror}") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _set_aside(fresh: str, target: str, manifest: dict[str, Any]) -> None:
    """Move aside what a generation's source is called here; a folder above it stays."""
    source = os.path.join(os.path.dirname(fresh), manifest["source"])
    if os.path.lexists(source) and (source + "/").startswith(target + "/"):
        content.quarantine(source)


def _merge(fresh: str, target: str) -> None:
    for path in list(completeness.files_of(fresh)):
        into = os.path.join(target, os.path.relpath(path, fresh))
        os.makedirs(os.path.dirname(into), exist_ok=True)
        os.replace(path, into)


def _place(run: Run, address: str) -> place.Place:
    """Return a place whose programs carry the run's mark, so that none outlives a stop."""
    env = {**durable.child_environment(run), "RGT_RUN_DIR": run.folder.path}
    moves = [0]

    def moved() -> None:
        moves[0] += 1
        run.folder.write(PROGRESS, f"{moves[0]}\n")

    return place_at(address, Tools(env, moved), user_mask())


def _has_file(path: str) -> bool:
    return os.path.isfile(path) or any(names for _, _, names in os.walk(path))


def _try(run: Run, beat: Beat, work: Callable[[], Any], event: str) -> tuple[Any, str]:
    """Work in a process of its own; return the value and the last error. Three times at most.

    What lasts, such as a full disk, is told at once."""
    error = ""
    for number in range(1, TRIES + 1):
        try:
            worker = child.start(work)
            child.wait(run, worker, beat=beat, progress=lambda: run.folder.read(PROGRESS))
            return worker.value(), ""
        except Asked:
            raise
        except Failed as failed:
            error = durable.mask(run, str(failed))
        if clouds.NOTHING.search(error):
            break
        run.event(event, **{"try": number}, why=error)
        if NO_ROOM.search(error) or LASTING.search(error):
            break
        over = run.up + run.spec.timings.sync_wait
        while number < TRIES and run.up < over:
            run.clock.nap(run.spec.timings.tick)
            if beat():
                raise Asked
    return None, error
