"""Texts from elsewhere, made safe to repeat: cut, masked, without control characters."""

from __future__ import annotations

import re
from typing import Any

from ..text.masking import shown, shown_lines

LONGEST = 300  # characters of a value
LONGEST_TEXT = 2000  # characters of one text from a page of facts
LONGEST_REPORT = 1500  # characters of an error text
_VARIABLE = re.compile(r"\bHF_[A-Z_]{8,}")  # names that `shown` takes for tokens


def brief(text: str) -> str:
    """A value from outside: one line, cut, without control characters and secrets."""
    return shown(text, LONGEST).strip()


def report(text: str) -> str:
    """An error text, cut, without control characters and secrets, and with its line breaks.

    Of a long text it keeps the first line, and the end, which has the error.
    """
    first, end = shown(text.strip().partition("\n")[0], 600), "\n".join(shown_lines(text, 100, 600))
    if len(end) > LONGEST_REPORT:
        end = end[-LONGEST_REPORT:].partition("\n")[2]
    return end if first in end else f"{first}\n…\n{end}"


def as_data(value: Any) -> Any:
    """The same object with every text cut, masked and without control characters.

    Pages of facts quote what providers and users wrote.
    """
    if isinstance(value, dict):
        return {as_data(name): as_data(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_data(item) for item in value]
    if not isinstance(value, str):
        return value
    # A page says `HF_HUB_ENABLE_HF_TRANSFER`, and the masking leaves `HF_***` of it.
    names = iter(_VARIABLE.findall(value))
    return re.sub(r"HF_\*\*\*", lambda match: next(names, match[0]), shown(value, LONGEST_TEXT))
