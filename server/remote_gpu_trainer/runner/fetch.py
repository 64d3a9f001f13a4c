"""What comes to the box before the program starts: data, and checkpoints of this run."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from . import asking, checkpoints, durable, lineage, why
from .asking import Beat
from .context import Run, home, user_mask
from .copies import clouds, place
from .copies.place import join, kind_of
from .copies.tool import Failed, Tools

TRIES = 3
NO_ROOM = re.compile(r"No space left|quota exceeded", re.I)


class Asked(Exception):
    """The run was asked to end."""


def data(run: Run, beat: Beat) -> why.Verdict | None:
    """Bring what the job lists under `data`; None for success, or when the run was asked to end."""
    with suppress(Asked):
        return _data(run, beat)
    return None


def restore(run: Run, beat: Beat) -> why.Verdict | None:
    """Bring the checkpoints back where the durable place has newer ones; None as above.

    Newer ones are those of the same line that another box wrote on; with none here, all that the
    folder held when it was copied last. Where the place doesn't answer and nothing is here, it
    fails: to begin again from nothing would be dearer.
    """
    with suppress(Asked):
        return _restore(run, beat)
    return None


def _data(run: Run, beat: Beat) -> why.Verdict | None:
    for source, target in run.spec.data:
        run.log(f"staging {source}")
        start, end = home(source), run.inside(target)

        def bring(start: str = start, end: str = end, way: int = 0) -> None:
            _place(run, start, way).get(start, end, [])
            # A bucket's tools copy an address that names nothing, or one object, in silence.
            if kind_of(start) != "local" and not _has_file(end):
                raise Failed("no file came; name a folder")

        error = _try(run, beat, lambda way: bring(way=way), "stage-failed")[1]
        if NO_ROOM.search(error):
            return why.Verdict("disk", why.entry_of(run, "disk"), f"staging {source}: no room left")
        if error:
            entry = why.entry_of(run, "network")
            return why.Verdict("network", entry, f"staging {source} failed: {error}")
    return None


def _restore(run: Run, beat: Beat) -> why.Verdict | None:
    there = lineage.there(run)
    if not there or not run.spec.checkpoint_pattern or run.spec.resume == "none":
        return None
    found = checkpoints.newest(run)
    told, error = _try(run, beat, lambda way: _ask(run, there, way), "restore-failed")
    if error:
        return _no_answer(run, there, error, found is not None)
    line = lineage.parse(told["line"])
    if line and not lineage.is_of(run, line):
        reason = f"the checkpoints at {there} are of the run {line.name!r}; set another durable.to"
        return why.Verdict("bug", "", reason)
    if not told["is_there"] or found and not (line and _is_ahead(line, lineage.here(run))):
        if line and line.abandoned:
            lineage.tell_abandoned(run, line.abandoned)
        return None
    only = [*line.names, lineage.FILE] if line else []
    _, error = _try(
        run,
        beat,
        lambda way: _place(run, there, way).get(there, run.checkpoints, only),
        "restore-failed",
    )
    if error and not line and clouds.NOTHING.search(error):
        return None
    if error:
        return _no_answer(run, there, error, found is not None)
    if line and line.abandoned:
        lineage.tell_abandoned(run, line.abandoned)
    found = checkpoints.newest(run)
    if found:
        run.event("restored", **{"from": there}, checkpoint=found.path)
    return None


def _no_answer(run: Run, there: str, error: str, is_here: bool) -> why.Verdict | None:
    if is_here:
        run.log(f"the checkpoints at {there} can't be looked for, those here are used: {error}")
        return None
    entry = why.entry_of(run, "network")
    return why.Verdict("network", entry, f"the checkpoints at {there} can't be looked for: {error}")


def _ask(run: Run, there: str, way: int) -> dict[str, Any]:
    """Return what the durable place tells of its checkpoints. Raises Failed."""
    of = _place(run, there, way)
    text = of.read(join(there, lineage.FILE))
    is_there = text is not None or of.has_folder(there)
    return {"line": (text or b"").decode("utf-8", "surrogateescape"), "is_there": is_there}


def _is_ahead(line: lineage.Lineage, here: lineage.Lineage | None) -> bool:
    """Return whether another box went on with the line that lies here."""
    return here is not None and here.id == line.id and line.count > here.count


def _place(run: Run, address: str, way: int) -> place.Place:
    """Return a place whose programs carry the run's mark, so that none outlives a stop."""
    env = {**durable.child_environment(run), "RGT_RUN_DIR": run.folder.path}
    moves = [0]

    def moved() -> None:
        moves[0] += 1
        run.folder.write("fetch.progress", f"{moves[0]}\n")

    return place.at(address, Tools(env, moved), way % 2 == 1, user_mask())


def _has_file(path: str) -> bool:
    return os.path.isfile(path) or any(names for _, _, names in os.walk(path))


def _try(run: Run, beat: Beat, work: Callable[[int], Any], event: str) -> tuple[Any, str]:
    """Work in a process of its own, up to three times; return the value and the last error.

    `work` is told which way to go: after one that hung, another.
    """
    way, error = 0, ""
    for number in range(1, TRIES + 1):
        child = asking.Job(durable.guarded, work, way)
        hung = _wait(run, beat, child)
        value, said = (None, "") if hung else _value(child)
        if not hung and not said:
            return value, ""
        quiet = run.spec.timings.copy_quiet
        error = f"no progress for {quiet:.0f} s" if hung else durable.mask(run, said)
        if clouds.NOTHING.search(error):
            break
        way += hung
        run.event(event, **{"try": number}, why=error)
        over = run.up + run.spec.timings.sync_wait
        while number < TRIES and run.up < over:
            run.clock.nap(run.spec.timings.tick)
            if beat():
                raise Asked
    return None, error


def _value(child: asking.Job) -> tuple[Any, str]:
    try:
        value, said = child.value()
    except asking.Failed as failed:
        return None, str(failed)
    return value, said


def _wait(run: Run, beat: Beat, child: asking.Job) -> bool:
    """Wait for a child; end it when the run is asked to end, or without progress: then True."""
    progress, moved_at = "", run.up
    while not child.poll(min(run.spec.timings.tick, 0.1)):
        now = run.folder.read("fetch.progress")
        if now != progress:
            progress, moved_at = now, run.up
        is_asked = beat()
        if not is_asked and run.up - moved_at < run.spec.timings.copy_quiet:
            continue
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        child.give_up()
        if is_asked:
            raise Asked
        return True
    return False
