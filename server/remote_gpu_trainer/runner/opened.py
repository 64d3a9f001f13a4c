"""Did a program open the checkpoint that it was to go on from? inotify tells, whoever opens it.

What a start prints and what it names its checkpoints don't tell: sound programs save once more what
they loaded, overwrite last.pt, and count their steps anew in each epoch.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from typing import Callable

from . import content
from .asking import Failed, Job
from .context import Run

LIMIT = 5.0  # seconds for a folder to answer
MOST = 5000  # files that are watched
_ACCESS, _MODIFY, _CLOSE_NOWRITE, _OPEN, _OVERFLOW = 0x1, 0x2, 0x10, 0x20, 0x4000
_EVENT = struct.Struct("iIII")


class Opened:
    """The files in a run's folder of checkpoints, watched from before a start to its first save.

    `saved` is the checkpoint that the start is given. `newest`: when something there was written
    last before the start, in ns since 1970.

    Opened is what is read, or closed unchanged, before one of the files is written to: from then on
    the runner reads what was saved. Of weights that are mapped into memory only the opening shows.
    """

    def __init__(self, run: Run, saved: str):
        self.newest = 0
        self._inotify, self._is_read, self._sees_all = -1, False, False
        self._opened: set[int] = set()
        self._is_written = False
        with suppress(ImportError, AttributeError, OSError, Failed):
            self._begin(run, saved)

    def _begin(self, run: Run, saved: str) -> None:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        self._inotify = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._inotify < 0:
            return

        def add(path: str) -> bool:
            mask = _ACCESS | _MODIFY | _CLOSE_NOWRITE | _OPEN
            return bool(libc.inotify_add_watch(self._inotify, os.fsencode(path), mask) >= 0)

        # The child shares this process's inotify; a folder that hangs holds only the child.
        where = (run.checkpoints, run.spec.checkpoint_pattern)
        job = Job(_add_all, add, saved, *where, keep=self._inotify)
        if job.poll(LIMIT):
            self._sees_all, self.newest = job.value()
        else:
            job.give_up()
            self.close()

    def found(self) -> bool | None:
        """Return whether a file was opened so far; None where that can't be known."""
        if self._is_read:
            return True
        if self._inotify < 0:
            return None
        with suppress(BlockingIOError):
            while not self._is_read:
                self._take(os.read(self._inotify, 1 << 16))
        if self._is_read:
            self.close()
        return self._is_read or bool(self._opened) or (False if self._sees_all else None)

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
                self._sees_all = False
            elif self._is_written:
                continue
            elif mask & _MODIFY:
                self._is_written = True
                self._opened.discard(watch)
            elif mask & (_ACCESS | _CLOSE_NOWRITE):
                self._is_read = True
            elif mask & _OPEN:
                self._opened.add(watch)


def _add_all(add: Callable[[str], bool], saved: str, folder: str, pattern: str) -> tuple[bool, int]:
    """Watch the files of all checkpoints and the weights beside them; return whether that were all,
    and when the last checkpoint was written."""
    items = content.newest_first(folder, pattern)
    seen: set[str] = set()
    for place in [saved, *(item.path for item in items), folder]:
        for path in content.files_of(place) if os.path.isdir(place) else [place]:
            if path in seen or (place == folder and not path.endswith(content.WEIGHTS)):
                continue
            if len(seen) == MOST:
                return False, _newest(items)
            seen.add(path)
            if not add(path) and os.path.exists(path):
                return False, _newest(items)
    return True, _newest(items)


def _newest(items: list[content.Item]) -> int:
    return max((item.weights for item in items), default=0)
