"""Leave out the words of the ranks that only lost the one that failed. Python 3.8."""

from __future__ import annotations

from dataclasses import replace

from .evidence import Evidence
from .kinds import ASIDE, CONSEQUENCE, EXCEPTION, FAILURE, FRAME, TRACE
from .lines import Line
from .waiting import who
from .wrapping import ABORT, TERM, summary_of

# The entry about a job of which one rank crashed. Of all entries that explain the words of the
# others it is the right one.
CRASHED = "D20"
_FAILED = (EXCEPTION, FAILURE, CONSEQUENCE)
_TALK = (TRACE, FRAME, *_FAILED)


def without_cascade(found: Evidence) -> Evidence:
    """Return the evidence without the words of ranks that only lost the one that failed.

    What torchrun says of the ranks that it killed itself is left out too. Returns `found` itself
    where no rank failed by itself, or none lost it.

    A job of many ranks ends with the words of those that waited: a watchdog's timeout, a closed
    connection, the end of their own process. These are longer than what the first rank said, and
    the same under every cause. So the look-up judges a log without them first, and as a whole where
    that finds nothing.
    """
    found = _without_clean_up(found)
    first = found.first
    if first is None or first.says("secondary", "lost peer"):
        return found
    crashed = first.kind == EXCEPTION or (
        first.kind == FAILURE and "terminate called" not in first.text
    )
    killed = not crashed and _is_killed(first, found.lines)
    lost = _lost(found, first, anywhere=killed) if crashed or killed else set()
    if not lost:
        return found
    since: dict[tuple[str, int | None], int] = {}
    for line in found.lines:
        if line.rank in lost and (
            line.kind in _TALK or (line.kind == ASIDE and line.says("secondary"))
        ):
            since.setdefault((line.source, line.rank), line.number)

    def is_theirs(line: Line) -> bool:
        if line.rank is None:
            return (killed or _is_after(line, first)) and (who(line) in lost or _is_end(line))
        return line.number >= since.get((line.source, line.rank), line.number + 1)

    dropped = {line for line in found.lines if is_theirs(line)}
    return replace(
        found,
        lines=[line for line in found.lines if line not in dropped],
        failures=[failure for failure in found.failures if failure.line not in dropped],
        decisive=[line for line in found.decisive if line not in dropped],
    )


def _without_clean_up(found: Evidence) -> Evidence:
    kept = [
        line
        for line in found.lines
        if line.kind != CONSEQUENCE or not line.says("ended rank", "ended code", "ended signal")
    ]
    return found if len(kept) == len(found.lines) else replace(found, lines=kept)


def _is_killed(first: Line, lines: list[Line]) -> bool:
    """Whether a signal from outside the job ended the rank, and nothing more is known of it."""
    code, told = summary_of(lines).ended.get(first.rank, (None, None))
    return (
        code is not None and code < 0 and code not in (ABORT, TERM) and told.number == first.number
    )


def _is_end(line: Line) -> bool:
    """Whether a line without a rank tells of a lost peer or a timeout, or belongs to its stack."""
    return line.says("native frame") or (line.kind in _FAILED and line.says("secondary"))


def _is_after(line: Line, first: Line) -> bool:
    return line.source != first.source or line.number > first.number


def _lost(found: Evidence, first: Line, anywhere: bool) -> set[int]:
    """The other ranks that failed after the first one, with no exception of their own.

    Their first failure tells of a lost peer or a timeout. `anywhere`: the first failure stands in
    a summary at the end of the log, so the others may come before it.
    """
    lost: dict[int, bool] = {}
    for line in found.lines:
        rank = who(line) if line.kind in _FAILED else None
        if rank is None or rank == first.rank:
            continue
        told = line.kind == CONSEQUENCE or line.says("secondary")
        if rank not in lost:
            lost[rank] = told and (anywhere or _is_after(line, first))
        elif line.kind == EXCEPTION and not told:
            lost[rank] = False
    return {rank for rank, only in lost.items() if only}
