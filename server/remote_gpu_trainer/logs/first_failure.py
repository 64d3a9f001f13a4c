"""Find the rank that failed first.

A rank's own fault counts most, then the launcher's word, then a silence, and last a timeout. A
rank that loses a peer, or waits for one until time runs out, fails too, and often earlier in the
log. Such failures are consequences as long as any rank has a fault of its own, was ended by a
signal, or said nothing at all while the others waited for it. A rank that trains on has not failed
yet, and a logged "error" counts less than the rank that the others wait for.
"""

from __future__ import annotations

import re

from .kinds import APART, EXCEPTION, FAILURE, MESSAGE, PLAIN
from .lines import Line
from .waiting import (
    FOLDED,
    Failure,
    at_end,
    is_stuck,
    late_rank,
    odd_one,
    victims_of,
    waited_for,
)
from .wrapping import TERM, Summary, summary_of


def attempt_of(source: str) -> int | None:
    """Return which of torchrun's attempts wrote a log: 1 for "attempt_1/0/stderr.log"."""
    number = source.partition("attempt_")[2].partition("/")[0]
    return int(number) if number.isdecimal() else None


def first_failure(
    failures: list[Failure], lines: list[Line], silent: frozenset[int] = frozenset()
) -> Line | None:
    """Return the line to believe, with its rank where one is known.

    None when nothing failed and no rank is behind the others. The line has no rank where several
    ranks failed alike, or all only lost another and none is set apart. `silent` are the ranks that
    left no line.
    """
    failures, lines = _first_attempt(failures, lines)
    summary = summary_of(lines)
    ranks = {line.rank for line in lines if line.rank is not None}
    if not failures and not summary.ended:
        return late_rank(lines)
    own = [f for f in failures if not f.secondary]
    odd = odd_one(lines)
    if odd:
        line, rank = odd
        return line.of_rank(rank)
    if own and len(ranks) < 2 and not summary.ended:
        return _earliest([f for f in own if f.line.rank is not None] or own)
    own = _lasting(own, failures, lines)
    victims = victims_of(failures, summary)
    sure = [f for f in own if not only_reports(f)]
    faulty = {f.line.rank for f in sure if f.line.rank is not None}
    if (
        summary.root is not None
        and summary.root not in victims
        and summary.root in {f.line.rank for f in own}
    ):
        return _alone(_of_rank(summary.root, sure if summary.root in faulty else own), own)
    killed = [
        rank
        for rank, (code, _) in summary.ended.items()
        if code is not None
        and code < 0
        and code != TERM
        and rank not in victims
        and not is_stuck(rank, summary, failures)
    ]
    if killed:
        rank = summary.root if summary.root in killed else killed[0]
        if rank in faulty:
            return _alone(_of_rank(rank, sure), own)
        codes = [summary.ended[one][0] for one in killed]
        line = at_end(rank, summary)
        return line.of_rank(None) if codes.count(codes[killed.index(rank)]) > 1 else line
    if faulty:
        return _alone(_earliest([f for f in sure if f.line.rank in faulty]), own)
    unsaid = [f for f in own if f.line.rank is None and f.line.kind == EXCEPTION]
    if unsaid and summary.root is not None and summary.ended[summary.root][0] == 1:
        # The exception that ended it was printed without its rank.
        return _earliest(unsaid).of_rank(summary.root)
    others = [f for f in failures if f.secondary or f.line.rank is None]
    named = (
        waited_for(others, lines, ranks | silent if failures else ranks, summary)
        if others or not own
        else None
    )
    return named or _last_resort(failures, own, summary, ranks | silent)


def _first_attempt(failures: list[Failure], lines: list[Line]) -> tuple[list[Failure], list[Line]]:
    """What the first of torchrun's attempts left in which anything failed.

    A log that names no attempt, such as the launcher's own, belongs to the last one.
    """
    chosen = min(
        (number for number in [attempt_of(f.line.source) for f in failures] if number is not None),
        default=None,
    )
    if chosen is None:
        return failures, lines
    attempts = {source: attempt_of(source) for source in {line.source for line in lines}}
    last = max(number for number in attempts.values() if number is not None)
    wanted = (chosen, None) if chosen == last else (chosen,)
    return [f for f in failures if attempts[f.line.source] in wanted], [
        line for line in lines if attempts[line.source] in wanted
    ]


def _lasting(own: list[Failure], failures: list[Failure], lines: list[Line]) -> list[Failure]:
    """Without what a rank survived: it logged steps afterwards, and failed later.

    Steps alone may come from a buffer that was flushed at the end.
    """
    since = {
        (f.line.source, f.line.rank): f.line.number
        for f in reversed(own)
        if f.line.rank is not None
    }
    # The numbers of the last two lines that tell a step.
    steps: dict[tuple[str, int | None], list[int]] = {}
    for line in reversed(lines[lines.index(own[0].line) :]) if since else ():
        key = (line.source, line.rank)
        if (
            line.number > since.get(key, line.number)
            and line.kind in (PLAIN, MESSAGE, *APART)
            and len(steps.get(key, ())) < 2
            and line.says("step")
        ):
            steps.setdefault(key, []).append(line.number)
    ends = {(f.line.source, f.line.rank): f.line.number for f in failures}

    def went_on(failure: Failure) -> bool:
        after = steps.get((failure.line.source, failure.line.rank), ())
        return len(after) == 2 and after[1] > failure.line.number

    final = [f for f in own if not went_on(f)]
    if any(f.line.rank is not None and not only_reports(f) for f in final):
        return final
    return [
        f
        for f in own
        if not went_on(f) or ends[f.line.source, f.line.rank] < steps[f.line.source, f.line.rank][0]
    ]


def only_reports(failure: Failure) -> bool:
    """Return whether a failure is a line that logs an error, which need not end anything."""
    return failure.line.kind == FAILURE and not failure.frames and not failure.line.says("end")


def _alone(line: Line, own: list[Failure]) -> Line:
    """The line, without its rank where another rank failed alike."""
    shape = FOLDED.sub("#", line.text.strip())
    alike = {line.rank} | {
        f.line.rank for f in own if FOLDED.sub("#", f.line.text.strip()) == shape
    }
    return line if len(alike - {None}) < 2 else line.of_rank(None)


def _of_rank(rank: int, failures: list[Failure]) -> Line:
    own = [f for f in failures if f.line.rank == rank]
    own = [f for f in own if f.line.kind == EXCEPTION] or own
    return own[0].line if own[0].frames else own[-1].line


def _form(time: str) -> tuple[str, str]:
    """How a time is written, and its zone. Only times that share both compare as texts."""
    return re.sub(r"\d", "0", time[:19]), time[19:].lstrip(".,0123456789")


def _earliest(failures: list[Failure]) -> Line:
    pool = [f for f in failures if f.line.kind == EXCEPTION] or failures
    if (
        len({f.line.rank for f in pool}) > 1
        and all(f.line.time for f in pool)
        and len({_form(f.line.time) for f in pool}) == 1
    ):
        return min(pool, key=lambda f: f.line.time).line
    per_rank: dict[int | None, Line] = {}
    for failure in pool:
        if failure.frames or failure.line.rank not in per_rank:
            per_rank[failure.line.rank] = failure.line
    return next(iter(per_rank.values())) if len(per_rank) > 1 else pool[-1].line


def _last_resort(
    failures: list[Failure], own: list[Failure], summary: Summary, ranks: set[int]
) -> Line | None:
    """A failure that its own rank need not have caused; without a rank where only victims speak."""
    told = [f for f in own if not f.line.says("exit", "wrapper")]
    if told or (own and len(own) == len(failures)):
        return _alone(_earliest(told or own), own)
    if summary.root is not None and not any(f.line.rank == summary.root for f in failures):
        return at_end(summary.root, summary)
    if not failures:
        return None
    # These end a run; other timeouts are often caught.
    line = _earliest(
        [f for f in failures if f.line.says("waited")]
        or [f for f in failures if f.secondary]
        or failures
    )
    return line if len(ranks | set(summary.ended)) < 2 else line.of_rank(None)
