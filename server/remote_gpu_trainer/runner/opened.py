"""Did a program open the checkpoint that it was to go on from? inotify tells, whoever opens it.

What a start prints and what it names its checkpoints don't tell: sound programs save once more what
they loaded, overwrite last.pt, and count their steps anew in each epoch.
"""

from __future__ import annotations

import ctypes
import os
import struct
import time
from contextlib import suppress
from typing import Callable

from . import completeness, content
from .child import Failed, Function
from .context import Run

LIMIT = 5.0  # seconds for a folder to answer
MOST = 5000  # files that are watched
_ACCESS, _MODIFY, _CLOSE_NOWRITE, _OPEN, _OVERFLOW = 0x1, 0x2, 0x10, 0x20, 0x4000
_EVENT = struct.Struct("iIII")


class Opened:
    """The weights in a run's folder of checkpoints, watched from before a start to its first save.

    `saved` is the checkpoint that the start is given. `newest`: when something there was written
    last before the start, in ns since 1970.

    inotify doesn't tell whose reads it sees: those of the runner count too, if it reads meanwhile.
    """

    def __init__(self, run: Run, saved: str):
        self.newest = time.time_ns()
        self._inotify, self._is_read, self._is_sure = -1, False, False
        self._of_items: set[int] = set()  # watches of checkpoints; others are of weights beside
        self._opened: dict[int, int] = {}  # watch -> the batch of events in which it was opened
        self._written: set[int] = set()  # watches of what the start has written
        self._batch = 0
        with suppress(AttributeError, OSError, Failed):
            self._begin(run, saved)

    def _begin(self, run: Run, saved: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._inotify = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

        def add(path: str) -> int:
            mask = _ACCESS | _MODIFY | _CLOSE_NOWRITE | _OPEN
            return int(libc.inotify_add_watch(self._inotify, os.fsencode(path), mask))

        # The child shares this process's inotify; a folder that hangs holds only the child.
        where = (run.checkpoints, run.spec.checkpoint.pattern)
        job = Function(_add_all, add, saved, *where, keep=self._inotify)
        if not job.finish(LIMIT):
            self.close()
            return
        self._is_sure, watches, self.newest = job.value()
        self._of_items = set(watches)

    def found(self) -> bool | None:
        """Return whether a checkpoint was opened so far; None where that can't be known."""
        if self._is_read:
            return True
        if self._inotify < 0:
            return None
        with suppress(BlockingIOError):
            while not self._is_read:
                self._batch += 1
                self._take(os.read(self._inotify, 1 << 16))
        if self._is_read or self._opened.keys() & self._of_items:
            return True
        return False if self._is_sure and not self._opened else None

    def close(self) -> None:
        """Watch no longer."""
        if self._inotify >= 0:
            os.close(self._inotify)
        self._inotify = -1

    def _take(self, events: bytes) -> None:
        place = 0
        while place < len(events):
            watch, mask, _, length = _EVENT.unpack_from(events, place)
            place += _EVENT.size + length
            if mask & _OVERFLOW:
                self._is_sure = False
            elif watch in self._written:
                continue
            elif mask & _MODIFY:
                self._written.add(watch)
                # Who writes anew has opened it in this moment; before that it was read, or mapped.
                if self._opened.get(watch) == self._batch:
                    del self._opened[watch]
            elif mask & (_ACCESS | _CLOSE_NOWRITE) and watch in self._of_items:
                self._is_read = True
            elif mask & (_ACCESS | _CLOSE_NOWRITE | _OPEN):
                self._opened.setdefault(watch, self._batch)


def _add_all(
    add: Callable[[str], int], saved: str, folder: str, pattern: str
) -> tuple[bool, list[int], int]:
    """Watch the weights of all checkpoints and those beside them; return whether that were all, the
    watches of checkpoints, and when the last one was written."""
    items = content.newest_first(folder, pattern)
    newest = max((item.weights for item in items), default=0)
    watches: set[int] = set()
    seen: set[str] = set()
    is_all = True
    for place in [saved, *(item.path for item in items), folder]:
        is_all = is_all and not _has_linked_folder(place)
        for path in _weights_of(place, place != folder):
            if path in seen:
                continue
            if len(seen) == MOST:
                return False, sorted(watches), newest
            seen.add(path)
            watch = add(path)
            is_all = is_all and (watch >= 0 or not os.path.exists(path))
            if place != folder:
                watches.add(watch)
    return is_all, sorted(watches), newest


def _weights_of(place: str, is_item: bool) -> list[str]:
    """Return the files of a checkpoint that aren't notes, or all where it has nothing else; of a
    folder of checkpoints those that are called like weights."""
    if not os.path.isdir(place):
        return [place]
    files = list(completeness.files_of(place))
    if not is_item:
        return [path for path in files if path.endswith(completeness.WEIGHTS)]
    return [path for path in files if not content.NOTE.search(path)] or files


def _has_linked_folder(place: str) -> bool:
    """Whether a link within a folder leads to another one, in which nothing is watched."""
    return any(
        os.path.islink(os.path.join(root, name))
        for root, folders, _ in os.walk(place)
        for name in folders
    )
