"""What the rank that failed by itself says, apart from what the others say because it is gone.

A job of many ranks ends with the words of those that waited: a watchdog's time-out, a closed connection, the end of their own process. They are longer than
what the first one said, and the same under every cause. So a log is judged without them first, and as a whole where that comes to nothing.
`judging` leaves time-outs where they are: the ranking learned from reports read so.
"""

from __future__ import annotations

import re

from .first_failure import who
from .judging import Evidence
from .launcher_summary import ABORT, TERM, summary_of
from .lines import Line
from .survivors import LOST_PEER, is_report, is_secondary

CRASHED = "D20"  # the entry of a job of which one rank crashed: of all that explain the others' words the right one
_FAILED = ("exception", "failure", "consequence")
_TALK = ("trace", "frame", *_FAILED)
_STACK = re.compile(
    r"\s*(?:frame #\d+: |Exception raised from )"
)  # of C++, which writes without a rank


def without(found: Evidence) -> Evidence:
    """The evidence without the words of ranks that only lost the one that failed; `found` itself where no rank failed by itself, or none lost it."""
    first = found.first
    if first is None or is_secondary(first.text) or LOST_PEER.search(first.text):
        return found
    crashed = first.kind == "exception" or (
        first.kind == "failure"
        and not is_report(first.text)
        and "terminate called" not in first.text
    )
    killed = not crashed and _is_killed(first, found.lines)
    lost = _lost(found, first, anywhere=killed) if crashed or killed else set()
    if not lost:
        return found
    since: dict[tuple[str, int | None], int] = {}
    for line in found.lines:
        if line.rank in lost and (
            line.kind in _TALK or (line.kind == "aside" and is_secondary(line.text))
        ):
            since.setdefault((line.source, line.rank), line.number)

    def is_theirs(line: Line) -> bool:
        if line.rank is None:
            return (killed or _is_after(line, first)) and (who(line) in lost or _is_end(line))
        return line.number >= since.get((line.source, line.rank), line.number + 1)

    dropped = {id(line) for line in found.lines if is_theirs(line)}
    return found._replace(
        lines=[line for line in found.lines if id(line) not in dropped],
        failures=[failure for failure in found.failures if id(failure.line) not in dropped],
        decisive=[line for line in found.decisive if id(line) not in dropped],
    )


def _is_killed(first: Line, lines: list[Line]) -> bool:
    """Whether all that is known of the first failure is that a signal from elsewhere ended the rank, and not the launcher's."""
    code, told = summary_of(lines).ended.get(first.rank, (None, None))
    return (
        code is not None and code < 0 and code not in (ABORT, TERM) and told.number == first.number
    )


def _is_end(line: Line) -> bool:
    """Whether a line without a rank tells of a peer or a time-out, or belongs to the stack of one that does."""
    return bool(_STACK.match(line.text)) or (line.kind in _FAILED and is_secondary(line.text))


def _is_after(line: Line, first: Line) -> bool:
    return line.source != first.source or line.number > first.number


def _lost(found: Evidence, first: Line, anywhere: bool) -> set[int]:
    """The other ranks that failed after the first one, with a word of a lost peer or of a time-out, and with no exception of their own.

    `anywhere`: the first failure stands in a summary at the end, whenever it was. An exception without a rank is that of none of those who wait after it.
    """
    lost: dict[int, bool] = {}
    for line in found.lines:
        rank = who(line) if line.kind in _FAILED else None
        if rank is None or rank == first.rank:
            continue
        told = line.kind == "consequence" or is_secondary(line.text)
        if rank not in lost:
            lost[rank] = told and (anywhere or _is_after(line, first))
        elif line.kind == "exception" and not told:
            lost[rank] = False
    return {rank for rank, only in lost.items() if only}
