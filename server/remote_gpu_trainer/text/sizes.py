"""Write a number of bytes as people read it. Python 3.8."""

from __future__ import annotations


def shown_bytes(count: float) -> str:
    """Return a number of bytes as a person reads it: 1.5 GB, 12 bytes."""
    for unit, least in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= least:
            return f"{count / least:.1f} {unit}"
    return f"{count} bytes"
