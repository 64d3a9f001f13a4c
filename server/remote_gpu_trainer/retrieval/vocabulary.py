"""The words that ranking knows and the row of each: a table that is searched where it lies, so that nothing is built at the start.

A word's first slot is its CRC-32 cut to the size of the table; one that is taken sends the word to the next free slot. A slot holds
the row of its word plus 1, or 0 when it is free. The words themselves lie in the order of their rows, so what is found is compared whole.
"""

from __future__ import annotations

from array import array
from zlib import crc32

from .remembered import Remembered

SLOTS_A_WORD = 2  # at least: a fuller table needs more steps for a word that it lacks
MOST = 50_000  # words asked for that are remembered


class Rows(Remembered):
    """{word: its row, None for an unknown one}, filled as words are asked for: rows[word]. `get` knows only what was asked before."""

    def __init__(self, words, starts, slots):
        super().__init__(lambda word: self._find(word.encode("utf-8", "surrogatepass")), MOST)
        self._words, self._starts, self._slots = words, starts, slots

    def word(self, row: int) -> bytes:
        """The word of a row, in UTF-8."""
        return bytes(self._words[self._starts[row] : self._starts[row + 1]])

    def _find(self, word: bytes) -> int | None:
        slots, last = self._slots, len(self._slots) - 1
        at = crc32(word) & last
        while slots[at]:
            if self.word(slots[at] - 1) == word:
                return slots[at] - 1
            at = at + 1 & last
        return None


def pack(words: list[str]) -> dict[str, array]:
    """What Rows reads, by the names of the parts of ranking.bin: the words, where each starts, and the slots."""
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
