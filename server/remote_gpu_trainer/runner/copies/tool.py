"""Programs that copy, run so that their progress is seen."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import IO, NamedTuple

from .. import child


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
        with memory() as buffer, memory() as errors:
            if isinstance(source, bytes):
                buffer.write(source)
                buffer.seek(0)
                source = buffer
            try:
                # What watches this process ends it with all that it started.
                tool = child.Command(
                    words, source=source, errors=errors, env=self.env, is_leader=False
                )
            except OSError as error:
                missing = isinstance(error, FileNotFoundError)
                why = "is missing on this box" if missing else error.strerror
                return Answer(127, b"", f"{words[0]} {why}")
            self._attend(tool, patience)
            errors.seek(0)
            said = errors.read(50000) + tool.output[:50000]
        return Answer(tool.code or 0, tool.output, said.decode("utf-8", "replace").strip())

    def _attend(self, tool: child.Command, patience: float) -> None:
        """Wait for a program, and tell when it has read, written or reckoned something."""
        begun = time.monotonic()
        before = 0
        while not tool.poll(child.LOOK_SECONDS):
            moved, computed = tool.progress()
            now = moved or computed  # threads that idle compute, too
            if now != before or time.monotonic() - begun < patience:
                self.moved()
            before = now
        self.moved()


def memory() -> IO[bytes]:
    """Return a file that lies in memory, where this Python can make one."""
    return os.fdopen(child.scratch(), "w+b")
