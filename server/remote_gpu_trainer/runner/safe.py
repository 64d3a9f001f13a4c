"""What of a run is safe elsewhere: the one answer that stop, the deadline, the end of the box and
`status` go by."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, NamedTuple

from . import asking, content, results
from .context import Run

LIMIT = 5.0  # seconds for the checkpoint folder to answer


class Safe(NamedTuple):
    """`newest`: the path here of the newest complete checkpoint, judged now, '' for none.
    `verified`: the newest complete one whose bytes were compared at the durable place, '' for none;
    `verified_at`: when, in seconds since 1970. `results_missing`: results that aren't verified
    there. `nothing_complete`: neither here nor there can anything be proven complete.
    `is_all_safe`: the newest complete one, if there is any, and the results are verified there."""

    newest: str
    newest_step: int | None
    verified: str
    verified_step: int | None
    verified_at: float | None
    results_missing: list[str]
    nothing_complete: bool
    is_all_safe: bool


def look_safe(run: Run) -> Safe:
    """Return what is safe. It waits for LIMIT seconds at most, whatever hangs."""
    newest = _look_here(run)
    copied = run.folder.json("final-sync")
    told = run.folder.json("last-sync")
    is_verified = bool(copied) or bool(told.get("verified"))
    verified = newest if is_verified else ""
    step = content.step_of(newest) if newest else None
    missing = [] if is_verified else results.look(run).missing
    return Safe(
        newest,
        step,
        verified,
        step if verified else None,
        _number(copied.get("t", told.get("t"))) if verified else None,
        missing,
        not newest and not verified,
        not run.durable or bool(copied),
    )


def _look_here(run: Run) -> str:
    if not run.checkpoints or not run.spec.checkpoint_pattern:
        return ""
    cache = run.folder.at("whole.cache")
    where = (run.checkpoints, run.spec.checkpoint_pattern, cache)
    with suppress(asking.Failed):
        found = content.look_of(asking.call(run, LIMIT, None, content.look, *where)).whole
        return found.path if found and os.path.lexists(found.path) else ""
    return ""


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
