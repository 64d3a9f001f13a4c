"""Lines of a log as an answer quotes them: cut, masked, and with their place."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..logs.evidence import Evidence, Probed
from ..logs.lines import Line
from ..numbers.out_of_memory import Shortage
from ..text.masking import shown
from .budget import tokens
from .parts import LINES, MOST

CHARS = 90  # of a line that an answer quotes
NAME = 200  # characters of the name of a log
MAX_SHOWN = 4000  # characters of a line that are masked before it is cut
READ = "read from the numbers: "  # goes before text that is in no line of the log

# [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537]     where a library was built
_SOURCE = re.compile(r"(?<![\w.])/(?:[\w.+-]{1,60}/){2,20}(?=[\w+-]{1,60}\.(?:cc|cpp|cu|h|hpp)\b)")


def evidence_lines(evidence: Evidence, memory: Shortage | None) -> list[dict]:
    """The first decisive lines.

    For an out-of-memory message the first is the summary of its numbers, from `memory`. Where
    several ranks were compared, the lines go first that tell them apart.
    """
    lines = _once([*evidence.quoted, *evidence.decisive])
    if not memory or not memory.sentence:
        return [
            _quote(line, by=READ if evidence.seen and line.kind == "message" else "")
            for line in lines[:LINES]
        ]
    message = memory.line
    others = [
        line for line in lines if (line.source, line.number) != (message.source, message.number)
    ]
    return [
        _quote(message, by=READ, instead=memory.sentence),
        *(_quote(line) for line in others[: LINES - 1]),
    ]


def _once(lines: list[Line]) -> list[Line]:
    """Each line once: a copy with another rank or kind is the same line."""
    first: dict[tuple[str, int, str], Line] = {}
    for line in lines:
        first.setdefault((line.source, line.number, line.text), line)
    return list(first.values())


def probe_lines(findings: Iterable[Probed]) -> list[dict]:
    """The first findings of a probe that say something, as lines, proven ones first."""
    telling = sorted((f for f in findings if f.said), key=lambda finding: not finding.wrong)
    return [
        _quote(Line(f.source, 1, f.rank if f.rank >= 0 else None, f.said)) for f in telling[:LINES]
    ]


def place_of(line: Line) -> dict:
    """Where a line is: its rank, the name of its log and its number."""
    return {"rank": line.rank, "source": shown(line.source, NAME), "line": line.number}


def _quote(line: Line, by: str = "", instead: str = "") -> dict:
    """A line as the answer shows it.

    `by` comes first and says how the line was read; `instead` stands in place of its text.
    """
    # What was read from numbers is a whole sentence of ours, and has more room than a raw line.
    own = _SOURCE.sub("…/", shown(line.text.strip(), MAX_SHOWN))
    text = by + (instead or own[: CHARS + 2 * len(by)])
    # A line of rare characters must not take the room of the fix.
    while (cost := tokens(text)) > MOST["line"]:
        text = text[: int(len(text) * MOST["line"] / cost)]
    return {
        "source": shown(line.source, NAME),
        "line": line.number,
        "rank": line.rank,
        "text": text.rstrip(" ;"),  # a cut must not promise more
    }
