"""Programs that copy, run so that their progress is seen."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from typing import IO, NamedTuple

from .. import procs
from ..asking import scratch

NO_ROOM = re.compile(r"No space left|quota exceeded|nothing is copied", re.I)  # or a plan's word
LOOK = 1.0  # seconds between two looks at a program's progress


class Answer(NamedTuple):
    """`said`: what the program printed, its errors first. The code is 127 without the program."""

    code: int
    out: bytes
    said: str


class Tools:
    """Runs programs with an environment. `moved` is called whenever something got on."""

    def __init__(self, env: dict[str, str], moved: Callable[[], None]):
        self.env, self.moved = env, moved

    def has(self, name: str) -> bool:
        """Return whether a program is on the path."""
        folders = self.env.get("PATH", os.defpath).split(":")
        return any(os.access(os.path.join(folder or ".", name), os.X_OK) for folder in folders)

    def run(
        self, words: list[str], source: IO[bytes] | bytes = b"", patience: float = 0.0
    ) -> Answer:
        """Run a program to its end. For `patience` seconds its silence counts as work."""
        # In memory: a full disk must not end a copy.
        with memory() as out, memory() as err, memory() as held:
            if isinstance(source, bytes):
                held.write(source)
                held.seek(0)
                source = held
            try:
                child = subprocess.Popen(words, stdin=source, stdout=out, stderr=err, env=self.env)
            except OSError as error:
                missing = isinstance(error, FileNotFoundError)
                why = "is missing on this box" if missing else error.strerror
                return Answer(127, b"", f"{words[0]} {why}")
            self._attend(child, patience)
            out.seek(0)
            err.seek(0)
            text, errors = out.read(), err.read()
        said = (errors[:50000] + text[:50000]).decode("utf-8", "replace").strip()
        return Answer(child.returncode, text, said)

    def _attend(self, child: subprocess.Popen[bytes], patience: float) -> None:
        """Wait for a program, and tell when it has read, written or reckoned something."""
        pause, spent, begun = 0.004, 0, time.monotonic()
        looked = begun
        while True:
            try:
                child.wait(pause)
                self.moved()
                return
            except subprocess.TimeoutExpired:
                pause = min(pause * 1.5, 0.25)
            if time.monotonic() - looked < LOOK:
                continue
            looked = time.monotonic()
            now = _spent(child.pid)
            if now != spent or looked - begun < patience:
                self.moved()
            spent = now


def memory() -> IO[bytes]:
    """Return a file that lies in memory, where this Python can make one."""
    return os.fdopen(scratch(), "w+b")


def _spent(pid: int) -> int:
    """Return what a process and its children have read and written; ticks where that is hidden."""
    total = 0
    for one in procs.children([pid], procs.table()):
        try:
            with open(f"/proc/{one}/io") as file:
                total += sum(int(file.readline().split()[1]) for _ in range(2))
        except (OSError, IndexError, ValueError):
            try:
                with open(f"/proc/{one}/stat") as file:
                    total += sum(int(n) for n in file.read().rpartition(")")[2].split()[11:13])
            except (OSError, ValueError):
                continue
    return total
