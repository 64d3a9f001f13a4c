"""The lines of evidence in an answer: cut, masked, and of an out-of-memory message what its numbers say."""

from __future__ import annotations

from ..logs.judging import Evidence
from ..logs.lines import Line
from ..numbers.out_of_memory import Told
from ..text.masking import shown
from .budget import tokens

LINE = 48  # tokens of a line
NAME = 200  # characters of the name of a log
READ = "read from the numbers: "  # before what stands in no line of the log
MAX_SHOWN = 4000  # characters of a line that are masked before it is cut


def evidence_lines(evidence: Evidence, told: Told | None, most: int, chars: int) -> list[dict]:
    """The lines that were judged by; of an out-of-memory message what its numbers say."""
    if not told or not told.said:
        return [
            line_shown(line, chars, READ if evidence.seen and line.kind == "message" else "")
            for line in evidence.decisive[:most]
        ]
    line = told.line
    others = [
        other
        for other in evidence.decisive
        if (other.source, other.number) != (line.source, line.number)
    ]
    return [
        line_shown(line, chars, READ, told.said),
        *(line_shown(other, chars) for other in others[: most - 1]),
    ]


def line_shown(line: Line, chars: int, by: str = "", said: str = "") -> dict:
    """A line as the answer shows it: cut, and masked. `by`: how it was read; `said`: what was read in it, in its place."""
    text = by + said if said else by + shown(line.text.strip(), MAX_SHOWN)[: chars + 2 * len(by)]
    while (
        cost := tokens(text)
    ) > LINE:  # a line of rare characters must not take the room of the fix
        text = text[: int(len(text) * LINE / cost)]
    return {
        "source": shown(line.source, NAME),
        "line": line.number,
        "rank": line.rank,
        "text": text,
    }


def place_of(line: Line) -> dict:
    return {"rank": line.rank, "source": shown(line.source, NAME), "line": line.number}
