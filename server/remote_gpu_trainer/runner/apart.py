"""Reads that may take hours: a child that goes on is waited for, one that hangs is given up."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Callable

from .asking import Beat, Failed, Job
from .context import Run


class Reading(Job):
    """A function in a child, as asking.Job, that tells whether it goes on."""

    _moved: object = None

    def moves(self) -> bool:
        """Return whether the child has read, written or computed since this was asked last."""
        before, self._moved = self._moved, _progress(self.pid)
        return before != self._moved


def start(function: Callable[..., Any], *of: Any) -> Reading:
    """Start a read. Raises Failed where there can be no child."""
    try:
        return Reading(function, *of)
    except OSError as error:
        raise Failed(error.strerror or str(error)) from None


def wait(run: Run, reading: Reading, beat: Beat | None = None) -> Any:
    """Return what a read returns. Raises Failed, also after `copy_quiet` seconds without progress,
    and where `beat` says that the run is asked to end."""
    since = time.monotonic()
    try:
        while not reading.poll(run.spec.timings.tick):
            if beat is not None and beat():
                raise Failed(run.asked or "asked to end")
            if reading.moves():
                since = time.monotonic()
            elif time.monotonic() - since >= run.spec.timings.copy_quiet:
                raise Failed(f"no answer for {run.spec.timings.copy_quiet:g} s")
        return reading.value()
    finally:
        if reading.is_open:
            reading.give_up()


def call(run: Run, function: Callable[..., Any], *of: Any, beat: Beat | None = None) -> Any:
    """Start a read and wait for it."""
    return wait(run, start(function, *of), beat)


def _progress(pid: int) -> list[str]:
    """Return the bytes that a process has read and written, and its time on a processor."""
    found: list[str] = []
    with suppress(OSError), open(f"/proc/{pid}/io") as file:
        found += file.read().split()
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        found += file.read().decode("ascii", "replace").rpartition(")")[2].split()[11:13]
    return found
