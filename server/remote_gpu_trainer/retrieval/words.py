"""A text to the words that count.

English words lose their endings, identifiers count whole and in parts, Chinese counts in pairs of
characters. Entries and reports are read by this one function.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain

REMEMBERED = 50_000  # tokens whose words are kept
LONGEST_NUMBER = 6  # digits; a longer number is a size, a time or an address

_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+(?:\.\d+)?|[\u4e00-\u9fff]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ENDINGS = ("ations", "ation", "ings", "ing", "edly", "ed", "ies", "es", "s", "ly")
_COMMON = (
    "a an the of to in on at is are was were be been it its this that these those and or for with "
    "as by from i my me we our you your he she they them there here so if then than just also very "
    "can could would should will do does did have has had am im ive any some"
)
_STOP = frozenset(_COMMON.split())


def tokens(text: str) -> list[str]:
    """Words, numbers and runs of Chinese, as the text has them."""
    return _TOKEN.findall(text)


def words(text: str) -> list[str]:
    """The counted words of a text, in order."""
    return list(chain.from_iterable(map(_parts, tokens(text))))


def stem(word: str) -> str:
    """A word without its common English ending."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word[-1] == "e" else word


@lru_cache(REMEMBERED)
def _parts(token: str) -> tuple[str, ...]:
    """What one token counts as: itself, and the parts of an identifier."""
    if token[0].isdigit():
        return (token,) if len(token) <= LONGEST_NUMBER else ()
    if "\u4e00" <= token[0] <= "\u9fff":
        return tuple(token[at : at + 2] for at in range(len(token) - 1)) or (token,)
    low = token.lower()
    written = (low, token.upper(), low.capitalize(), f"{token[:-1].upper()}s")  # the last: GPUs
    if "_" in token.strip("_") or token not in written:
        pieces = [piece.lower() for piece in _CAMEL.findall(token)]
        if len(pieces) > 1:
            return (low, *(stem(p) for p in pieces if len(p) > 1 and p not in _STOP))
    bare = low.strip("_")
    return (stem(bare),) if bare and low not in _STOP else ()
