"""A file is written whole or not at all: beside its place first, then put there in one step."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write(target: Path, data: bytes, mode: int) -> None:
    """Replace a file, or make it with its folder; a link keeps, and what it points to is replaced. Nothing is left behind when it fails. Raises OSError."""
    target = Path(os.path.realpath(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(name, mode)
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
