"""Read the lock files that `uv pip compile` writes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from packaging.utils import canonicalize_name

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(?:\s*;\s*(.*?))?\s*\\?$")


@dataclass
class Pin:
    """One package of a lock: its version, marker, hashes, and the packages that need it."""

    version: str
    marker: str = ""
    needed_by: list[str] = field(default_factory=list)
    hashes: int = 0


def read_lock(text: str) -> dict[str, Pin]:
    """The pins of a lock by name. Raises ValueError for a line that uv doesn't write."""
    pins: dict[str, Pin] = {}
    for line in text.splitlines():
        said = line.strip()
        if found := _PIN.match(line):
            pin = pins[canonicalize_name(found[1])] = Pin(found[2], found[3] or "")
        elif said.startswith("--hash=sha256:") and pins:
            pin.hashes += 1
        elif line.startswith("    #") and pins:
            name = said.lstrip("# ").removeprefix("via").strip().removesuffix(" (pyproject.toml)")
            pin.needed_by += (
                [canonicalize_name(name)] if name and not name.startswith("-c ") else []
            )
        elif said and not line.startswith("#"):
            raise ValueError(
                f"{line!r} in the lock isn't NAME==VERSION, a hash or a comment; "
                "write the lock again as CONTRIBUTING.md says"
            )
    return pins
