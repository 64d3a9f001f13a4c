"""Read a length of time as people write it: 30s, 90 min, 8h, 1.5 d. Python 3.8."""

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
