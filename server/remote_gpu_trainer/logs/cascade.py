"""Leave out the words of the ranks that only lost the one that failed. Python 3.8."""

from __future__ import annotations

from dataclasses import replace

from .evidence import Evidence
from .kinds import ASIDE, CONSEQUENCE, EXCEPTION, FAILURE, FRAME, TRACE
from .lines import Line
from .waiting import who
from .wrapping import ABORT, TERM, summary_of

# The entry about a job of which one rank crashed. Where only the words of the other ranks find
# anything, it is the right one of all entries that explain these words.
CRASHED = "D20"
# Kinds of lines that tell of an end, and with the stacks that belong to them.
_FAILED = (EXCEPTION, FAILURE, CONSEQUENCE)
_TALK = (TRACE, FRAME, *_FAILED)


def without_cascade(evidence: Evidence) -> Evidence:
    """Return the evidence without the words of ranks that only lost the one that failed.

    What torchrun says of the ranks that it killed itself is left out too. Returns `evidence` itself
    where no rank failed by itself, or none lost it.

    A job of many ranks ends with the words of those that waited: a watchdog's timeout, a closed
    connection, the end of their own process. These are longer than what the first rank said, and
    the same under every cause. So the look-up judges a log without them first, and as a whole where
    that finds nothing.
    """
    evidence = _without_clean_up(evidence)
    first = evidence.first
    if first is None or first.says("secondary", "lost peer"):
        return evidence
    killed = not _is_crash(first) and _is_killed(first, evidence.lines)
    if not killed and not _is_crash(first):
        return evidence
    lost = _lost(evidence, first, anywhere=killed)
    if not lost:
        return evidence
    dropped = _words_of(lost, evidence, first, anywhere=killed)
    return replace(
        evidence,
        lines=[line for line in evidence.lines if line not in dropped],
        failures=[failure for failure in evidence.failures if failure.line not in dropped],
        decisive=[line for line in evidence.decisive if line not in dropped],
    )


def _without_clean_up(evidence: Evidence) -> Evidence:
    """Without the lines of torchrun's summary about ranks that it killed itself."""
    kept = [
        line
        for line in evidence.lines
        if line.kind != CONSEQUENCE or not line.says("ended rank", "ended code", "ended signal")
    ]
    return evidence if len(kept) == len(evidence.lines) else replace(evidence, lines=kept)


def _is_crash(first: Line) -> bool:
    """Whether a rank says itself what failed.

    "terminate called" is how C++ ends a process, whatever the cause.
    """
    return first.kind == EXCEPTION or (
        first.kind == FAILURE and "terminate called" not in first.text
    )


def _words_of(lost: set[int], evidence: Evidence, first: Line, anywhere: bool) -> set[Line]:
    """The lines of the ranks that lost another one, from the first that tells of it.

    A line without a rank is theirs where a watchdog names one of them in it, or where it tells of a
    lost peer or a timeout; only after the first failure unless `anywhere`.
    """
    since: dict[tuple[str, int | None], int] = {}
    for line in evidence.lines:
        tells = line.kind in _TALK or (line.kind == ASIDE and line.says("secondary"))
        if line.rank in lost and tells:
            since.setdefault((line.source, line.rank), line.number)

    def is_theirs(line: Line) -> bool:
        if line.rank is None:
            return (anywhere or _is_after(line, first)) and (who(line) in lost or _is_end(line))
        return line.number >= since.get((line.source, line.rank), line.number + 1)

    return {line for line in evidence.lines if is_theirs(line)}


def _is_killed(first: Line, lines: list[Line]) -> bool:
    """Whether a signal from outside the job ended the rank, and nothing more is known of it."""
    for rank, (code, line) in summary_of(lines).ended.items():
        if rank == first.rank:
            return (
                code is not None
                and code < 0
                and code not in (ABORT, TERM)
                and line.number == first.number
            )
    return False


def _is_end(line: Line) -> bool:
    """Whether a line without a rank tells of a lost peer or a timeout, or belongs to its stack."""
    return line.says("native frame") or (line.kind in _FAILED and line.says("secondary"))


def _is_after(line: Line, first: Line) -> bool:
    return line.source != first.source or line.number > first.number


def _lost(evidence: Evidence, first: Line, anywhere: bool) -> set[int]:
    """The other ranks that failed after the first one, with no exception of their own.

    Their first failure tells of a lost peer or a timeout. `anywhere`: the first failure stands in
    a summary at the end of the log, so the others may come before it.
    """
    lost: dict[int, bool] = {}
    for line in evidence.lines:
        rank = who(line) if line.kind in _FAILED else None
        if rank is None or rank == first.rank:
            continue
        is_loss = line.kind == CONSEQUENCE or line.says("secondary")
        if rank not in lost:
            lost[rank] = is_loss and (anywhere or _is_after(line, first))
        elif line.kind == EXCEPTION and not is_loss:
            lost[rank] = False
    return {rank for rank, only_lost in lost.items() if only_lost}
