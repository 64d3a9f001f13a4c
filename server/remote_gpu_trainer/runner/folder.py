"""The folder of a run: whole-file writes that a full disk can't break, and tolerant reads."""

from __future__ import annotations

import json
import os
from _thread import get_ident
from contextlib import suppress
from typing import Any

ATTEMPT = "attempt.json"  # what the attempt that was started last began with, and its program
RC = "own/rc"  # the exit code of the attempt, and whether its log is whole
ENDS = ("done", "failed", "preempted", "unsaved")
FILLED = 60  # characters of a file that is written in its place
SPARE = 65536  # bytes kept back, so that a full disk can still hold the end of a run


def read_rows(text: str) -> list[dict[str, Any]]:
    """Return the objects of a text of JSON lines; what can't be read of it is left out."""
    rows = []
    for line in text.splitlines():
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict):
                rows.append(row)
    return rows


class Folder:
    """A folder by its path. Every read answers '' or None where nothing can be read."""

    def __init__(self, path: str):
        self.path = path

    def at(self, *names: str) -> str:
        """Return the path of something in the folder."""
        return os.path.join(self.path, *names)

    def make(self) -> None:
        """Make the folder with what is in it for logs and for the runner alone. Raises OSError."""
        for name in ("log", "own"):
            os.makedirs(self.at(name), exist_ok=True)

    def write(self, name: str, text: str, lasting: bool = False) -> bool:
        """Write a file whole or not at all; False where the disk refuses, and the old one stays.

        `lasting`: on the disk before it has its name, so that a machine that crashes leaves no
        empty file.
        """
        # Two threads or processes never share the temporary name.
        temporary = self.at(f"{name}.tmp.{os.getpid()}.{get_ident() % 100000}")
        try:
            with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
                if lasting:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, self.at(name))
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)
            return False
        return True

    def read(self, name: str) -> str:
        """Return a file's text, '' where there is none."""
        try:
            with open(self.at(name), encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        except OSError:
            return ""

    def number(self, name: str) -> float | None:
        """Return the number that a file begins with."""
        words = self.read(name)[:100].split()
        try:
            value = float(words[0])
        except (IndexError, ValueError):
            return None
        return value if abs(value) < 1e15 else None

    def json(self, name: str) -> dict[str, Any]:
        """Return a file's JSON object, {} where there is none."""
        try:
            found = json.loads(self.read(name))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def attempt(self) -> int | None:
        """Return the number of the attempt that was started last, None before the first."""
        number = self.json(ATTEMPT).get("attempt")
        return number if isinstance(number, int) else None

    def attempt_begun(self) -> float:
        """Return when that attempt began, by the clock that stamps what it saves; 0 where nothing
        tells it. An older version had a file of that time."""
        begun = self.json(ATTEMPT).get("begun")
        return begun if isinstance(begun, float) else self.changed("attempt")

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the objects of a file of JSON lines, [] where there is none."""
        return read_rows(self.read(name))

    def overwrite(self, name: str, text: str) -> bool:
        """Write a file; on a full disk over the bytes that it holds, which needs no room."""
        if self.write(name, text):
            return True
        try:
            with open(self.at(name), "r+") as file:
                size = os.fstat(file.fileno()).st_size
                if len(text) > size:
                    return False
                file.write(text.ljust(size))
                return True
        except OSError:
            return False

    def fill(self, name: str, text: str) -> bool:
        """Write a short text into a file where it lies: a lock stays the same file, and no later
        text needs more room."""
        try:
            file = os.open(self.at(name), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError:
            return False
        try:
            return os.pwrite(file, f"{text:<{FILLED}}\n".encode(), 0) > FILLED
        except OSError:
            return False
        finally:
            os.close(file)

    def stamp(self, name: str, now: float) -> None:
        """Have an empty file of this time, which needs no room."""
        if self.touch(name):
            with suppress(OSError):
                os.utime(self.at(name), (now, now))

    def has(self, name: str) -> bool:
        """Return whether a name is there."""
        return os.path.lexists(self.at(name))

    def changed(self, *names: str) -> float:
        """Return when the first of the names that is there was written, 0 where none is."""
        for name in names:
            with suppress(OSError):
                return os.stat(self.at(name)).st_mtime
        return 0.0

    def touch(self, name: str) -> bool:
        """Create an empty file; a name needs no room on a full disk."""
        try:
            with open(self.at(name), "a"):
                return True
        except OSError:
            return False

    def remove(self, *names: str) -> None:
        """Remove files that may be there."""
        for name in names:
            with suppress(OSError):
                os.unlink(self.at(name))

    def append(self, name: str, text: str) -> bool:
        """Add a line or more to a file, in one write."""
        try:
            with open(self.at(name), "ab", buffering=0) as file:
                file.write(text.encode("utf-8", "surrogateescape"))
        except OSError:
            return False
        return True

    def keep_spare(self) -> None:
        """Keep back a little room for the end of the run."""
        self.write(".spare", "\0" * SPARE)

    def mark(self, end: str, fields: dict[str, Any]) -> None:
        """Leave the marker of an end, and take away those of other ends."""
        text = json.dumps(fields) + "\n"
        if not self.write(f".{end}", text, lasting=True):
            self.remove(".spare")
            if not self.write(f".{end}", text, lasting=True):
                self.touch(f".{end}")
        self.remove(*(f".{name}" for name in ENDS if name != end))

    def is_closed(self) -> bool:
        """Return whether there is a run here that this user may not read."""
        if not os.path.isdir(self.path):
            return False
        if not os.access(self.path, os.R_OK | os.X_OK):
            return True
        names = [self.at(name) for name in ("state.json", "lock", "events.jsonl")]
        return any(os.path.lexists(name) and not os.access(name, os.R_OK) for name in names)

    def ended(self) -> str:
        """Return the end that a marker names, '' while there is none."""
        return next((name for name in ENDS if self.has(f".{name}")), "")
