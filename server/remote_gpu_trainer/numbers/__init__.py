"""What the numbers of a log show when it has no error: losses, metrics, memory."""

from __future__ import annotations

import math


def finite(value: object, below: float = 1e15) -> float | None:
    """Return a number from somebody else's JSON as a float.

    None unless it is a finite number whose size is under `below`. True and False don't count.
    """
    fine = (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) < below
        and math.isfinite(value)
    )
    return float(value) if fine else None
