"""What of a run is safe elsewhere: the one answer that stop, the deadline, the end of the box and
`status` go by."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from . import checkpoints, child, content, results
from .completeness import COMPLETE, UNKNOWN
from .context import Run
from .copies import groups, held
from .copies.records import SAFE, Records, is_mixed, read_mixed

LIMIT = 5.0  # seconds for the folders to answer
SILENT = 600.0  # seconds after which an attempt that printed no step has trained all the same


class Safe(NamedTuple):
    """`newest`: the path here of the newest complete checkpoint, judged now, '' for none.
    `verified`: the newest complete generation at the durable place whose bytes were compared, ''
    for none. `results_missing`: results that aren't verified there. `unseen`: why an empty
    checkpoint folder isn't nothing to lose: the program trained, and neither a checkpoint nor a
    result of it was ever seen; '' where that isn't so.
    `is_newest_safe`: the newest complete one is verified there, or there is nothing to lose.
    `is_all_safe`: the results are, too. `left`: what is here until it is copied: what is held, for
    another attempt may have written over it, and newer files of two saves. Without a durable place
    nothing is safe."""

    newest: str
    verified: str
    results_missing: list[str]
    unseen: str
    is_newest_safe: bool
    is_all_safe: bool
    left: tuple[str, ...] = ()


def look_safe(run: Run) -> Safe:
    """Return what is safe. It waits for LIMIT seconds at most, whatever hangs."""
    noted = run.folder.json(SAFE)
    verified = str(noted.get("verified") or "")
    stamps = [str(stamp) for stamp in noted.get("stamps") or []]
    newest, is_there, is_seen = "", False, True
    left: list[str] = []
    mixed = read_mixed(run)
    missing: list[str] = [] if run.rank else list(run.spec.results)
    try:
        newest, is_there, missing, left = child.call(
            run, _look_here, run, stamps, mixed, dict(noted.get("results") or {}), limit=LIMIT
        )
    except child.Failed:
        is_seen = False  # what can't be looked at is called safe by nobody
    unseen = "" if newest or verified or not is_seen else _unseen(run, missing)
    is_newest_safe = bool(run.durable) and is_seen and (is_there or not newest) and not unseen
    return Safe(
        newest,
        verified,
        missing,
        unseen,
        is_newest_safe,
        is_newest_safe and not missing and not left,
        tuple(left),
    )


def _look_here(
    run: Run, stamps: list[str], mixed: dict[str, str], proven: dict[str, str]
) -> tuple[str, bool, list[str], list[str]]:
    """Return the newest complete checkpoint here, whether it lies there, missing results, and what
    is left to copy besides."""
    newest, is_there, left = "", False, held.names(run)
    copied = {
        manifest.get("stamp")
        for manifest in Records(run).known.values()
        if manifest.get("state") in (COMPLETE, UNKNOWN)
    }
    if run.checkpoints and run.spec.checkpoint.pattern:
        known = content.Known(run.folder.at("own/whole.cache"))
        for group in groups.look(run):
            if group.role:
                continue
            if is_mixed(mixed, group.items[0].path):
                left += [] if group.stamp in copied else [group.name]
                continue
            is_complete = groups.state_of(group, known)[0] == COMPLETE
            found = [group] if is_complete else groups.parts_of(run, group, known)
            if found:
                newest, is_there = found[0].items[0].path, found[0].stamp in stamps
                break
    missing = []
    for name in run.spec.results if run.rank == 0 else ():
        paths = results.expand(run.inside(name))
        if not all(proven.get(path) == content.fingerprint([path]) for path in paths) or not any(
            os.path.lexists(path) for path in paths
        ):
            missing.append(name)
    return newest, is_there, missing, left


def _unseen(run: Run, missing: list[str]) -> str:
    """Say that nothing was seen of what the program must have saved, where no checkpoint is
    proven complete; '' where something was, or where nothing is expected.

    What was copied and can't be judged was seen, and so were results. Of several nodes the first
    saves.
    """
    if run.rank or not run.checkpoints or not run.spec.checkpoint.pattern:
        return ""
    known = Records(run).known
    seen = [manifest.get("state") for manifest in known.values() if not manifest.get("role")]
    if COMPLETE in seen or UNKNOWN in seen:
        return ""
    if (run.spec.results and not missing) or not has_trained(run):
        return ""
    return (
        f"the program trained, and no complete checkpoint was ever seen in {run.checkpoints}; if it"
        " saves elsewhere, checkpoint.folder of the job must name that"
    )


def has_trained(run: Run) -> bool:
    """Return whether an attempt of the run came to a step, to its end or to the deadline, or
    lasted for SILENT."""
    step = run.folder.json("state.json").get("step")
    if isinstance(step, int) and step > 0:
        return True
    begun: float | None = None
    for event in run.folder.rows("events.jsonl"):
        with suppress(ValueError, TypeError):
            name, at = event.get("event"), float(event.get("t") or 0)
            if name == "attempt":
                begun = at
            elif name == "ended" and begun is not None:
                step = str(event.get("step") or "")
                is_end = event.get("class") in ("", None, "deadline")
                if is_end or (step.isdigit() and int(step) > 0) or at - begun >= SILENT:
                    return True
                begun = None
    if begun is None:
        return False
    end = run.folder.ended()  # nobody was there to tell the attempt's
    over = run.folder.json(f".{end}").get("t") if end else None
    return (over if isinstance(over, (int, float)) else run.now) - begun >= SILENT


def newest_here(run: Run) -> str:
    """Return the path of the newest checkpoint here that isn't corrupt, judged now; '' for none
    and where nothing answers in time."""
    if not run.checkpoints or not run.spec.checkpoint.pattern:
        return ""
    where = checkpoints.where(run)
    with suppress(child.Failed):
        whole = content.look_of(child.call(run, content.look, *where, limit=LIMIT)).whole
        return whole.path if whole else ""
    return ""


def name_if_usable(run: Run, path: str) -> str:
    """Return a checkpoint's path if it is there, and neither corrupt at this moment nor of two
    saves, else ''.

    Where nothing answers in time it isn't named either.
    """
    if not path:
        return ""
    with suppress(child.Failed):
        mixed = read_mixed(run)
        cache = run.folder.at("own/whole.cache")
        return path if child.call(run, _is_usable, path, cache, mixed, limit=LIMIT) else ""
    return ""


def _is_usable(path: str, cache: str, mixed: dict[str, str]) -> bool:
    return content.is_usable(path, cache) and not is_mixed(mixed, path)
