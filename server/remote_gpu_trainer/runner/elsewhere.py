"""A run folder that several machines see: does the run go on on another one?"""

from __future__ import annotations

from typing import NamedTuple

from . import procs
from .context import Run
from .core.phases import GOING
from .state import StateFile


class Elsewhere(NamedTuple):
    """The machine, the seconds since its last sign of life, and whether that is recent."""

    host: str
    age: int
    fresh: bool


def look(run: Run, state: StateFile) -> Elsewhere | None:
    """Return where the run goes on by its last state, None where it has ended or is here.

    `state` was read from the folder. Its processes can't be seen from here.
    """
    written = run.folder.json("state.json")
    host, boot = written.get("host"), written.get("boot_id")
    if state.phase not in GOING or run.folder.ended():
        return None
    if not (isinstance(host, str) and isinstance(boot, str) and host and boot):
        return None
    updated = written.get("updated")
    last = updated if isinstance(updated, (int, float)) else 0
    last = max(last, procs.beat_of(run.folder) or 0)
    # The same name after a boot is the same machine, unless the run has moved since then.
    if host == procs.host() and (boot == procs.boot_id() or last <= run.now - procs.uptime()):
        return None
    limit = 5 * run.spec.timings.heartbeat + 120
    if state.phase in ("preflight", "staging"):
        limit += 600  # the checks have no beat, and a network folder shows files late
    age = int(max(run.now - last, 0))
    return Elsewhere(host, age, age <= limit)


def refusal(run: Run, found: Elsewhere) -> str:
    """Return why a verb can't be done here."""
    name = run.spec.name
    if found.fresh:
        return f"{name} runs on {found.host}; do it there, or with its scheduler (scancel)"
    return (
        f"{name} ran on {found.host}, last seen {found.age} s ago;"
        " this box can't tell whether it still runs"
    )
