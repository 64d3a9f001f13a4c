"""Arrays of numbers in one file, read from disk where they are needed.

The file begins with one line of JSON that names the arrays; their bytes follow, little-endian.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
from array import array
from pathlib import Path

Bytes = bytes | mmap.mmap


def mapped(path: Path) -> Bytes:
    """The bytes of a file, read from disk where they are looked at.

    On Windows they are read at once, because a file in use can't be replaced there.
    """
    if os.name == "nt":
        return path.read_bytes()
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def unpack(data: Bytes, name: str, maker: str) -> tuple[dict, dict[str, memoryview]]:
    """(the line of JSON, {part: its numbers}).

    Raises ValueError for a wrong length, with `name`, the file, and `maker`, the program to run.
    """
    end = data.find(b"\n") + 1
    about = json.loads(data[:end])
    return about, _cut(about["parts"], memoryview(data)[end:], name, maker)


def _cut(parts: list[list], data: memoryview, name: str, maker: str) -> dict[str, memoryview]:
    found, place = {}, 0
    for part_name, code, count in parts:
        end = place + count * array(code).itemsize
        part = data[place:end]
        if len(part) == end - place:
            found[part_name] = part.cast(code) if sys.byteorder == "little" else _turned(code, part)
        place = end
    if place != len(data):
        raise ValueError(f"{name} has {len(data)} bytes after its head, not {place}; run {maker}")
    return found


def _turned(code: str, data: memoryview) -> memoryview:
    """The numbers of a part on a big-endian machine."""
    part = array(code, bytes(data))
    part.byteswap()
    return memoryview(part)


def pack(about: dict, parts: dict[str, array]) -> bytes:
    """The bytes of such a file. `about` becomes its line of JSON, with the names of the parts."""
    head = {**about, "parts": [[name, part.typecode, len(part)] for name, part in parts.items()]}
    return (
        json.dumps(head, ensure_ascii=False).encode()
        + b"\n"
        + b"".join(part.tobytes() for part in parts.values())
    )


def told_again(data: bytes, changes: dict) -> bytes:
    """The same parts, with `changes` in the line of JSON."""
    end = data.find(b"\n") + 1
    return (
        json.dumps({**json.loads(data[:end]), **changes}, ensure_ascii=False).encode()
        + b"\n"
        + data[end:]
    )
