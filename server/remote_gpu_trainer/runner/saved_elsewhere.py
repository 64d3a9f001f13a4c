"""The files that a run's log says were saved, and that lie outside of all that is kept of it.

A program may save its best checkpoint anywhere. Such a file is lost with the box, unless somebody
brings it: nothing but the program's own words tells of it. Not covered: what it saves without a
word, and a relative path of a program that has changed its folder.
"""

from __future__ import annotations

import glob
import os
import re
import time
from typing import Any, BinaryIO, Iterator

from .context import home

LINE = 4096  # bytes of a line that are read
MOST_FILES = 20_000  # that are looked at, and paths of one log
MOST_ROWS = 50
FOLDER_FROM = 4  # files in one folder are told as that folder
SECONDS = 20.0  # for the look at all
EARLY, LATE = 5.0, 120.0  # seconds by which the clock of a network disk may be off; a last write
ENDS = (".done", ".unsaved", ".failed", ".preempted")
_LOGS = ("", "node-*", "cells/*", "parts/*", "parts/*/cells/*")
_WORD = re.compile(
    rb"(?<![A-Za-z])(?:sav(?:e|es|ed|ing)|writ(?:e|es|ing|ten)|wrote|export(?:s|ed|ing)?"
    rb"|dump(?:s|ed|ing)?|stor(?:ed|ing)|checkpoint(?:s|ed|ing)?|ckpt)(?![A-Za-z])",
    re.I,
)
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_QUOTED = re.compile(r"'([^']+)'|\"([^\"]+)\"|`([^`]+)`")
_PLAIN = re.compile(r"(?:(?<=[\s=:(\[<>|,])|^)((?:~?/|\.\.?/|[\w-])[^\s'\"`,;()\[\]<>|]*)")
_ROOTED = re.compile(r"(?:(?<=[\s=:])|^)((?:~?/|\.\.?/)\S.*)")
_FIRST_START = re.compile(r"\d+ (\d+)\t")
_TEMPORARY = ("/tmp", "/var/tmp")
_SYSTEM = ("/dev", "/proc", "/sys", "/etc", "/usr", "/boot", "/bin", "/lib", "/run")
_OWN = ("wandb", "pip", "huggingface", "site-packages", "torch_extensions", "torchinductor")


def find(folder: str, work: str, kept: list[str], most: int) -> list[list[Any]]:
    """Return [path, bytes] of each file that the log of the run in `folder` names as saved, that is
    there and was written during the run; of many in one folder that folder.

    `work`: the program's folder. `kept`: files and folders of which nothing is lost with the box.
    `most`: bytes of the log's end that are read. Raises nothing of a file that can't be read.
    """
    until = time.monotonic() + SECONDS
    run = os.path.realpath(folder)
    look = _Look(run, [run, *(os.path.realpath(home(one)) for one in kept)], *_span_of(folder))
    found: dict[str, int] = {}
    for text in _names_in(_logs_of(folder), most, until):
        path = os.path.realpath(os.path.join(work or folder, home(text)))
        if path not in look.seen:
            look.seen.add(path)
            size = look.size_of(path)
            if size is not None:
                found[path] = size
        if len(look.seen) >= MOST_FILES or time.monotonic() > until:
            break
    return [[path, size] for path, size in sorted(_grouped(found, look).items())][:MOST_ROWS]


class _Look:
    """What is asked of each path. `seen`: those that were asked about."""

    def __init__(self, run: str, kept: list[str], first: float, last: float):
        self.kept, self.first, self.last = kept, first - EARLY, last + LATE
        self.left_out = [*_SYSTEM, *(one for one in _TEMPORARY if not _is_in(run, one))]
        self.above = [*kept, os.path.realpath(os.path.expanduser("~"))]
        self.seen: set[str] = set()
        self.files = 0

    def size_of(self, path: str) -> int | None:
        """Return the bytes of a file or folder that would be lost, None for any other."""
        if any(_is_in(path, one) for one in (*self.kept, *self.left_out)):
            return None
        if self.is_above(path) or any(map(_is_cache, path.split("/"))):
            return None
        try:
            if os.path.isfile(path):
                return os.path.getsize(path) if self._is_of_run(path) else None
            return self._size_below(path) if os.path.isdir(path) else None
        except (OSError, ValueError):
            return None

    def is_above(self, path: str) -> bool:
        """Whether what is kept, or the home, lies in a folder: it is no place of saves alone."""
        return any(_is_in(one, path) for one in self.above)

    def _is_of_run(self, path: str) -> bool:
        return self.first <= os.stat(path).st_mtime <= self.last

    def _size_below(self, top: str) -> int | None:
        total, is_new = 0, False
        for base, _, names in os.walk(top):
            for name in names:
                path = os.path.join(base, name)
                self.files += 1
                if self.files > MOST_FILES:
                    return total if is_new else None
                if os.path.isfile(path) and not os.path.islink(path):
                    total += os.path.getsize(path)
                    is_new = is_new or self._is_of_run(path)
        return total if is_new else None


def _grouped(found: dict[str, int], look: _Look) -> dict[str, int]:
    """Return what was found, with the folder in place of many of its files, and nothing twice."""
    beside: dict[str, list[str]] = {}
    for path in found:
        beside.setdefault(os.path.dirname(path), []).append(path)
    for folder, paths in beside.items():
        if len(paths) >= FOLDER_FROM and folder not in found and not look.is_above(folder):
            size = look.size_of(folder)
            if size is not None:
                found[folder] = size
    return {
        path: size
        for path, size in found.items()
        if not any(path != one and _is_in(path, one) for one in found)
    }


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_cache(part: str) -> bool:
    name = part.lower()
    return (
        name in _OWN or name.endswith("cache") or name.startswith(("__pycache", ".nv", ".triton"))
    )


def _span_of(folder: str) -> tuple[float, float]:
    """Return from when to when a run went, in seconds since 1970; without an end until now."""
    try:
        with open(os.path.join(folder, "deadline"), encoding="utf-8") as file:
            match = _FIRST_START.match(file.read(4096))
    except (OSError, ValueError):
        match = None
    first = float(match[1]) if match else _changed(os.path.join(folder, "run.sh"))
    ends = [_changed(os.path.join(folder, name)) for name in ENDS]
    return first, max(ends) or time.time()


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _logs_of(folder: str) -> list[str]:
    """Return the files of a run's log, those of its cells and nodes too, the newest first."""
    at = glob.escape(folder)
    found = [glob.glob(os.path.join(at, one, "log", "train.log.*")) for one in _LOGS]
    return sorted({path for some in found for path in some}, key=_changed, reverse=True)


def _names_in(logs: list[str], most: int, until: float) -> Iterator[str]:
    """Yield what stands like a path in a line that tells of a save."""
    seen: set[bytes] = set()
    for path in logs:
        if most <= 0 or time.monotonic() > until:
            return
        try:
            with open(path, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - most, 0))
                most -= size
                yield from _names_of(file, seen, until)
        except OSError:
            continue


def _names_of(file: BinaryIO, seen: set[bytes], until: float) -> Iterator[str]:
    left = b""
    while True:
        block = file.read(1 << 22)
        text = left + block
        lines = re.split(rb"[\r\n]+", text)
        left = lines.pop()[:LINE] if block else b""
        for line in lines:
            line = line[:LINE]
            if (b"." in line or b"/" in line) and line not in seen and _WORD.search(line):
                if len(seen) < MOST_FILES:
                    seen.add(line)
                yield from paths_in(line.decode("utf-8", "surrogateescape"))
        if not block or time.monotonic() > until:
            return


def paths_in(line: str) -> list[str]:
    """Return what may be the path of a saved file in a line of a log, behind the word that says so
    or before it."""
    line = _ANSI.sub("", line)
    found = [next(filter(None, match.groups())) for match in _QUOTED.finditer(line)]
    found += [match[1] for match in _PLAIN.finditer(line)]
    found += [text.partition("=")[2] for text in found if "=" in text]
    found += [match[1].strip() for match in _ROOTED.finditer(line)]  # with spaces in it
    names = (text.rstrip(".:!?…").rstrip("/") for text in found)
    return list(dict.fromkeys(name for name in names if _is_path(name)))


def _is_path(name: str) -> bool:
    return ("/" in name or "." in name) and "//" not in name and "\0" not in name
