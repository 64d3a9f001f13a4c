"""What the Chinese of a report says in the English of the entries: `chinese.txt`.

Entries have few Chinese words, and the encoder reads few Chinese characters. So the terms of the
field are read in English as well.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

PLACE = Path(__file__).with_name("chinese.txt")
_CHINESE = re.compile(r"[\u4e00-\u9fff]+")


class Reading(NamedTuple):
    """A text in three forms.

    `translated`: Chinese terms in English, other Chinese as it is. `english`: the same without
    Chinese, or "" for a text that has none. `whole`: `english` and all Chinese of the text.
    """

    translated: str
    english: str
    whole: str


@lru_cache(maxsize=8)  # a look-up reads the same text several times
def read(text: str) -> Reading:
    """Read a text with the terms that `chinese.txt` knows. Without Chinese it stays as it is."""
    runs = [] if text.isascii() else _CHINESE.findall(text)
    if not runs:
        return Reading(text, "", text)
    english_of, any_term = _terms()
    translated = any_term.sub(lambda match: f" {english_of[match[0].lower()]} ", text)
    english = _CHINESE.sub(" ", translated)
    return Reading(translated, " ".join(english.split()), "\n".join([english, *runs]))


def pieces(run: str) -> list[tuple[str, str | None]]:
    """The terms in a run of Chinese with their English, and with None what stands between them."""
    english_of, any_term = _terms()
    found, done = [], 0
    for term in any_term.finditer(run):
        found += [(run[done : term.start()], None), (term[0], english_of[term[0]])]
        done = term.end()
    return [piece for piece in [*found, (run[done:], None)] if piece[0]]


def count_of_words(text: str) -> float:
    """How many words a text has; two Chinese characters count as one."""
    others = _CHINESE.sub(" ", text)
    return len(others.split()) + sum(map(len, _CHINESE.findall(text))) / 2


@lru_cache(maxsize=1)
def _terms() -> tuple[dict[str, str], re.Pattern[str]]:
    """{term: its English}, and an expression that finds terms, of several the longest."""
    english_of = {}
    for line in PLACE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            spellings, _, english = line.partition("\t")
            english_of.update(dict.fromkeys(spellings.lower().split("|"), english))
    longest_first = sorted(english_of, key=len, reverse=True)
    return english_of, re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE)
