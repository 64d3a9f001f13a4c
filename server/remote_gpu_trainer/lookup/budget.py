"""Texts within a budget of tokens.

Tokens are estimated without a tokenizer. The estimate was fitted to a GPT tokenizer on the
catalogue and on reports, and errs on the high side: a whole answer as JSON has 74 to 90 % of the
estimated tokens.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate

KEPT = 20_000  # texts and words whose cost is remembered; most are from the catalogue and recur

_AS_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
# Where a sentence or an item of a list ends and the next begins.
_SENTENCE = re.compile(r"(?<=[.!?。]) (?=\S)|(?<=\S) (?=- )")
_PIECE = re.compile(r"[A-Za-z]+|\d+|[^\sA-Za-z\d]")


def tokens(text: str) -> float:
    """About how many tokens a text has."""
    return sum(map(_of_piece, _PIECE.findall(text)))


@lru_cache(KEPT)
def _of_piece(piece: str) -> float:
    first, size = piece[0], len(piece)
    if not first.isascii():
        return 1.25
    if first.isalpha():
        return 1.0 if size <= 7 else 1.55 if size <= 12 else size / 5
    return math.ceil(size / 3) + 0.5 if first.isdigit() else 0.78


_of_word = lru_cache(KEPT)(tokens)
SIGN = tokens(",")


def tokens_of_json(value: object) -> float:
    """About how many tokens a value has as compact JSON.

    It adds up the parts, so that a text that recurs is counted once.
    """
    if isinstance(value, dict):
        return (
            (1 + max(1, 2 * len(value))) * SIGN
            + sum(map(_of_text, value))
            + sum(map(tokens_of_json, value.values()))
        )
    if isinstance(value, list):
        return (1 + max(1, len(value))) * SIGN + sum(map(tokens_of_json, value))
    return _of_text(value) if isinstance(value, str) else tokens(_AS_JSON(value))


@lru_cache(KEPT)
def _of_text(text: str) -> float:
    return tokens(_AS_JSON(text))


@lru_cache(4000)
def _priced(text: str) -> tuple[list[str], list[float]]:
    """The words of a text, and its cost in tokens up to and including each word."""
    words = text.split(" ")
    return words, list(accumulate(map(_of_word, words)))


def cut(text: str, most: float) -> str:
    """At most about `most` tokens of a text.

    It cuts at the end of a sentence if one ends in the second half; otherwise "…" marks the cut.
    '' if there is no room for three words.
    """
    words, spent = _priced(text)
    kept = bisect_right(spent, most)
    if kept == len(words):
        return text
    if kept < 3:
        return ""
    short = " ".join(words[:kept])
    end = max(short.rfind(". "), short.rfind("; "), short.rfind(".") if short.endswith(".") else -1)
    return short[: end + 1] if end > len(short) // 2 else short + " …"


def cut_before_code(text: str, most: float) -> str:
    """As `cut`, but never within a command or a piece of code: half of one can't be run.

    '' if only a few words before a piece of code have room.
    """
    short = cut(text, most)
    if short.count("`") % 2 == 0:
        return short
    before = short[: short.rindex("`")].rstrip(" (")
    return f"{before} …" if len(before.split()) > 5 else ""


def sentences(text: str) -> list[str]:
    """The sentences and items of a text; a piece of code is never split."""
    ends = [at.span() for at in _SENTENCE.finditer(text) if text.count("`", 0, at.start()) % 2 == 0]
    starts = [0, *(end for _, end in ends)]
    return [
        text[a:b] for a, b in zip(starts, [*(begin for begin, _ in ends), len(text)], strict=True)
    ]


def first_sentence(text: str) -> str:
    """The first sentence of a text, with the first item of a list that it announces."""
    said = sentences(text)
    announces = said[0].endswith(":") and len(said) > 1
    return f"{said[0]} {said[1]}" if announces else said[0]


def fitting(texts: dict[str, str], most: float) -> dict[str, str]:
    """The texts in about `most` tokens, none cut within a sentence or an item of a list.

    Whole if they fit. Otherwise each keeps its first sentence, and then the texts take turns, the
    last one first.
    """
    if sum(map(tokens, texts.values())) <= most:
        return dict(texts)
    parts = {name: sentences(text) for name, text in texts.items()}
    kept = {name: 1 for name in texts}
    left = most - sum(tokens(part[0]) for part in parts.values())
    open_ = list(reversed(texts))
    while open_:
        for name in list(open_):
            at = kept[name]
            cost = tokens(parts[name][at]) if at < len(parts[name]) else left + 1
            if cost > left:
                open_.remove(name)
            else:
                kept[name], left = at + 1, left - cost
    return {name: " ".join(part[: kept[name]]) for name, part in parts.items()}


def first_paragraph(text: str) -> str:
    """The first paragraph of a field, on one line."""
    return " ".join(text.split("\n\n")[0].split())


def opening(text: str) -> str:
    """The first paragraph of a field, and the list that it announces with a colon.

    "Depending on what the check says:" alone is no fix.
    """
    first, rest = first_paragraph(text), text.partition("\n\n")[2]
    if first.endswith(":") and rest.startswith(("- ", "1. ")):
        return f"{first} {first_paragraph(rest)}"
    return first


def plain(text: str) -> str:
    """The text without Markdown's backticks."""
    return text.replace("`", "")
