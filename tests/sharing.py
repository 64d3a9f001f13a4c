"""What takes long to make and several workers need: the first that asks makes it, the others wait and take it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: there, run the tests with one worker
    fcntl = None


class Shared:
    """The folder of a test run that all its workers see."""

    def __init__(self, place: Path):
        self.place = place

    def folder(self, name: str, fill: Callable[[Path], None]) -> Path:
        """The folder of this name, filled once. What a failed attempt left is removed before the next."""
        path, done = self.place / name, self.place / f"{name}.done"
        # `lockf`, because a lock of `flock` lives on in a forked child.
        with open(self.place / f"{name}.lock", "a+") as lock:
            if fcntl:
                fcntl.lockf(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(path, ignore_errors=True)
                path.mkdir()
                fill(path)
                done.touch()
        return path
