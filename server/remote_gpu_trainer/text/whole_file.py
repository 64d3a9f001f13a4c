"""Write a file whole or not at all: to a temporary file beside it, then move that into place."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write(target: Path, data: bytes, mode: int) -> None:
    """Write `data` to `target` with the permissions `mode`, and make its folder if needed.

    A symbolic link stays; the file it points to is replaced. On failure the old file stays and
    nothing else is left behind. Raises OSError.
    """
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
