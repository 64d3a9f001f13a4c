"""Does a report say that the loss is nan or diverges? Then no higher learning rate mends it."""

from __future__ import annotations

import re

from ..numbers.entries import (
    RATE_UNCLEAR,
    SLOW_LOSS,
)

# Entries whose fix raises a learning rate for a loss that falls too slowly. The entry about a rate
# that several GPUs need isn't one: a rate that diverged there is among its symptoms.
RAISE_RATE = frozenset((SLOW_LOSS, RATE_UNCLEAR))
# No \b: Python takes a Chinese character beside a Latin word for a letter of it.
_DIVERGES = re.compile(
    r"(?<![a-z0-9_])(?:nans?|infs?|infinity|diverg(?:es?|ed|ing|ence)|explod(?:es?|ed|ing)"
    r"|blow(?:s|n|ing)?[ ]up|blew[ ]up)(?![a-z0-9_])|发散|爆炸|非数|无穷大",
    re.IGNORECASE,
)
# "after lowering the rate to stop NaN it doesn't learn", "学习率调小之后不报 NaN 了，但是学不动"
_DENIED = re.compile(
    r"(?:\b(?:no|not|never|nor|or|without|avoid\w*|prevent\w*|stop\w*|fix\w*|doesn't|didn't|isn't"
    r"|n't)(?:\s+(?:a|any|be|get|go|goes|the|more|longer|loss|loses|see|more))*"
    r"|[不没未无](?:再|有|会|报|是|出现|变成|为|了)*|避免|防止|解决了?)\s*$",
    re.IGNORECASE,
)
_BEFORE = 40  # characters before the word in which a denial is looked for


def says_diverges(text: str) -> bool:
    """Return whether a text says that something is nan or inf, or diverges.

    It doesn't if it denies one of these words: a run without nan that learns nothing may need a
    higher rate, whatever it did before.
    """
    words = list(_DIVERGES.finditer(text))
    return bool(words) and not any(
        _DENIED.search(text[max(0, word.start() - _BEFORE) : word.start()]) for word in words
    )
