"""A save that goes on: is a checkpoint being written, and how long may an end wait for it?

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

from . import asking, content
from .context import Run

EVERY = 0.25  # seconds between two looks
STILL = 1.0  # seconds without a change or an open file after which a save is over
LIMIT = 3.0  # seconds for a look; a folder that hangs shows no save
MOST_FILES = 5000  # files of the checkpoint folder that are looked at
LEAST_WAIT = 60.0  # seconds that a stop gives a save, whatever the job says
LONGEST_WAIT = 600.0  # seconds that a stop gives a save that goes on growing
MOST_BETWEEN = 2.0  # seconds between two files of one save
GREW = 10.0  # seconds in which a file that grows must grow again
FILE = "waits-for-save"  # in the run folder: what an end waits for, as a sentence

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

    def look(self, pids: Iterable[int]) -> str:
        """Return the path of what is being written, '' where no save goes on.

        The first looks can't tell: they count as a save until STILL is over.
        """
        run = self.run
        if run.up < self._looked_at + EVERY:
            return self._path
        self._looked_at = run.up
        where = (run.checkpoints, run.spec.checkpoint_pattern, _results(run), sorted(pids))
        try:
            now = Look(*asking.call(run, LIMIT, None, look, *where))
        except asking.Failed:
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
        return self._path

    def grows(self) -> bool:
        """Return whether the checkpoints have changed within the last moments."""
        return self.run.up - self.grew_at < GREW


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
        with suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError, ValueError, IndexError):
                    path = os.readlink(f"/proc/{pid}/fd/{number}")
                    if not path.startswith("/") or path.startswith(("/dev/", "/proc/")):
                        continue
                    with open(f"/proc/{pid}/fdinfo/{number}") as file:
                        flags = int(file.read().split("flags:")[1].split()[0], 8)
                    if flags & os.O_ACCMODE and not path.endswith(" (deleted)"):
                        found.append(path)
    return found


def stamp_output(run: Run, pids: Iterable[int]) -> str:
    """Return a text that differs where a file of the program's own has grown, one that it has open
    for writing in the run's folders; '' for none. Trackers' files show nothing."""
    roots = [place for place in (run.work, run.base, run.checkpoints) if place not in ("", "/")]
    with suppress(asking.Failed):
        return str(asking.call(run, LIMIT, None, _stamp_open, sorted(pids), roots))
    return ""


def _stamp_open(pids: list[int], roots: list[str]) -> str:
    sizes = {}
    for path in open_for_writing(pids):
        below = any(path.startswith(os.path.realpath(root) + "/") for root in roots)
        if below and not _TRACKERS.search(path):
            with suppress(OSError):
                told = os.stat(path)
                sizes[path] = f"{told.st_size} {told.st_mtime_ns}"
    return "\n".join(f"{path} {size}" for path, size in sorted(sizes.items()))


def catches(pids: Iterable[int], sign: int) -> bool:
    """Return whether one of these processes handles a signal: without a handler it ends there."""
    for pid in pids:
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/status") as file:
            mask = int(file.read().split("SigCgt:")[1].split()[0], 16)
            if mask >> (sign - 1) & 1:
                return True
    return False


def ignores(pids: Iterable[int], sign: int) -> bool:
    """Return whether all of these processes ignore a signal."""
    masks = []
    for pid in pids:
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/status") as file:
            masks.append(int(file.read().split("SigIgn:")[1].split()[0], 16))
    return bool(masks) and all(mask >> (sign - 1) & 1 for mask in masks)


def inode_of(path: str) -> int:
    """Return what tells a file from another one of its name, 0 for a folder or nothing."""
    with suppress(OSError):
        return 0 if os.path.isdir(path) else os.stat(path).st_ino
    return 0


def is_in_place(before: str, now: str, inode: int) -> bool:
    """Return whether a save went over the one before it, into the same file. `inode`: of that."""
    return before == now and inode != 0 and inode_of(now) == inode


def may_wait(
    why: str,
    *,
    waited: float,
    left: float,
    save: float,
    handles: bool,
    notice: float,
    grows: bool,
    is_one_save: bool,
) -> bool:
    """Return whether the save signal may wait longer for a save that goes on. Pure.

    `why`: who asks, as Run.asked has it. `waited`: seconds so far; `left`: to the deadline. `save`:
    seconds that a save takes. `handles`: the program handles the signal, so that a save of its own
    needs time too; one that doesn't loses the less the later it ends. `notice`: seconds that the
    provider gives, of which the program and its copy need the rest. `grows`: what it writes grows.
    `is_one_save`: one file has been open since the first look; else the program saves again and
    again, and the save that went on at first is over after the time of one.
    """
    if left <= (save if handles else 0.0):
        return False
    if not is_one_save and waited >= (STILL + MOST_BETWEEN if handles else max(GREW, 2 * save)):
        return False
    if why == "deadline":
        return True
    if why.startswith(("notice", "signal")):
        return waited < notice / 2
    most = max(LEAST_WAIT, 2 * save)
    return waited < (max(most, LONGEST_WAIT) if grows else most)


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
                told = os.lstat(path)
                count, size = count + 1, size + told.st_size
                newest = max(newest, told.st_mtime_ns)
            if count >= MOST_FILES:
                return f"{count} {newest} {size}"
    return f"{count} {newest} {size}"
