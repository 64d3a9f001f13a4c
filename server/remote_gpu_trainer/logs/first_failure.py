"""Find the rank that failed first.

A rank's own fault counts most, then the launcher's word, then a silence, and last a timeout. A
rank that loses a peer, or waits for one until time runs out, fails too, and often earlier in the
log. Such failures are consequences as long as any rank has a fault of its own, was ended by a
signal, or said nothing at all while the others waited for it. A rank that trains on has not failed
yet, and a logged "error" counts less than the rank that the others wait for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .launcher_summary import ABORT, TERM, Summary, summary_of
from .lines import APART, Line, says_failure
from .survivors import is_report

_STEP = re.compile(r"\b(?:step|iter(?:ation)?|it|batch)\b\D{0,4}(\d{1,9})", re.I)
_NAMED = re.compile(r"Rank (\d{1,5}) failed to pass monitoredBarrier")
_ENQUEUED = re.compile(r"last enqueued (?:NCCL )?work: (\d{1,12})")
_WAITED_IN = re.compile(r"WorkNCCL\(SeqNum=(\d{1,12})")
_COLLECTIVE = re.compile(
    r"Watchdog caught collective|collective operation timeout|Timeout at NCCL work", re.I
)
# Compiled on first use.
# "[PG ID 0 PG GUID 0(default_pg) Rank 3] Exception (…) detected by watchdog"
_ITSELF = r"\bRank (\d{1,5})\]"
_FINISHED = (
    r"(?i)\b(?:train|run|job|fit|script|program)\w{0,8}\b"
    r".{0,40}\b(?:finished|completed?|done|stopped)\b"
    r"|^\W*(?:all )?(?:finished|completed?|done)\b(?:\W*$| in \d)"
)


@dataclass(frozen=True)
class Failure:
    """What ended a rank, or seems to have ended it.

    `secondary`: a survivor may say this when a peer is gone. `frames`: the calls of its traceback,
    outermost first.
    """

    line: Line
    secondary: bool
    frames: tuple[Line, ...] = ()


def attempt_of(source: str) -> int | None:
    """Return which of torchrun's attempts wrote a log: 1 for "attempt_1/0/stderr.log"."""
    number = source.partition("attempt_")[2].partition("/")[0]
    return int(number) if number.isdecimal() else None


def first_failure(
    failures: list[Failure], lines: list[Line], silent: frozenset[int] = frozenset()
) -> Line | None:
    """Return the line to believe, with its rank where one is known.

    None when nothing failed and no rank is behind the others. `silent` are the ranks that left no
    line.
    """
    failures, lines = _first_attempt(failures, lines)
    summary = summary_of(lines)
    ranks = {line.rank for line in lines if line.rank is not None}
    if not failures and not summary.ended:
        return _behind(lines)
    own = [f for f in failures if not f.secondary]
    if own and len(ranks) < 2 and not summary.ended:
        return _earliest([f for f in own if f.line.rank is not None] or own)
    own = _lasting(own, failures, lines)
    killed = [
        rank
        for rank, (code, _) in summary.ended.items()
        if code is not None and code < 0 and code != TERM
    ]
    victims = _victims(failures, [rank for rank in killed if summary.ended[rank][0] == ABORT])
    sure = [f for f in own if not only_reports(f)]
    faulty = {f.line.rank for f in sure if f.line.rank is not None}
    if (
        summary.root is not None
        and summary.root not in victims
        and summary.root in {f.line.rank for f in own}
    ):
        return _of_rank(summary.root, sure if summary.root in faulty else own)
    killed = [rank for rank in killed if rank not in victims]
    if killed:
        return _at_end(summary.root if summary.root in killed else killed[0], summary)
    if faulty:
        return _earliest([f for f in sure if f.line.rank in faulty])
    unsaid = [f for f in own if f.line.rank is None and f.line.kind == "exception"]
    if unsaid and summary.root is not None and summary.ended[summary.root][0] == 1:
        # The exception that ended it was printed without its rank.
        return _with_rank(_earliest(unsaid), summary.root)
    others = [f for f in failures if f.secondary or f.line.rank is None]
    named = (
        _waited_for(others, lines, ranks | silent if failures else ranks, summary)
        if others or not own
        else None
    )
    return named or _last_resort(failures, own, summary, victims)


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
            and line.kind in ("plain", "message", *APART)
            and len(steps.get(key, ())) < 2
            and _STEP.search(line.text)
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
    return failure.line.kind == "failure" and not failure.frames and is_report(failure.line.text)


def _victims(failures: list[Failure], aborted: list[int]) -> set[int]:
    """Those of the aborted ranks that their own watchdog ended, after too long a wait."""
    gave_up = (
        {who(f.line) for f in failures if _COLLECTIVE.search(f.line.text)} if aborted else set()
    )
    return gave_up & set(aborted)


def who(line: Line) -> int | None:
    """Return the rank of a line, from its prefix or from what PyTorch's watchdog says."""
    if line.rank is not None:
        return line.rank
    found = re.search(_ITSELF, line.text)
    return int(found[1]) if found else None


def _with_rank(line: Line, rank: int) -> Line:
    return (
        line
        if line.rank == rank
        else Line(line.source, line.number, rank, line.text, line.kind, line.time)
    )


def _of_rank(rank: int, failures: list[Failure]) -> Line:
    own = [f for f in failures if f.line.rank == rank]
    own = [f for f in own if f.line.kind == "exception"] or own
    return own[0].line if own[0].frames else own[-1].line


def _at_end(rank: int, summary: Summary) -> Line:
    """A rank that left nothing but its place in the summary."""
    line = summary.ended[rank][1]
    return Line(line.source, line.number, rank, line.text, "failure", line.time)


def _form(time: str) -> tuple[str, str]:
    """How a time is written, and its zone. Only times that share both compare as texts."""
    return re.sub(r"\d", "0", time[:19]), time[19:].lstrip(".,0123456789")


def _earliest(failures: list[Failure]) -> Line:
    pool = [f for f in failures if f.line.kind == "exception"] or failures
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


def _waited_for(
    failures: list[Failure], lines: list[Line], ranks: set[int], summary: Summary
) -> Line | None:
    """The rank that the others name, that is behind, or that says nothing.

    For failures that all are lost peers or timeouts.
    """
    for line in lines:
        found = _NAMED.search(line.text) if "monitoredBarrier" in line.text else None
        if found:
            return _with_rank(line, int(found[1]))
    behind = _fewest(_ENQUEUED, "enqueued", lines) or _fewest(_WAITED_IN, "WorkNCCL(SeqNum=", lines)
    if behind:
        return behind
    known = ranks | set(summary.ended)
    if summary.ended:
        known |= set(range(max(known)))
    silent = known - {who(f.line) for f in failures}
    # Ended, but not by the launcher.
    unasked = {rank for rank in silent if summary.ended.get(rank, (TERM, None))[0] != TERM}
    for group in (silent & {summary.root}, unasked, silent):
        if len(group) == 1:
            rank = group.pop()
            said = [line for line in lines if line.rank == rank]
            if said:
                return said[-1]
            return (
                _at_end(rank, summary)
                if rank in summary.ended
                else Line(
                    failures[0].line.source,
                    failures[0].line.number,
                    rank,
                    f"rank {rank} says nothing",
                )
            )
    return None


def _fewest(pattern: re.Pattern, hint: str, lines: list[Line]) -> Line | None:
    """The first line of the one rank that had reached fewer collectives than every other."""
    reached: dict[int, tuple[int, Line]] = {}
    for line in reversed(lines):
        found = pattern.search(line.text) if hint in line.text else None
        rank = who(line) if found else None
        if rank is not None:
            reached[rank] = (int(found[1]), _with_rank(line, rank))
    counts = sorted(count for count, _ in reached.values())
    return (
        min(reached.values(), key=lambda pair: pair[0])[1]
        if len(counts) > 1 and counts[0] < counts[1]
        else None
    )


def _last_resort(
    failures: list[Failure], own: list[Failure], summary: Summary, victims: set[int]
) -> Line | None:
    if summary.root is not None and (summary.root not in victims or not own):
        of_root = [f for f in failures if f.line.rank == summary.root]
        return _of_rank(summary.root, failures) if of_root else _at_end(summary.root, summary)
    # These end a run; other timeouts are often caught.
    collective = [f for f in failures if _COLLECTIVE.search(f.line.text)]
    return _earliest(own or collective or failures) if failures else None


def _behind(lines: list[Line]) -> Line | None:
    """Of several ranks without a failure the one whose last step is the lowest.

    None if it isn't alone in that, or says afterwards that it finished.
    """
    last: dict[int, tuple[int, Line]] = {}
    for line in lines:
        found = _STEP.search(line.text) if line.rank is not None else None
        if found:
            last[line.rank] = (int(found[1]), line)
    if len(last) < 2:
        return None
    steps = sorted(step for step, _ in last.values())
    slowest = min(last.values(), key=lambda item: item[0])[1]
    after = lines[lines.index(slowest) + 1 :] if steps[0] < steps[1] else []
    finished = any(line.rank == slowest.rank and re.search(_FINISHED, line.text) for line in after)
    return slowest if steps[0] < steps[1] and not finished else None


def is_step(text: str) -> bool:
    """Return whether a line reports a step and no failure.

    A rank that `first_failure` names by such a line is only behind.
    """
    return bool(_STEP.search(text)) and not says_failure(text)
