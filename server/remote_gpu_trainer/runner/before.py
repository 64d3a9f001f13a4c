"""What comes before the program: its environment, data, and checkpoints from the durable place."""

from __future__ import annotations

from collections.abc import Callable

from . import checkpoints, fetch, installing
from .context import Run
from .core.model import Verdict
from .spec import MUST_RESTORE


def stage(run: Run, beat: Callable[[], bool]) -> Verdict:
    """Bring all of it to the box, before the first attempt; class '' if it is there."""
    for step in (installing.install, fetch.data, fetch.restore):
        verdict = step(run, beat)
        if verdict is not None or run.asked:
            return verdict or Verdict("", "", "")
    is_first = run.folder.attempt() is None
    if run.folder.has(MUST_RESTORE) and is_first and checkpoints.newest(run, beat) is None:
        reason = f"no checkpoint came from {run.spec.durable.to}, so nothing was begun anew"
        return Verdict("preflight", "", f"{reason}; rgt start begins from nothing")
    return Verdict("", "", "")
