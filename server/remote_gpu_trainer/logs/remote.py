"""Read logs by path, here or as HOST:PATH.

A remote log stays on its box. The reader runs there, and only the evidence comes back, as data.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from types import ModuleType

from ..boxes import box as boxes
from ..boxes.box import BadBox, Box
from ..text.masking import mask, shown, shown_lines
from .detectors import TABLE, signs_of
from .evidence_there import MOST, program
from .files import Unreadable
from .judging import Evidence
from .lines import KINDS, MAX_LINE, Line

SECONDS = 40  # an MCP client waits for a minute
MOST_LINES, MOST_RANKS = 200_000, 100_000
# A host of at least two characters (C:\ is a drive), and a path that begins neither with a blank
# (that is a message) nor with // (that is an address).
_REMOTE = re.compile(r"([^\s/\\:\[\]]{2,}):((?!//)\S.*)\Z", re.S)
_BRACKETS = re.compile(r"([^\s/\\:\[\]]+@)?\[([0-9A-Fa-f:.]+)\]:((?!//)\S.*)\Z", re.S)
_PASTED = re.compile(r"(ssh\s.+?):([/~].*)\Z", re.S)


def split(log: str) -> tuple[Box, str] | None:
    """Return (box, path on it) of HOST:PATH, None for a path here. A file here always wins.

    Raises Unreadable where HOST can't be a box.
    """
    if "\0" in log or os.path.lexists(log):
        return None
    pasted = _PASTED.match(log)
    brackets = _BRACKETS.match(log)
    plain = _REMOTE.match(log)
    if pasted:
        host, path = pasted.groups()
    elif brackets:
        host, path = f"{brackets[1] or ''}{brackets[2]}", brackets[3]
    elif plain:
        host, path = plain.groups()
    else:
        return None
    try:
        return boxes.parse(host), path
    except BadBox as error:
        raise Unreadable(f"no log of that name here, and as HOST:PATH {error}") from None


def from_path(
    log: str,
    reader: ModuleType,
    needles: tuple[bytes, ...] = (),
    progress: Callable[[int], None] | None = None,
    seconds: float = SECONDS,
) -> Evidence:
    """Return the evidence in a file or folder, here or on a box.

    `reader` is the module whose `from_path` reads it, in either place. `needles` and `progress`
    are passed on to it. Raises Unreadable, also when the box doesn't answer within `seconds`.
    """
    remote = split(log)
    if remote is None:
        return reader.from_path(log, needles, progress, seconds)
    box, path = remote
    name = shown(box.name, 80)
    reply = boxes.run(
        box,
        program(reader, path, needles),
        interpreter=boxes.PYTHON,
        limit=seconds,
        most=MOST + (1 << 20),
    )
    if reply.outcome == "overtime":
        raise Unreadable(
            f"{shown(path, 120)} on {name} was not read within {seconds:g} s; pass one rank's file "
            "instead of the folder, or use the command line, which waits longer"
        )
    if reply.outcome != "ok":
        raise Unreadable(reply.text)
    if reply.code == 127:
        raise Unreadable(f"no python3 on {name}; install 3.8 or later, or copy the log here")
    if reply.code != 0 or reply.cut:
        last = next(
            iter(shown_lines(reply.errors, 1, 160)),
            "its answer is too long" if reply.cut else "no message",
        )
        raise Unreadable(
            f"the reader on {name} ended with {reply.code} ({last}); copy the log here"
        )
    return findings(reply.out, name)


def findings(reply: bytes, name: str) -> Evidence:
    """Return a box's reply as evidence. Raises Unreadable.

    Whatever the box says, types are checked, and texts cleaned, masked and cut. `failures` stays
    empty, because no caller needs them.
    """
    try:
        told = json.loads(reply)
        if "unreadable" in told:
            raise Unreadable(f"on {name}: {shown(told['unreadable'], 400)}")
        lines = [_line(row) for row in told["lines"][:MOST_LINES]]

        def pointed(value) -> Line:
            return (
                lines[value] if isinstance(value, int) and 0 <= value < len(lines) else _line(value)
            )

        ranks = tuple(
            rank
            for rank in told["ranks"][:MOST_RANKS]
            if isinstance(rank, int) and 0 <= rank < 10**6
        )
        first = None if told["first"] is None else pointed(told["first"])
        decisive = [pointed(value) for value in told["decisive"][:12]]
        said = [shown(told.get(name, ""), 300) for name in ("left_out", "numbers")]
        return Evidence(
            lines,
            [],
            decisive,
            first,
            ranks,
            told["is_log"] is True,
            *said,
            shown(told.get("seen", ""), 20),
            shown(told.get("victims", ""), 300),
        )
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError):
        raise Unreadable(f"the answer from {name} can't be read; copy the log here") from None


def _line(row: list) -> Line:
    source, number, rank, text, kind, time = row
    text = mask(str(text)[:MAX_LINE])
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\t" else " " for c in text)
    ranked = rank if isinstance(rank, int) and 0 <= rank < 10**6 else None
    return Line(
        shown(source, 200),
        int(number) if abs(int(number)) < 10**12 else 0,
        ranked,
        text,
        kind if kind in KINDS else "plain",
        shown(time, 40),
        signs_of(text, TABLE, ranked is not None),
    )
