"""A program whose first process has ended and left others: do they still train?"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from ..text import proc
from . import checkpoints, procs, results
from .context import Run

CARDS = ("/dev/nvidia", "/dev/kfd", "/dev/dri/render")
BUSY = 0.5  # of a core; loggers, TensorBoard and the daemons of Ray idle below that


class Lingering:
    """Made when the first process ended; `trains` is asked until it says no.

    `step`: returns the newest step of the log as it is at that moment.
    """

    def __init__(self, run: Run, seconds: float, step: Callable[[], int | None]):
        self.run, self._until = run, run.up + seconds
        self._seconds, self._step = seconds, step
        self._steps = step()
        self._newest = _id(run)
        self._missing = len(results.look(run).missing)
        self._used = _used(procs.of_program(run.folder))
        self._since = run.up
        self.at_work: set[int] = set()

    def trains(self) -> bool:
        """Return whether to go on waiting for what is left.

        They train when one of them holds a card, writes into the folder of checkpoints, or
        computes; or when a step, a checkpoint or a named result has come since the last look.
        Nobody is believed for longer than a window without such a sign.
        """
        left = procs.of_program(self.run.folder)
        if not left:
            return False
        if self.run.up < self._until:
            return True
        signs = any(_has_open(pid, self.run.checkpoints) for pid in left) or self._has_grown(left)
        if signs:
            self.at_work |= left
            self._until = self.run.up + self._seconds
        return signs

    def _has_grown(self, left: set[int]) -> bool:
        newest, missing, step = _id(self.run), len(results.look(self.run).missing), self._step()
        used, seconds = _used(left), max(self.run.up - self._since, 0.001)
        most = max(((used[pid] - self._used.get(pid, 0)) / seconds for pid in used), default=0)
        grown = newest != self._newest or missing < self._missing or most > BUSY
        grown, self._steps = grown or step != self._steps, step
        self._newest, self._missing, self._used, self._since = newest, missing, used, self.run.up
        return grown


def _id(run: Run) -> str:
    found = checkpoints.newest(run)
    return found.id if found else ""


def _has_open(pid: int, folder: str) -> bool:
    """Return whether a process has a card open, or a file of the folder for writing."""
    for number, path in proc.read_open_files(pid).items():
        if path.startswith(CARDS):
            return True
        if folder and path.startswith(folder + "/"):
            with suppress(OSError):
                if os.lstat(f"/proc/{pid}/fd/{number}").st_mode & 0o200:
                    return True
    return False


def _used(pids: set[int]) -> dict[int, float]:
    """Return the seconds of a core that each process has used so far."""
    ticks = os.sysconf("SC_CLK_TCK")
    processes = {pid: procs.stat(pid) for pid in pids}
    return {pid: one.ticks / ticks for pid, one in processes.items() if one}
