"""A loss that is no number any more: by the log, from which step on."""

from __future__ import annotations

import math
import re
from collections import deque
from typing import Callable

from ..readings.line import read_losses
from . import completeness, content

IN_A_ROW = (
    3  # lines with a loss of nan after which the run counts as lost: a single one is often skipped
)
LINE = 4096  # bytes of a line that isn't ended yet are kept
NEAR = 50  # lines before a loss in which its step is looked for


class Watch:
    """Reads an attempt's log piece by piece. `is_lost`: so many lines in a row had a loss of nan;
    `step`: that of the first of them, None where the lines before it tell none."""

    def __init__(self, find_step: Callable[[bytes], int | None]):
        self._find_step = find_step
        self._rest = b""
        self._lines: deque[bytes] = deque(maxlen=NEAR)
        self._count = 0
        self._first: int | None = None
        self.is_lost = False
        self.step: int | None = None

    def feed(self, piece: bytes) -> None:
        """Read what the log has more of; a line counts once it is ended."""
        text = self._rest + piece
        *lines, rest = re.split(rb"[\r\n]", text)
        self._rest = rest[-LINE:]
        if not self._count and b"nan" not in text.lower():
            self._lines.extend(lines[-NEAR:])
            return
        for line in lines:
            self._lines.append(line)
            self._read(line)

    def _read(self, line: bytes) -> None:
        losses = read_losses(line.decode("utf-8", "replace")) if b"oss" in line.lower() else []
        if not losses:
            return
        if not any(map(math.isnan, losses)):
            self._count = 0
            return
        self._count += 1
        if self._count == 1:
            self._first = self._step_of_last()
        if self._count == IN_A_ROW and not self.is_lost:
            self.is_lost, self.step = True, self._first

    def _step_of_last(self) -> int | None:
        return self._find_step(b"\n".join(self._lines))


def find_before(folder: str, pattern: str, cache: str, step: int) -> str:
    """Return the newest complete checkpoint whose name tells a step below this one, '' for none.
    Raises OSError."""
    known = content.Known(cache)
    for item in content.newest_first(folder, pattern):
        named = content.step_of(item.path)
        if (
            named is not None
            and named < step
            and known.judge_item(item).state == completeness.COMPLETE
        ):
            return item.path
    return ""
