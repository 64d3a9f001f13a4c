"""The pattern by which a line of the log tells its step."""

from __future__ import annotations

import re
from functools import lru_cache

_POSIX = re.compile(r"\[:\w+:\]|\\[<>]")  # what Python reads as something else


@lru_cache(maxsize=4)
def compile_step_pattern(text: str) -> re.Pattern[bytes] | None:
    """Return a regular expression of Python's; None if it is broken, or of another kind."""
    if not text or _POSIX.search(text):
        return None
    try:
        return re.compile(text.encode("utf-8", "surrogateescape"))
    except (re.error, OverflowError):
        return None
