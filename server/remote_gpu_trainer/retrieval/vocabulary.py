"""The words that the ranking knows and the row of each: a hash table that is searched in the file.

Nothing has to be built at the start. The first slot for a word is its CRC-32, cut to the size of
the table; if it is taken, the next free slot holds the word. A slot holds the row of its word
plus 1, or 0 when it is free. The words lie in the order of their rows, and a word that is found is
compared as a whole.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

SLOTS_A_WORD = 2  # at least: a fuller table needs more steps for a word that it lacks
MOST = 50_000  # words asked for that are remembered


class Rows:
    """The words of a table and their rows. The arguments are what `pack` made.

    `find(word)` is the row of a word, None for an unknown one.
    """

    def __init__(self, words: Sequence[int], starts: Sequence[int], slots: Sequence[int]):
        self._words, self._starts, self._slots = words, starts, slots
        self.find = lru_cache(MOST)(self._find)

    def word(self, row: int) -> bytes:
        """The word of a row, in UTF-8."""
        return bytes(self._words[self._starts[row] : self._starts[row + 1]])

    def _find(self, text: str) -> int | None:
        word = text.encode("utf-8", "surrogatepass")
        slots, last = self._slots, len(self._slots) - 1
        at = crc32(word) & last
        while slots[at]:
            if self.word(slots[at] - 1) == word:
                return slots[at] - 1
            at = at + 1 & last
        return None


def pack(words: list[str]) -> dict[str, array]:
    """What `Rows` reads: the words, where each starts, and the slots, named as in ranking.bin."""
    texts = [word.encode() for word in words]
    starts = array("I", [0])
    for text in texts:
        starts.append(starts[-1] + len(text))
    last = (1 << (SLOTS_A_WORD * len(words)).bit_length()) - 1
    slots = array("I", bytes(4 * (last + 1)))
    for row, text in enumerate(texts, 1):
        at = crc32(text) & last
        while slots[at]:
            at = at + 1 & last
        slots[at] = row
    return {"words": array("B", b"".join(texts)), "word starts": starts, "word slots": slots}
