"""Make the bytes of a log a text that is safe to print: bars folded, secrets masked. Pure.

A carriage return begins a line anew, so of a progress bar the last state stays. Escape sequences
and control characters are removed, and what looks like a secret is masked, a line at a time.

Limits: a program that moves the cursor, as nested bars do, gets a line for each move.
"""

from __future__ import annotations

from ..text.masking import ANSI, IN_ADDRESS, Below, hints_in, mask, strip_controls

MOST_LEFT = 1 << 18  # bytes of a line without an end; what is longer is printed in pieces


class LogText:
    """The lines of a log, as its bytes come. `rank`: only lines that name this rank."""

    def __init__(self, rank: int | None = None):
        self._rank = rank
        self._left = b""
        self._below = Below()
        self.ranked = 0  # lines so far that named a rank

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that these bytes bring to their end."""
        head, end, left = data.rpartition(b"\n")
        if end:
            lines = self._lines(self._left + head)
            self._left = left
        else:
            lines = []
            self._left += left
        # Of a bar that goes on for hours without a line end only two states are kept.
        if b"\r" in self._left:
            before, _, last = self._left.rpartition(b"\r")
            self._left = _last_state(before.split(b"\r")) + b"\r" + last
        if len(self._left) > MOST_LEFT:
            lines += self._lines(self._left)
            self._left = b""
        return lines

    def rest(self) -> list[str]:
        """Return the last line, which has no end."""
        left, self._left = self._left, b""
        return self._lines(left) if left.strip() else []

    @property
    def bar(self) -> str:
        """The line that hasn't ended yet, as it stands."""
        line = _last_state(self._left.split(b"\r")).decode("utf-8", "replace")
        return mask(strip_controls(line))

    def _lines(self, data: bytes) -> list[str]:
        text = data.decode("utf-8", "replace")
        if "\x1b" in text:
            text = ANSI.sub("", text)
        if "\r" in text:
            lines = [_last_state(line.split("\r")) for line in text.split("\n")]
            text = "\n".join(lines)
        text = strip_controls(text)
        hints = hints_in(text.lower())
        lines = text.split("\n")
        if self._rank is not None:
            lines = [line for line in lines if self._is_wanted(line)]
        if hints:
            lines = [mask(line, hints) for line in lines]
        if "://" in text:
            lines = [IN_ADDRESS.sub(r"\1:***@", line) for line in lines]
        return [self._below.hide(line) for line in lines]

    def _is_wanted(self, line: str) -> bool:
        from ..logs.prefixes import rank_in

        rank = rank_in(line)
        self.ranked += rank is not None
        return rank == self._rank


def _last_state(states):
    """Return what a line shows at its end: the last of its states that isn't blank."""
    return next((state for state in reversed(states) if state.strip()), states[-1][:0])
