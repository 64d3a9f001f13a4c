"""A report to the words that the ranking counts.

English words lose their endings. Identifiers count whole and in parts, Chinese in pairs of
characters. Numbers that mean something get a name (0.693 is the loss of a coin toss), and concepts
fold what users say in many ways into one word. Entries, practice reports and questions are all read
by this one function.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain, pairwise

from .concepts import concepts, stem, told_by

REMEMBERED = 20_000  # tokens whose words are kept

_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+(?:\.\d+)?|[\u4e00-\u9fff]+")
# The same for a text without other letters, and faster.
_ASCII_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+(?:\.\d+)?", re.A)
# The same as it is shown: "doesn't" is one word there.
_WRITTEN = re.compile(rf"(?P<token>{_TOKEN.pattern})(?P<rest>['’]t\b)?")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# fmt: off
_STOP = frozenset([
    "a", "an", "the", "of", "to", "in", "on", "at", "is", "are", "was", "were", "be", "been", "it",
    "its", "this", "that", "these", "those", "and", "or", "for", "with", "as", "by", "from", "i",
    "my", "me", "we", "our", "you", "your", "he", "she", "they", "them", "there", "here", "so",
    "if", "then", "than", "just", "also", "very", "can", "could", "would", "should", "will", "do",
    "does", "did", "have", "has", "had", "am", "im", "ive", "any", "some",
])
# fmt: on
# (least, greatest, name): what a fresh model's loss is with so many classes, and the like.
_NUMBERS = (
    (0.685, 0.6975, "#ln2"),
    (1.0975, 1.0995, "#ln3"),
    (1.38, 1.39, "#ln4"),
    (2.295, 2.31, "#ln10"),
    (4.59, 4.62, "#ln100"),
    (6.89, 6.92, "#ln1000"),
    (10.3, 10.95, "#lnvocab"),
)
_CODES = {
    "137": "#sigkill",
    "139": "#sigsegv",
    "134": "#sigabrt",
    "135": "#sigbus",
    "29500": "#port29500",
    "98": "#errno98",
    "1800000": "#30min",
    "600000": "#10min",
    "65504": "#fp16max",
    "65536": "#scale65536",
}


@lru_cache(REMEMBERED)
def _parts(token: str) -> tuple[str, ...]:
    """What one token counts as: itself, and the parts of an identifier."""
    if token[0].isdigit():
        if token in _CODES:
            return (_CODES[token],)
        value = float(token[:18])
        named = next(
            (name for low, high, name in _NUMBERS if "." in token and low <= value <= high), None
        )
        return (named,) if named else (("#" + token,) if len(token) <= 2 else ("#num",))
    if "\u4e00" <= token[0] <= "\u9fff":
        return tuple(token[i : i + 2] for i in range(len(token) - 1)) or (token,)
    if (
        token[-1] == "s" and token[:-1].isupper() and len(token) > 2
    ):  # GPUs, LRs: the plural of an acronym
        return (stem(token[:-1].lower()),)
    low = token.lower()
    pieces = (
        [p.lower() for p in _CAMEL.findall(token)]
        if (
            "_" in token.strip("_")
            or (token != low and token != token.upper() and token[1:] != low[1:])
        )
        else []
    )
    if len(pieces) > 1:
        return (
            low,
            *(stem(p) for p in pieces if len(p) > 1 and p not in _STOP and not p.isdigit()),
        )
    bare = low.strip("_")
    return (stem(bare),) if bare and low not in _STOP else ()


def words(text: str) -> list[str]:
    """The counted words of a text, in order, concepts last. Numbers are named, not kept."""
    plain = text.isascii()
    found = list(
        chain.from_iterable(map(_parts, (_ASCII_TOKEN if plain else _TOKEN).findall(text)))
    )
    return found + concepts(found, text, not plain)


def as_written(text: str) -> dict[str, str]:
    """{counted word: what the text has for it}: `loss` for `los`, `0.693` for the loss of ln(2).

    A concept has the words that tell it. Numbers without a name are left out.
    """
    found: dict[str, str] = {}
    counted = []
    for match in _WRITTEN.finditer(text):
        for part in _parts(match["token"]):
            counted.append(part)
            found.setdefault(part, _wording(part, match["token"]) + (match["rest"] or ""))
    found.pop("#num", None)
    for name, tellers in told_by(counted, text, not text.isascii()).items():
        found.setdefault(name, " … ".join(found.get(word, word) for word in tellers))
    return found


def _wording(part: str, token: str) -> str:
    """What of a token counts as `part`: all of it, a piece of an identifier, two characters."""
    if "\u4e00" <= token[0] <= "\u9fff":
        return part
    return next((piece for piece in _CAMEL.findall(token) if stem(piece.lower()) == part), token)


def pairs(tokens: list[str]) -> list[str]:
    """Neighbouring words as one: `loss+stuck`."""
    return [f"{a}+{b}" for a, b in pairwise(tokens) if a[0] not in "#@" or b[0] not in "#@"]
