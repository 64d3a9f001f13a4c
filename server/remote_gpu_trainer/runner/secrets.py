"""Secrets from files and variables of the box, and *** for them in what goes to the log."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from types import SimpleNamespace
from typing import Iterable

from ..text.proc import read_environment
from .context import Run, home

SHORTEST = 6  # characters; a shorter value would stand in half of all lines
LARGEST = 131072 - 256  # bytes; the kernel takes no longer variable
LONG = 64  # bytes; a longer value is compared only where so many of it are there
STARS = b"***"


def names(spec: SimpleNamespace) -> list[str]:
    """Return the program's variables that hold secrets."""
    return list(spec.secrets)


def box_variable(name: str) -> str:
    """Return a variable of this box, '' for none.

    An ssh login lacks the variables of a container, so those of its first process count too.
    """
    return os.environ.get(name) or read_environment(1).get(name, "")


def load(run: Run) -> dict[str, str]:
    """Return {variable: value} of the secrets that are there. Only children are given them."""
    found = {}
    for name, path in _places(run, "file"):
        try:
            with open(home(path), "rb") as file:
                value = file.read(LARGEST + 1).replace(b"\0", b"")
        except OSError:
            continue
        found[name] = os.fsdecode(value.rstrip(b"\n").rstrip(b"\r"))
    for name, source in _places(run, "variable"):
        value = box_variable(source)
        if value:
            found[name] = value
    return found


def _places(run: Run, kind: str) -> list[tuple[str, str]]:
    """Return (variable of the program, where its value lies) of one kind: "file" or "variable"."""
    return [(name, place[kind]) for name, place in run.spec.secrets.items() if place[kind]]


def problems(run: Run) -> list[tuple[str, str]]:
    """Return (kind, reason) for each secret that is missing on this box."""
    found = []
    for name, path in _places(run, "file"):
        file = home(path)
        try:
            is_there = os.path.isfile(file) and os.access(file, os.R_OK) and os.path.getsize(file)
        except OSError:
            is_there = False
        if not is_there:
            found.append(("", f"the secret {name} has no readable file {path}"))
        elif os.path.getsize(file) > LARGEST:
            why = f"the secret {name} is larger than a variable may be (128 KB)"
            found.append(("", f"{why}; let the program read {path} itself"))
    for _, source in _places(run, "variable"):
        if not box_variable(source):
            found.append(("secret", f"the secret {source} is not set in this environment"))
    return found


class Mask:
    """Replaces secrets by *** in a stream of bytes.

    Of a value of several lines each line counts too. What may be the beginning of a secret waits
    for what follows. The work grows with the text, hardly with the number of values: a place in
    the text is looked at only where its next six bytes begin a value, and then once for each
    length of such values.
    """

    def __init__(self, values: Iterable[str]):
        parts = {part.strip() for value in values for part in (value, *value.split("\n"))}
        found = {part.encode("utf-8", "surrogateescape") for part in parts if len(part) >= SHORTEST}
        self._values = found
        self._sorted = sorted(found)
        lengths: dict[bytes, set[int]] = {}
        for value in found:
            lengths.setdefault(value[:SHORTEST], set()).add(len(value))
        self._lengths = {head: sorted(sizes, reverse=True) for head, sizes in lengths.items()}
        self._long = {value[:LONG] for value in found if len(value) > LONG}
        columns = [{head[place] for head in lengths} for place in range(SHORTEST)]
        classes = [b"[%s]" % b"".join(b"\\x%02x" % byte for byte in sorted(c)) for c in columns]
        self._heads = re.compile(b"(?=%s)" % b"".join(classes)) if found else None
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return what can be shown after these bytes."""
        shown, self._rest = self._split(self._rest + data)
        return shown

    def flush(self) -> bytes:
        """Return what was held back; nothing follows."""
        rest, self._rest = self._rest, b""
        return _last(rest)

    def text(self, text: str) -> str:
        """Return a whole text with its secrets masked."""
        shown, rest = self._split(text.encode("utf-8", "surrogateescape"))
        return (shown + _last(rest)).decode("utf-8", "surrogateescape")

    def _split(self, text: bytes) -> tuple[bytes, bytes]:
        """Return the masked text, and its end that may be the beginning of a secret."""
        if self._heads is None:
            return text, b""
        shown, at = [], 0
        for match in self._heads.finditer(text):
            place = match.start()
            sizes = self._lengths.get(text[place : place + SHORTEST]) if place >= at else None
            if not sizes:
                continue
            left = len(text) - place
            if sizes[0] > LONG <= left and text[place : place + LONG] not in self._long:
                sizes = [size for size in sizes if size <= LONG]
            if sizes and sizes[0] > left and self._begins(text[place:]):
                return b"".join([*shown, text[at:place]]), text[place:]
            size = next((n for n in sizes if text[place : place + n] in self._values), 0)
            if size:
                shown += [text[at:place], STARS]
                at = place + size
        for place in range(max(at, len(text) - SHORTEST + 1), len(text)):
            if self._begins(text[place:]):
                return b"".join([*shown, text[at:place]]), text[place:]
        return b"".join([*shown, text[at:]]), b""

    def _begins(self, text: bytes) -> bool:
        """Return whether a longer value begins with this text."""
        place = bisect_left(self._sorted, text)
        near = self._sorted[place : place + 2]
        return any(len(value) > len(text) and value.startswith(text) for value in near)


def _last(rest: bytes) -> bytes:
    """Return the beginning of a secret as it may be shown when nothing follows."""
    return STARS if len(rest) >= SHORTEST else rest
