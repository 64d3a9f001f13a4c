"""Read and write a length of time as people do: 30s, 90 min, 8h, 1.5 d. Python 3.8."""

from __future__ import annotations

import re
from datetime import datetime

_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,20})?)\s*(s|m|min|h|d)\Z")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def seconds_in(text: str) -> float | None:
    """Return a length of time such as "90 min" in seconds, or None for any other text.

    The units are s, m, min, h and d; m means minutes. Whitespace is allowed around the text and
    before the unit.
    """
    match = _SPAN.match(text.strip())
    return float(match[1]) * _SECONDS[match[2]] if match else None


def shown_moment(at: float) -> str:
    """Return a moment in this machine's time, with its zone. `at`: seconds since 1970."""
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M %z}"


def shown_seconds(seconds: float) -> str:
    """Return a length of time in the unit that suits it: 45 s, 4.2 min, 35 min, 3.2 h, 4.1 days."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.{1 if seconds < 600 else 0}f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"
