"""The output of a program on a box, while it runs there."""

from __future__ import annotations

import io
import subprocess
import threading
from contextlib import suppress
from typing import IO

from . import calls

MOST_BEFORE = 1 << 20  # bytes that a login may print before the program begins


class Stream:
    """A program that runs on a box while its output is read. `out`: what it prints. `into`: its
    standard input. `is_late`: it was ended because it didn't begin in time.

    A program that was `given` nothing has an open standard input, which ends when this does: so it
    can tell that nobody reads it any more.
    """

    def __init__(self, process: subprocess.Popen[bytes], mark: str, given: bytes | None):
        assert isinstance(process.stdout, io.BufferedReader)
        assert process.stdin
        self.out, self.into = process.stdout, process.stdin
        self.has_begun = self.is_late = False
        self._process, self._mark, self._given = process, mark, given
        self._errors: list[bytes] = []
        self._threads = [threading.Thread(target=self._collect, daemon=True)]
        if given is not None:
            self._threads.append(threading.Thread(target=self._feed, daemon=True))
        for thread in self._threads:
            thread.start()

    def begin(self, limit: float) -> bool:
        """Wait until the program begins, for at most `limit` seconds."""

        def give_up() -> None:
            self.is_late = True
            self.kill()

        timer = threading.Timer(limit, give_up)
        timer.start()
        try:
            self.has_begun = _skip_to(self.out, self._mark.encode())
        finally:
            timer.cancel()
        return self.has_begun

    def kill(self) -> None:
        """End the program, or its connection."""
        calls.kill(self._process)

    def end(self) -> tuple[int | None, str]:
        """Return how the program, or ssh, ended, and what was printed on its stderr."""
        if self._given is None:  # else _feed closes it
            with suppress(OSError):
                self.into.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process.wait(10)
        self._threads[0].join(2)
        return self._process.returncode, b"".join(self._errors).decode("utf-8", "replace")

    def _feed(self) -> None:
        assert self._given is not None
        with suppress(OSError):
            self.into.write(self._given)
            self.into.close()

    def _collect(self) -> None:
        assert self._process.stderr
        while piece := self._process.stderr.read1(1 << 16):  # type: ignore[attr-defined]
            if len(self._errors) < 64:
                self._errors.append(piece)


def _skip_to(stream: IO[bytes], mark: bytes) -> bool:
    """Read what a login prints, up to the mark; False where it doesn't come."""
    read = 0
    while read < MOST_BEFORE and (line := stream.readline(1 << 16)):
        read += len(line)
        if line.rstrip(b"\n").endswith(mark):
            return True
    return False
