"""The copy of a run's results on this machine: where it lies, and whether it is whole there now.

A release wrote a manifest beside it, with the size and digest of each file. That it was whole then
proves nothing later: who acts on a copy reads it again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
import time
from pathlib import Path
from typing import NamedTuple

from ..text import sha256_of
from ..text.masking import shown
from ..text.spans import shown_seconds

MANIFEST = "PULL_MANIFEST.json"
A_LOOK = 120.0  # seconds in which a copy must be read


class Copy(NamedTuple):
    """Where a copy lies, and the digest of its manifest as the release wrote it; '' for none."""

    folder: str
    manifest: str


class _Lost(Exception):
    """What a copy lacks, in words."""


def describe_copy(folder: Path) -> Copy:
    """Return what a later look needs of a copy that has just been verified."""
    place = os.path.realpath(folder)
    try:
        return Copy(place, sha256_of(Path(place) / MANIFEST))
    except OSError:
        return Copy(place, "")


def why_lost(copy: Copy, limit: float = A_LOOK, *, reads: bool = True) -> str:
    """Return why a copy can't be seen to be whole now, '' if it is.

    `limit`: seconds; a disk that hangs holds up nobody for longer. `reads`: compare each byte, else
    the sizes alone.
    """
    if not copy.manifest:
        return "where its copy lies isn't known"
    found, until = [], time.monotonic() + limit

    def look() -> None:
        found.append(_find_loss(copy, until, reads))

    reader = threading.Thread(target=look, daemon=True)
    reader.start()
    reader.join(limit)
    why = found[0] if found else _late(limit)
    return why and f"its copy in {shown(copy.folder, 300)} {why}"


def read_sizes(copy: Copy) -> dict[str, dict[str, int]]:
    """Return what a copy holds, {place on the box: {path below it: bytes}}; '' is the run's folder.
    Of one that can't be read nothing."""
    found: dict[str, dict[str, int]] = {}
    try:
        told = json.loads((Path(copy.folder) / MANIFEST).read_bytes())
        places = told.get("places", {})
        for row in told["files"]:
            path, name = row["path"], ""
            for one in places:
                name = one if f"{path}/".startswith(f"{one}/") else name
            below = found.setdefault(places[name] if name else "", {})
            below[path[len(name) :].lstrip("/")] = row["bytes"]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
    return found


def _late(limit: float) -> str:
    return f"can't be read within {shown_seconds(limit)}"


def _find_loss(copy: Copy, until: float, reads: bool) -> str:
    """Return what a copy lacks, or why it can't be compared; '' for neither."""
    began = time.monotonic()
    try:
        _compare(copy, until, reads)
    except _Lost as error:
        return str(error)
    except TimeoutError:
        return _late(until - began)
    except OSError as error:
        return f"can't be read ({error.strerror})"
    except Exception as error:
        return f"can't be compared ({type(error).__name__})"
    return ""


def _compare(copy: Copy, until: float, reads: bool) -> None:
    """Read a copy. Raises _Lost, TimeoutError and OSError."""
    if not os.path.isdir(copy.folder):
        raise _Lost("is gone")
    if os.path.realpath(copy.folder) != copy.folder:
        raise _Lost("is behind a link now")  # that may lead to the box itself
    manifest = Path(copy.folder) / MANIFEST
    if not manifest.is_file() or manifest.is_symlink():
        raise _Lost(f"has no {MANIFEST} any more")
    data = manifest.read_bytes()
    if hashlib.sha256(data).hexdigest() != copy.manifest:
        raise _Lost(f"has another {MANIFEST} than when it was verified")
    listed = json.loads(data)
    if listed.get("checks", {}).get("unlisted") or not listed["files"]:
        raise _Lost("has files that no manifest can name")
    for row in listed["files"]:
        _compare_file(copy.folder, row, until, reads)


def _compare_file(folder: str, row: dict, until: float, reads: bool) -> None:
    """Compare a file with its row of the manifest."""
    path = os.path.join(folder, row["path"])
    name = shown(row["path"], 100)
    if not os.path.lexists(path):
        raise _Lost(f"lacks {name}")
    is_plain = stat.S_ISREG(os.lstat(path).st_mode)
    if not is_plain or os.path.realpath(path) != path:
        raise _Lost(f"has a link in place of {name}")
    if os.path.getsize(path) != row["bytes"]:
        raise _Lost(f"has another {name} than when it was verified")
    if not reads:
        return

    def check_time() -> None:
        if time.monotonic() > until:
            raise TimeoutError

    if sha256_of(Path(path), check_time) != row["sha256"]:
        raise _Lost(f"has another {name} than when it was verified")
