"""What the numbers of a log show when it has no error: losses, metrics, memory."""

from __future__ import annotations

import math


def finite(value: object, below: float = 1e15) -> float | None:
    """Return a number from somebody else's JSON as a float.

    None unless it is a finite number whose size is under `below`. True and False don't count.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < below and math.isfinite(value) else None
