"""What an out-of-memory message tells beside its words: whose memory it is by its numbers, where in the run it came by the calls, and the entry that either points to."""

from __future__ import annotations

import re

from ..logs.lines import Line
from ..text.records import record
from .memory_message import memory_of
from .moments import moment

_GPU = re.compile(r"(?:CUDA|HIP) (?:error: )?out of memory")
FRAGMENTS = "M8"
# By place: the entry, and whether it goes before what words say. In an optimizer's step it may be ZeRO, in a backward pass FSDP or what came before.
PLACES = {
    "in an evaluation": ("M15", True),
    "in the optimizer's step": ("M17", False),
    "in the backward pass": ("M14", False),
    "while saving": ("C5", False),
}


@record
class Told:
    """`said`: the sum in one sentence, "" without numbers; `entry`: what it points to, or ""; `why`: by what; `first`: whether that goes before what words say."""

    line: Line
    said: str
    entry: str = ""
    why: str = ""
    first: bool = False


def told_by(lines: list[Line]) -> Told | None:
    """What the last such message of these lines tells, None where there is none."""
    counted = memory_of(lines)
    line = (
        counted[0]
        if counted
        else next(
            (
                line
                for line in reversed(lines)
                if "out of memory" in line.text and _GPU.search(line.text)
            ),
            None,
        )
    )
    if not line:
        return None
    place = moment(lines, line)
    by, said = (counted[1].by(), counted[1].said(place)) if counted else ("own", "")
    if by == "fragments":
        return Told(line, said, FRAGMENTS, "the numbers of the message", True)
    if by == "own" and place in PLACES:
        entry, first = PLACES[place]
        return Told(line, said, entry, f"{place}, by the calls", first)
    return Told(line, said)
