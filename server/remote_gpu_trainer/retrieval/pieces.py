"""A text to the pieces of words that meaning is counted by.

A common word is one piece; any other is cut into the longest known parts. The pieces are those of
BERT's uncased vocabulary ("##ing" goes on a word that has begun), so that what a large model knows
about them could be learned. A word that no pieces make up counts for nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

MOST_PIECES = 160  # of a text; what follows counts for nothing
LONGEST = 40  # letters of a word; a longer one is a hash or a path
REMEMBERED = 20_000  # words whose pieces are kept

_WORD = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")


class Pieces:
    """Cuts texts into pieces. `row_of(piece)` is the row of a known piece, None for another."""

    def __init__(self, row_of: Callable[[str], int | None]):
        self._row_of = row_of
        self._rows_of_word = lru_cache(REMEMBERED)(self._split)

    def rows(self, text: str) -> list[int]:
        """The rows of the first MOST_PIECES pieces of a text, in order."""
        found: list[int] = []
        for word in _WORD.findall(folded(text)):
            found += self._rows_of_word(word)
            if len(found) >= MOST_PIECES:
                break
        return found[:MOST_PIECES]

    def _split(self, word: str) -> tuple[int, ...]:
        """Longest piece first, from the left; nothing when no piece begins what is left."""
        rows: list[int] = []
        start = 0
        while start < len(word) <= LONGEST:
            for end in range(len(word), start, -1):
                row = self._row_of(word[start:end] if start == 0 else "##" + word[start:end])
                if row is not None:
                    rows.append(row)
                    start = end
                    break
            else:
                rows = []
                break
        return tuple(rows)


def folded(text: str) -> str:
    """The text in lower case, without accents."""
    if text.isascii():
        return text.lower()
    return "".join(
        c for c in unicodedata.normalize("NFD", text.lower()) if not unicodedata.combining(c)
    )
