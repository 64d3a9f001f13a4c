"""The expression that finds a step in a line of the log. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

_CLASSES = {
    "[:digit:]": r"0-9", "[:alpha:]": r"A-Za-z", "[:alnum:]": r"A-Za-z0-9", "[:upper:]": r"A-Z",
    "[:lower:]": r"a-z", "[:space:]": r" \t\r\n\f\v", "[:blank:]": r" \t",
    "[:xdigit:]": r"0-9A-Fa-f", "[:punct:]": r"!-/:-@\[-`{-~", r"\<": r"\b", r"\>": r"\b",
}  # fmt: skip


@lru_cache(maxsize=4)
def compiled(text: str) -> re.Pattern[bytes] | None:
    """Return a POSIX extended regular expression as one of Python; None if it is broken."""
    for posix, python in _CLASSES.items():
        text = text.replace(posix, python)
    try:
        return re.compile(text.encode("utf-8", "surrogateescape")) if text else None
    except (re.error, OverflowError):
        return None
