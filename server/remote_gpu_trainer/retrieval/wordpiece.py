"""Text to the pieces of words that the sentence encoder knows (BERT's uncased WordPiece).

The rules are those of BERT's own tokenizer (google-research/bert, tokenization.py): lower case,
accents dropped, punctuation and Chinese characters by themselves, then the longest known piece from
the left. tests/retrieval/test_wordpiece.py compares it with the library `tokenizers`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache

CLS, SEP, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
LONGEST_WORD = 100  # characters; a longer word is unknown
_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


@lru_cache(maxsize=4096)
def _kind(char: str) -> str:
    """`blank`, `drop`, `alone` or `letter`: what becomes of a character."""
    number = ord(char)
    if char in "\t\n\r":
        return "blank"
    category = unicodedata.category(char)
    if number in (0, 0xFFFD) or category in ("Cc", "Cf", "Mn"):
        return "drop"
    if category == "Zs":
        return "blank"
    if any(low <= number <= high for low, high in _CHINESE):
        return "alone"
    is_ascii_sign = 33 <= number <= 47 or 58 <= number <= 64 or 91 <= number <= 96
    if is_ascii_sign or 123 <= number <= 126 or category.startswith("P"):
        return "alone"
    return "letter"


def words(text: str) -> list[str]:
    """The words of a text in lower case, each punctuation mark and Chinese character by itself."""
    spaced = []
    for char in unicodedata.normalize("NFD", text.lower()):
        kind = _kind(char)
        if kind == "letter":
            spaced.append(char)
        elif kind == "blank":
            spaced.append(" ")
        elif kind == "alone":
            spaced.append(f" {char} ")
    return "".join(spaced).split()


class WordPiece:
    """Pieces of a vocabulary. `rows`: the number of each piece."""

    def __init__(self, rows: Mapping[str, int]):
        self.rows = rows
        self._known: dict[str, list[int]] = {}

    def pieces(self, text: str, most: int) -> list[int]:
        """The rows of a text's pieces between [CLS] and [SEP], `most` at most with those two."""
        found = [self.rows[CLS]]
        for word in words(text):
            if len(found) >= most - 1:
                break
            rows = self._known.get(word)
            if rows is None:
                rows = self._known[word] = self._of(word)
                if len(self._known) > 50_000:
                    self._known.clear()
            found += rows
        return [*found[: most - 1], self.rows[SEP]]

    def _of(self, word: str) -> list[int]:
        if len(word) > LONGEST_WORD:
            return [self.rows[UNKNOWN]]
        found, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                row = self.rows.get(("##" if start else "") + word[start:end])
                if row is not None:
                    break
            else:
                return [self.rows[UNKNOWN]]
            found.append(row)
            start = end
        return found
