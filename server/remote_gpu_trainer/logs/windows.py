"""Keep the rows of a log that may matter, in bounded memory. Standard library, Python 3.8.

A small log is kept whole. Of a large one the head, the tail and a window around each telling row
are kept. Rows are first folded to their letters: a block of a million bytes holds few different
shapes, and only shapes never seen before are searched. So the time hardly depends on the number of
texts to look for.

Limits: a row of a large log that differs from an earlier one in digits and signs only counts as
its repeat. Of repeats the first PER_SHAPE and the last are kept. In a log of more than MAX_SHAPES
shapes, old ones are forgotten and searched again. Of more than MAX_LATEST shapes, the last time of
the latest is kept.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from operator import itemgetter
from typing import List

from ..numbers.rows import Row

WHOLE, WHOLE_ROWS = 1 << 19, 6000  # bytes, and rows, up to which every row is kept
BLOCK = 1 << 20
HEAD, TAIL = 1 << 15, 1 << 17  # bytes of a large log that are kept whatever they hold
AROUND = 3000  # bytes kept before a telling row, and after it
SHORT = 48  # bytes that a row counts at least: a megabyte must not become a million short rows
PER_SHAPE = 3
# Bytes of windows, and PER_ROW more for each row. Later windows are kept among the latest only.
MAX_KEPT = 1 << 20
PER_ROW = 60
MAX_SHAPES, MAX_TELLING, MAX_LATEST = 100_000, 20_000, 300
MAX_ROW = 16_000  # bytes of a row that are kept

TELLING = (
    b"Traceback (most", b"Error", b"error:", b"ERROR", b"rror(s)", b"Exception", b"Warning",
    b"WARN", b"FATAL", b"Fatal", b"Killed", b"killed", b"bort", b"ignal ", b"SIG", b"Segmentation",
    b"xitcode", b"atchdog", b"imed out", b"imeout", b"oom-kill", b"OutOfMemory", b"out of memory",
    b"No space left", b"quota", b"Assert", b"assert", b"mismatch", b"failed", b"Failed",
    b"NVRM: Xid", b"SXid (", b"blocked for more", b" fault by", b"corrupt", b"panicked at",
    b"fallen off", b"ile handle", b"put error", b"HSA_STATUS", b"free(): ", b"alloc(): ",
    b"munmap_chunk", b"allocate memory", b"only file system", b"endpoint is not",
)  # fmt: skip
_DIGITS = b"0123456789"
_FOLD = bytes(c if c >= 128 or c == 10 or chr(c).isalpha() else 32 for c in range(256))
# Names of hosts, runs and files such as `node-a1` or `7ic8q9z2`; the parts of a progress bar.
_OF_ONE_RUN = re.compile(rb"\b(?:[A-Za-z]+\d|\d+[A-Za-z]+\d)\w*|\xe2[\x94-\x97][\x80-\xbf]")


def cost(rows: int, size: int) -> int:
    """Return what `rows` rows of `size` bytes in all count against a bound."""
    return size + PER_ROW * rows


def shapes(rows: Iterable[Row]) -> frozenset[bytes]:
    """Return which words rows hold; the names that have digits in them aren't among these."""
    return frozenset(_shape(row) for _, row in rows)


def unlike(rows: list[Row], known: frozenset[bytes]) -> list[Row]:
    """Return the rows whose shape isn't known. A traceback is kept whole if its last row is new."""
    kept, new = [], False
    for number, row in reversed(rows):
        of_traceback = row[:1].isspace() or row.startswith(b"Traceback (most")
        if _shape(row) not in known:
            new = True
        elif not of_traceback:
            new = False
        if new:
            kept.append((number, row))
    return kept[::-1]


def _shape(row: bytes) -> bytes:
    return b" ".join(sorted(set(_OF_ONE_RUN.sub(b" ", row).translate(_FOLD).split())))


def keep(
    blocks: Iterable[bytes], size: int | None, needles: tuple[bytes, ...], most: int | None = None
) -> list[Row]:
    """Return all rows of a small input; of a large one its head, its tail and windows.

    `size` is the number of bytes, where that is known. Rows that hold one of the `needles` are
    telling. `most` is about what may be kept (see `cost`) of a log that is one of many.
    """
    first: list[bytes] = []
    seen = rows = 0
    blocks = iter(blocks)
    for block in blocks:  # a stream may yet turn out to be small
        first.append(block)
        seen += len(block)
        rows += block.count(b"\n") + block.count(b"\r")
        if (
            seen > WHOLE
            or rows > WHOLE_ROWS
            or (size or 0) > WHOLE
            or (most is not None and cost(rows, seen) > most)
        ):
            break
    else:
        return [row for row in _rows(b"".join(first), 1) if row[1].strip()]
    keeper = _Keeper(needles, most)
    for block in first:
        keeper.add(block)
    for block in blocks:
        keeper.add(block)
    rows_kept = Rows(keeper.rows())
    rows_kept.is_cut = True
    return rows_kept


class Rows(List[Row]):
    """Rows of a log, of which rows may have been left out: then it `is_cut`."""

    is_cut = False


class _Keeper:
    """Takes the blocks of a large log one after another and keeps what may matter."""

    def __init__(self, needles: tuple[bytes, ...], most: int | None = None):
        self.head, self.end, self.most, self.windows = HEAD, TAIL, MAX_KEPT, MAX_LATEST
        if most is not None:
            self.head, self.end, self.most = (
                min(HEAD, most // 12),
                min(TAIL, most // 4),
                min(MAX_KEPT, most // 3),
            )
            self.windows = min(MAX_LATEST, most // (6 * AROUND) + 1)
        # {a word of a folded needle: the needles that hold it}
        self.anchors: dict[bytes, list[bytes]] = {}
        self.plain = [word.translate(_FOLD) for word in TELLING]
        for needle in needles:
            folded = needle.translate(_FOLD, _DIGITS)
            inner = folded.split()[1:-1]  # the words at its ends may be cut
            if inner:
                self.anchors.setdefault(max(inner, key=len), []).append(folded)
            elif folded.strip():
                self.plain.append(folded)
        self.known: set[bytes] = set()
        self.telling: dict[bytes, int] = {}  # how often a window of this shape was kept
        self.kept: dict[Row, None] = {}
        self.size = 0
        self.latest: OrderedDict[bytes, list[Row]] = OrderedDict()
        self.number, self.seen, self.owed = 1, 0, 0
        self.last: _Block | None = None
        # Telling shapes of the last block for which no window was kept.
        self.repeats: set[bytes] = set()
        self.tail: list[tuple[int, bytes]] = []

    def add(self, block: bytes) -> None:
        """Take the next block, which ends at a line end."""
        now = _Block(block, self.number)
        present = set(now.shapes)
        fresh = present - self.known
        if fresh:
            if len(self.known) > MAX_SHAPES:
                self.known = set()
            self.known |= fresh
            self._search(fresh)
        telling = present & self.telling.keys()
        self._remember(self.repeats - telling)
        if self.owed or self.seen < self.head:
            self._whole(now, max(self.owed, self.head - self.seen))
        early = (
            {shape for shape in telling if self.telling[shape] < PER_SHAPE}
            if self.size < self.most
            else set()
        )
        self.repeats = telling - early
        if early:
            self._windows(now, early)
        self.last = now
        self.number += block.count(b"\n")
        self.seen += len(block)
        self.tail.append((now.number, block))
        while len(self.tail) > 1 and sum(len(b) for _, b in self.tail[1:]) >= self.end:
            self.tail.pop(0)

    def _search(self, fresh: set[bytes]) -> None:
        """Mark the new shapes that hold a telling word or a needle (which are folded as well)."""
        text = b"\n".join(fresh)
        wanted = [word for word in self.plain if word in text]
        words = set(text.split())
        wanted += [
            needle
            for anchor in self.anchors.keys() & words
            for needle in self.anchors[anchor]
            if needle in text
        ]
        for shape in fresh if wanted else ():
            if len(self.telling) < MAX_TELLING and any(word in shape for word in wanted):
                self.telling.setdefault(shape, 0)

    def _whole(self, block: _Block, size: int) -> None:
        """Keep the head of the log, and the rest of a window that the last block cut off."""
        self.owed = 0
        for row in block.rows(0, block.reach(0, size)):
            self._keep(row)

    def _windows(self, block: _Block, early: set[bytes]) -> None:
        """Keep windows around the first rows of each of these shapes; further ones are repeats."""
        # A window ends before row `reach`, `ahead` bytes after row `before`.
        reach = ahead = before = 0
        for at, shape in enumerate(block.shapes):
            if shape not in early:
                continue
            if self.telling[shape] >= PER_SHAPE or self.size >= self.most:
                self.repeats.add(shape)
                continue
            self.telling[shape] += 1
            if at < reach:  # the window goes on; each row is visited once
                ahead -= block.size(before + 1, at + 1)
            else:
                ahead, reach = 0, block.start(at)
                if reach == 0 and self.last:
                    count = len(self.last.shapes)
                    for row in self.last.rows(max(0, count - 20), count):
                        self._keep(row)
            after = max(reach, at + 1)
            last = block.reach(after, AROUND - ahead)
            for row in block.rows(reach, last):
                self._keep(row)
            ahead += block.size(after, last)
            reach, before = last, at
            if last == len(block.shapes):
                self.owed = AROUND

    def _remember(self, gone: set[bytes]) -> None:
        """Keep the last time of repeated shapes that the newest block no longer holds."""
        if not gone or not self.last:
            return
        shapes, missing, places = self.last.shapes, set(gone), []
        for at in range(len(shapes) - 1, -1, -1):
            if shapes[at] in missing:
                places.append(at)
                missing.discard(shapes[at])
                if not missing or len(places) == self.windows:  # more would push these out
                    break
        for at in reversed(places):
            self.latest[shapes[at]] = self.last.rows(
                self.last.start(at), self.last.reach(at + 1, AROUND)
            )
            self.latest.move_to_end(shapes[at])
            if len(self.latest) > self.windows:
                self.latest.popitem(last=False)

    def _keep(self, row: Row) -> None:
        if row not in self.kept:
            self.kept[row] = None
            self.size += cost(1, max(len(row[1]), SHORT))

    def rows(self) -> list[Row]:
        """Return everything that was kept, in order."""
        self._remember(self.repeats)
        for window in self.latest.values():
            self.kept.update(dict.fromkeys(window))
        for start, block in self.tail:
            cut = block.rfind(b"\n", 0, max(0, len(block) - self.end)) + 1
            rows = _rows(block[cut:], start + block.count(b"\n", 0, cut))[-self.end // SHORT :]
            self.kept.update(((number, line[:MAX_ROW]), None) for number, line in rows)
        return sorted((row for row in self.kept if row[1].strip()), key=itemgetter(0))


class _Block:
    """A block that starts with line `number`, and the shapes of its rows."""

    def __init__(self, block: bytes, number: int):
        self.block, self.number = block, number
        self._lined = block.replace(b"\r", b"\n") if b"\r" in block else block
        self.shapes = self._lined.translate(_FOLD, _DIGITS).split(b"\n")
        self._lines: list[bytes] = []
        self._reached = 0, 0, number  # a row, its first byte and its line

    def lines(self) -> list[bytes]:
        """The text of each row, in the order of the shapes."""
        if not self._lines:
            self._lines = self._lined.split(b"\n")
        return self._lines

    def rows(self, first: int, last: int) -> list[Row]:
        """Rows from one place up to another, each with the number of its line."""
        lines = self.lines()[first:last]
        if self._lined is self.block:  # no carriage returns
            return [(self.number + first + at, line[:MAX_ROW]) for at, line in enumerate(lines)]
        row, byte, number = self._reached if self._reached[0] <= first else (0, 0, self.number)
        at = byte + sum(map(len, self._lines[row:first])) + first - row
        number, rows = number + self.block.count(b"\n", byte, at), []
        self._reached = first, at, number
        for line in lines:
            rows.append((number, line[:MAX_ROW]))
            at += len(line) + 1
            number += self.block[at - 1 : at] == b"\n"
        return rows

    def size(self, first: int, last: int) -> int:
        """The bytes of the rows from one place up to another."""
        return sum(max(len(line) + 1, SHORT) for line in self.lines()[first:last])

    def reach(self, first: int, size: int) -> int:
        """The place after the rows that hold the next `size` bytes."""
        lines = self.lines()
        while first < len(lines) and size > 0:
            size -= max(len(lines[first]) + 1, SHORT)
            first += 1
        return first

    def start(self, at: int) -> int:
        """The place of the row AROUND bytes before."""
        lines, size = self.lines(), 0
        while at > 0 and size < AROUND:
            at -= 1
            size += max(len(lines[at]) + 1, SHORT)
        return at


def _rows(block: bytes, number: int) -> list[Row]:
    """The pieces between line feeds and carriage returns, each with the number of its line."""
    lines = block.split(b"\n")
    if b"\r" not in block:
        return list(zip(range(number, number + len(lines)), lines))
    return [(number + i, piece) for i, line in enumerate(lines) for piece in line.split(b"\r")]
