"""Mask secrets, write whole files, and define the errors that every command shows.

Every front end shows the text of an error as it is. The text reads `what is wrong; what to do`, in
one line. A file is written whole or not at all: to a temporary file beside it, which is then moved
into place.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


class UserError(Exception):
    """Something outside the program is wrong: a file, a box, a setting."""


class BadRequest(UserError):
    """The request itself is wrong: an argument that can't be used."""


def sha256_of(path: Path, after_piece: Callable[[], None] = lambda: None) -> str:
    """The SHA-256 of a file, in hexadecimal digits. `after_piece` is called after each MiB, and
    may raise to end it. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
            after_piece()
    return digest.hexdigest()


def write_whole(target: Path, data: bytes, mode: int) -> None:
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
