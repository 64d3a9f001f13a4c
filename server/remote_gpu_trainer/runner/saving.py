"""A save that goes on: is a checkpoint being written? How long an end waits for it: core/stop.py.

Most programs handle no signal, so the save signal ends them where they are: inside a save it leaves
half a file, for many over the only good one. What the program has open for writing shows a save,
and so does a checkpoint folder that changes.
"""

from __future__ import annotations

import fnmatch
import os
import re
from contextlib import suppress
from typing import Iterable, NamedTuple

from ..text import proc
from . import child, content
from .context import Run
from .core.model import Save
from .core.stop import GREW, STILL

EVERY = 0.25  # seconds between two looks
LIMIT = 3.0  # seconds for a look; a folder that hangs shows no save
MOST_FILES = 5000  # files of the checkpoint folder that are looked at
FILE = "own/waits-for-save"  # in the run folder: what an end waits for, as a sentence

# A tracker writes its own measures on, whatever the program does.
_TRACKERS = re.compile(r"/(wandb|mlruns|\.neptune|\.comet|clearml)/|/\.?cache/")


class Look(NamedTuple):
    """`path`: a checkpoint that is open for writing, '' for none. `stamp`: differs where the
    checkpoint folder has changed."""

    path: str
    stamp: str


class Watch:
    """Looks for a save of the program of `run`, whose processes are `pids`."""

    def __init__(self, run: Run):
        self.run = run
        self._looked_at = -1e9
        self._stamp: str | None = None
        self._path = ""
        self.has_seen = False  # a save, and not only the doubt of the first looks
        self.moved_at = run.up  # when a change was seen last, or a file that was open
        self.grew_at = run.up  # when a change was seen last
        self._first: str | None = None  # what was open at the first look, '' for nothing
        self.is_one_save = True  # the file of the first look has been open ever since

    def look(self, pids: Iterable[int]) -> Save:
        """Return the save that goes on.

        The first looks can't tell: they count as a save until STILL is over.
        """
        run = self.run
        if run.up >= self._looked_at + EVERY:
            self._look(pids)
        return Save(self._path, run.up - self.grew_at < GREW, self.is_one_save)

    def _look(self, pids: Iterable[int]) -> None:
        run = self.run
        self._looked_at = run.up
        where = (run.checkpoints, run.spec.checkpoint.pattern, _results(run), sorted(pids))
        try:
            now = Look(*child.call(run, look, *where, limit=LIMIT))
        except child.Failed:
            now = Look("", self._stamp or "")
        if self._stamp is not None and now.stamp != self._stamp:
            self.grew_at = self.moved_at = run.up
            self.has_seen = True
        self._stamp = now.stamp
        self._first = now.path if self._first is None else self._first
        self.is_one_save = self.is_one_save and bool(now.path) and now.path == self._first
        if now.path:
            self.moved_at = run.up
            self.has_seen = True
        self._path = now.path or self._path or run.checkpoints
        if run.up - self.moved_at >= STILL:
            self._path = ""


def look(folder: str, pattern: str, named: list[str], pids: list[int]) -> Look:
    """Return what is being written among the checkpoints, and how these are stamped now."""
    folder = os.path.realpath(folder) if folder else ""
    files = open_for_writing(pids)
    path = next((file for file in files if is_of_save(file, folder, pattern, named)), "")
    return Look(path, _stamp_folder(folder, pattern) if folder else "")


def is_of_save(path: str, folder: str, pattern: str, named: list[str]) -> bool:
    """Return whether an open file is part of a save: a result, weights wherever they lie, or what
    lies among the checkpoints and is no log."""
    if path in named or path.endswith(content.WEIGHTS):
        return True
    if not folder or not path.startswith(folder + "/"):
        return False
    inside = path[len(folder) + 1 :]
    first = inside.partition("/")[0]
    if pattern not in ("", "*") and any(fnmatch.fnmatch(n, pattern) for n in (inside, first)):
        return True
    return not content.NOTE.search(path)


def open_for_writing(pids: Iterable[int]) -> list[str]:
    """Return the files that these processes have open for writing, by the kernel's names."""
    found = []
    for pid in pids:
        for number, path in proc.read_open_files(pid).items():
            if not path.startswith("/") or path.startswith(("/dev/", "/proc/")):
                continue
            with suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{pid}/fdinfo/{number}") as file:
                    flags = int(file.read().split("flags:")[1].split()[0], 8)
                if flags & os.O_ACCMODE and not path.endswith(" (deleted)"):
                    found.append(path)
    return found


def stamp_output(run: Run, pids: Iterable[int]) -> str:
    """Return a text that differs where a file of the program's own has grown, one that it has open
    for writing in the run's folders; '' for none. Trackers' files show nothing."""
    roots = [place for place in (run.work, run.base, run.checkpoints) if place not in ("", "/")]
    with suppress(child.Failed):
        return str(child.call(run, _stamp_open, sorted(pids), roots, limit=LIMIT))
    return ""


def _stamp_open(pids: list[int], roots: list[str]) -> str:
    sizes = {}
    for path in open_for_writing(pids):
        below = any(path.startswith(os.path.realpath(root) + "/") for root in roots)
        if below and not _TRACKERS.search(path):
            with suppress(OSError):
                file_stat = os.stat(path)
                sizes[path] = f"{file_stat.st_size} {file_stat.st_mtime_ns}"
    return "\n".join(f"{path} {size}" for path, size in sorted(sizes.items()))


def catches(pids: Iterable[int], sign: int) -> bool:
    """Return whether one of these processes handles a signal: without a handler it ends there."""
    return any(proc.has_signal(pid, "SigCgt", sign) for pid in pids)


def ignores(pids: Iterable[int], sign: int) -> bool:
    """Return whether all of these processes ignore a signal."""
    answers = [proc.has_signal(pid, "SigIgn", sign) for pid in pids]
    known = [one for one in answers if one is not None]
    return bool(known) and all(known)


def inode_of(path: str) -> int:
    """Return what tells a file from another one of its name, 0 for a folder or nothing."""
    with suppress(OSError):
        return 0 if os.path.isdir(path) else os.stat(path).st_ino
    return 0


def is_in_place(before: str, now: str, inode: int) -> bool:
    """Return whether a save went over the one before it, into the same file. `inode`: of that."""
    return before == now and inode != 0 and inode_of(now) == inode


def _results(run: Run) -> list[str]:
    return [os.path.realpath(run.inside(name)) for name in run.spec.results]


def _stamp_folder(folder: str, pattern: str) -> str:
    """Return the number, the newest time and the bytes of what belongs to saves in a folder."""
    count = newest = size = 0
    for root, _, names in os.walk(folder):
        for path in (os.path.join(root, name) for name in names):
            if not is_of_save(path, folder, pattern, []):
                continue
            with suppress(OSError):
                file_stat = os.lstat(path)
                count, size = count + 1, size + file_stat.st_size
                newest = max(newest, file_stat.st_mtime_ns)
            if count >= MOST_FILES:
                return f"{count} {newest} {size}"
    return f"{count} {newest} {size}"
