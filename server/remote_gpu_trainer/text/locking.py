"""Lock a file, on the systems that have `fcntl` and on those that don't.

Python 3.8 and alone: it runs on a box too.
"""

from __future__ import annotations

import os

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_FAR = 1 << 30  # Windows locks bytes, and nobody can read one that is locked


def lock(descriptor, waits=True):
    """Keep every other process from locking this open file until it is closed.

    `waits`: until another one closes it. Raises BlockingIOError or PermissionError where one has
    it, and another OSError where the file system knows no locks.
    """
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        return
    import msvcrt

    at = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, _FAR, os.SEEK_SET)
    try:
        how = msvcrt.LK_LOCK if waits else msvcrt.LK_NBLCK  # pyright: ignore
        msvcrt.locking(descriptor, how, 1)  # pyright: ignore
    finally:
        os.lseek(descriptor, at, os.SEEK_SET)
