"""Compile the runner's modules once, so that no later process of a run does.

Python itself would leave a file cut short on a full disk, and then import nothing from it.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import struct
import sys
from contextlib import suppress


def compile_all(folder: str) -> None:
    """Write the .pyc of each module below a folder, unless this Python's are there. Never fails."""
    mark = os.path.join(folder, f"compiled.{sys.implementation.cache_tag}")
    if os.path.exists(mark):
        return
    with suppress(OSError, ValueError, SyntaxError):
        for base, _, names in os.walk(os.path.join(folder, "remote_gpu_trainer")):
            for name in names:
                if name.endswith(".py"):
                    _compile(os.path.join(base, name))
        _write(mark, b"")


def _compile(path: str) -> None:
    with open(path, "rb") as file:
        source = file.read()
        stat = os.fstat(file.fileno())
    code = compile(source, path, "exec", dont_inherit=True)
    # No flags: valid while the source has this time and size.
    times = struct.pack("<II", int(stat.st_mtime) & 0xFFFFFFFF, stat.st_size & 0xFFFFFFFF)
    head = importlib.util.MAGIC_NUMBER + bytes(4) + times
    target = importlib.util.cache_from_source(path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    _write(target, head + marshal.dumps(code))


def _write(path: str, data: bytes) -> None:
    """Write a file that only its owner reads, whole or not at all, also where the power fails."""
    new = f"{path}.{os.getpid()}"
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError:
        with suppress(OSError):
            os.unlink(new)
        raise
