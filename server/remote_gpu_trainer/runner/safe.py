"""What of a run is safe elsewhere: the one answer that stop, the deadline, the end of the box and
`status` go by."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, NamedTuple

from . import asking, content, results
from .completeness import COMPLETE
from .context import Run
from .copies.rounds import SAFE

LIMIT = 5.0  # seconds for the folders to answer


class Safe(NamedTuple):
    """`newest`: the path here of the newest complete checkpoint, judged now, '' for none.
    `verified`: the newest complete generation at the durable place whose bytes were compared, ''
    for none; `verified_at`: when, in seconds since 1970. `results_missing`: results that aren't
    verified there. `nothing_complete`: neither here nor there can anything be proven complete.
    `is_newest_safe`: the newest complete one, if there is any, is verified there. `is_all_safe`:
    the results are, too. Without a durable place nothing is."""

    newest: str
    newest_step: int | None
    verified: str
    verified_step: int | None
    verified_at: float | None
    results_missing: list[str]
    nothing_complete: bool
    is_newest_safe: bool
    is_all_safe: bool


def look_safe(run: Run) -> Safe:
    """Return what is safe. It waits for LIMIT seconds at most, whatever hangs."""
    told = run.folder.json(SAFE)
    verified = str(told.get("verified") or "")
    stamps = [str(stamp) for stamp in told.get("stamps") or []]
    newest, is_there, is_seen = "", False, True
    mixed = dict(told.get("mixed") or {})
    missing: list[str] = [] if run.rank else list(run.spec.results)
    try:
        newest, is_there, missing = asking.call(
            run, LIMIT, None, _look_here, run, stamps, mixed, dict(told.get("results") or {})
        )
    except asking.Failed:
        is_seen = False  # what can't be looked at is called safe by nobody
    is_newest_safe = bool(run.durable) and is_seen and (is_there or not newest)
    return Safe(
        newest,
        content.step_of(newest) if newest else None,
        verified,
        _whole(told.get("step")) if verified else None,
        told.get("at") if verified and isinstance(told.get("at"), (int, float)) else None,
        missing,
        is_seen and not newest and not verified,
        is_newest_safe,
        is_newest_safe and not missing,
    )


def _look_here(
    run: Run, stamps: list[str], mixed: dict[str, str], proven: dict[str, str]
) -> tuple[str, bool, list[str]]:
    """Return the newest complete checkpoint here, whether it lies there, and missing results."""
    newest, is_there = "", False
    if run.checkpoints and run.spec.checkpoint_pattern:
        from .copies import groups

        known = content.Known(run.folder.at("whole.cache"))
        for group in groups.look(run):
            if is_mixed(mixed, group.items[0].path):
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
    return newest, is_there, missing


def judged_now(run: Run, path: str) -> str:
    """Return a checkpoint's path if it is there, and neither corrupt at this moment nor of two
    saves, else ''.

    Where nothing answers in time it isn't named either.
    """
    if not path:
        return ""
    with suppress(asking.Failed):
        mixed = run.folder.json(SAFE).get("mixed") or {}
        cache = run.folder.at("whole.cache")
        return path if asking.call(run, LIMIT, None, _is_usable, path, cache, mixed) else ""
    return ""


def _is_usable(path: str, cache: str, mixed: dict[str, str]) -> bool:
    return content.is_usable(path, cache) and not is_mixed(mixed, path)


def is_mixed(mixed: dict[str, str], path: str) -> bool:
    """Return whether a path is of a checkpoint of two saves, as the last copy found it."""
    return path in mixed and mixed[path] == content.fingerprint([path])


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None
