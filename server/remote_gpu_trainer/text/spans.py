"""Read and write a length of time as people do: 30s, 90 min, 8h, 1.5 d. Python 3.8."""

from __future__ import annotations

import re

_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,20})?)\s*(s|m|min|h|d)\Z")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def seconds_in(text: str) -> float | None:
    """Return a length of time such as "90 min" in seconds, or None for any other text.

    The units are s, m, min, h and d; m means minutes. Whitespace is allowed around the text and
    before the unit.
    """
    match = _SPAN.match(text.strip())
    return float(match[1]) * _SECONDS[match[2]] if match else None


def in_words(seconds: float) -> str:
    """Return a length of time in its largest unit: 40 s, 12 min, 3.5 h, 2.1 d."""
    for unit, size, below in (("s", 1, 100), ("min", 60, 6000), ("h", 3600, 172800)):
        if seconds < below:
            return f"{seconds / size:.{int(unit == 'h')}f} {unit}"
    return f"{seconds / 86400:.1f} d"
