"""A mark of this machine and of the state folder on it, which no copy of that folder has."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from . import ledger, local_files


def place() -> Path:
    """Return the file that carries the mark. It is never written again."""
    return ledger.place().parent / "guard" / "here"


def mark() -> str:
    """Return the mark, '' where none was made yet.

    A copy of the file, or a backup that is put back, has another inode or another time of change,
    which nobody can set. The clone of a whole disk isn't seen.
    """
    try:
        info = place().stat()
    except OSError:
        return ""
    return hash_of(_machine(), str(info.st_ino), str(info.st_ctime_ns))


def make() -> str:
    """Return the mark, made where there is none yet. Raises OSError."""
    if not mark():
        local_files.write(place(), b"")
    return mark()


def hash_of(*words: str) -> str:
    """Return the hash of words."""
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


def _machine() -> str:
    """Return the id of this machine, '' where it has none in a file."""
    for name in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with suppress(OSError):
            return Path(name).read_text(encoding="ascii", errors="replace").strip()
    return ""
