"""What comes before the program: its environment, data, and checkpoints from the durable place."""

from __future__ import annotations

from collections.abc import Callable

from . import fetch, installing
from .context import Run
from .why import Verdict


def stage(run: Run, beat: Callable[[], bool]) -> Verdict:
    """Bring all of it to the box, before the first attempt; class '' if it is there."""
    for step in (installing.install, fetch.data, fetch.restore):
        verdict = step(run, beat)
        if verdict is not None or run.asked:
            return verdict or Verdict("", "", "")
    return Verdict("", "", "")
