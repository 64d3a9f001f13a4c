"""A folder of the user's for arrays that take longer to compute than to read.

A file's name says what its arrays follow from, so a file is never out of date, only unused. Nothing
depends on the folder: where it can't be written, or there is none, each process computes anew.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path

from ..text import write_whole
from . import numpy
from .encoder import packed

KEPT = 8  # files; those that were written before are removed
_SEAL = 32  # bytes


def folder() -> Path | None:
    """The package's folder in the user's cache; None where the user has no home.

    A home that isn't there is never made: the account of a service may name one.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification ignores a relative path
        home = os.path.expanduser("~")
        if not os.path.isabs(home) or not os.path.isdir(home):
            return None
        base = os.path.join(home, ".cache")
    return Path(base) / "remote-gpu-trainer"


def read(name: str, key: str) -> dict[str, numpy.ndarray] | None:
    """The arrays that were kept under this name and key.

    None for a file that is missing, damaged or another program's.
    """
    place = folder()
    if place is None:
        return None
    try:
        content = _file(place, name, key).read_bytes()
    except OSError:
        return None
    seal, payload = content[:_SEAL], content[_SEAL:]
    if seal != _seal(key, payload):
        return None
    with numpy.load(BytesIO(payload), allow_pickle=False) as archive:
        return dict(archive)


def keep(name: str, key: str, arrays: Mapping[str, numpy.ndarray]) -> None:
    """Write arrays for `read`, where that is possible, and remove the oldest files of this name."""
    place = folder()
    if place is None:
        return
    payload = packed(dict(arrays))
    with suppress(OSError):
        write_whole(_file(place, name, key), _seal(key, payload) + payload, 0o600)
        files = sorted(place.glob(f"{name}-*"), key=lambda path: path.stat().st_mtime)
        for path in files[:-KEPT]:
            path.unlink()


def _file(place: Path, name: str, key: str) -> Path:
    return place / f"{name}-{key}"


def _seal(key: str, payload: bytes) -> bytes:
    """What a file begins with: whatever doesn't fit it was not written here, or not all of it."""
    return sha256(key.encode() + payload).digest()
