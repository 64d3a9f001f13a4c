"""Which rank failed first: its own fault before the launcher's word, that before a silence, and last of all a time-out.

A rank that loses a peer, or waits for one until time runs out, fails too, and often sooner in the log. So those are
consequences as long as any rank has a fault of its own, ended by a signal, or said nothing at all while the others waited for it.
"""

from __future__ import annotations

import re

from .lines import SAYS_SO, Line
from .records import record

_SECONDARY = (  # in lower case; plain texts are found ten times faster than one expression of them
    "connection reset", "connection closed", "connection refused", "closed by peer", "broken pipe", "recvvalue", "sigterm", "signal 15", "keyboardinterrupt",
    "watchdog", "timeout", "time out", "timedout", "timed out", "remote process exited", "abort", "heartbeat", "store", "sendbytes", "no error", "monitoredbarrier",
)  # fmt: skip
LOST_PEER = re.compile(
    r"connection (?:reset|closed)|closed by peer|broken pipe|sigterm|signal 15\b|exitcode\s*:\s*-15|remote process exited|sendbytes failed|recvvalue failed",
    re.I,
)
_ROOT = "Root Cause (first observed failure)"
_SUMMARY_RANK = re.compile(r"\s*rank\s*:\s*(\d{1,5})\b")
_SUMMARY_CODE = re.compile(r"\s*exitcode\s*:\s*(-?\d{1,5})\b")
_STEP = re.compile(r"\b(?:step|iter(?:ation)?|it|batch)\b\D{0,4}(\d{1,9})", re.I)
_NAMED = re.compile(r"Rank (\d{1,5}) failed to pass monitoredBarrier", re.I)
_ENQUEUED = re.compile(r"last enqueued (?:NCCL )?work: (\d{1,12})")
_COLLECTIVE = re.compile(r"Watchdog caught collective|collective operation timeout|Timeout at NCCL work", re.I)
TERM = -15  # the launcher ended it


@record
class Failure:
    """One thing that ended, or seems to have ended, a rank. Secondary: what survivors say when a peer is gone."""

    line: Line
    secondary: bool
    frames: tuple[Line, ...] = ()


@record
class Summary:
    """What a launcher says at the end: {rank: (exit code, the line that names it)}, and the rank that it saw first."""

    ended: dict[int, tuple[int | None, Line]]
    root: int | None


def is_secondary(text: str) -> bool:
    """Whether a line may only say that somebody else is gone, or that time ran out."""
    low = text[:SAYS_SO].lower()
    for told in _SECONDARY:
        if told in low:
            return True
    return False


def first_failure(failures: list[Failure], lines: list[Line]) -> Line | None:
    """The line to believe, with its rank where one is known; None when nothing failed and no rank is behind."""
    summary = _summary(lines)
    ranks = {line.rank for line in lines if line.rank is not None}
    if not failures and not summary.ended:
        return _behind(lines)
    own = [f for f in failures if not f.secondary]
    faulty = {f.line.rank for f in own if f.line.rank is not None}
    if summary.root in faulty:
        return _of_rank(summary.root, own)
    by_signal = [rank for rank, (code, _) in summary.ended.items() if code is not None and code < 0 and code != TERM]
    if by_signal:
        return _at_end(summary.root if summary.root in by_signal else by_signal[0], summary)
    if faulty or (own and len(ranks) < 2 and not summary.ended):
        return _earliest([f for f in own if f.line.rank in faulty] or own)
    return _waited_for(failures, lines, ranks, summary) or _last_resort(failures, own, summary)


def _summary(lines: list[Line]) -> Summary:
    ended: dict[int, tuple[int | None, Line]] = {}
    root, rank, in_root = None, None, False
    for line in lines:
        if _ROOT in line.text:
            in_root = True
        found = _SUMMARY_RANK.match(line.text) if "rank" in line.text else None
        if found:
            rank = int(found[1])
            ended[rank] = (None, line)
            if in_root and root is None:
                root = rank
            continue
        found = _SUMMARY_CODE.match(line.text) if "exitcode" in line.text else None
        if found and rank is not None:
            ended[rank] = (int(found[1]), ended[rank][1])
            rank = None
    return Summary(ended, root)


def _of_rank(rank: int, failures: list[Failure]) -> Line:
    own = [f for f in failures if f.line.rank == rank]
    own = [f for f in own if f.line.kind == "exception"] or own
    return own[0].line if own[0].frames else own[-1].line


def _at_end(rank: int, summary: Summary) -> Line:
    """A rank that left nothing but its place in the summary."""
    line = summary.ended[rank][1]
    return Line(line.source, line.number, rank, line.text, "failure", line.time)


def _earliest(failures: list[Failure]) -> Line:
    pool = [f for f in failures if f.line.kind == "exception"] or failures
    if len({f.line.rank for f in pool}) > 1 and all(f.line.time for f in pool):
        return min(pool, key=lambda f: f.line.time).line
    per_rank: dict[int | None, Line] = {}
    for failure in pool:
        if failure.frames or failure.line.rank not in per_rank:
            per_rank[failure.line.rank] = failure.line
    return next(iter(per_rank.values())) if len(per_rank) > 1 else pool[-1].line


def _waited_for(failures: list[Failure], lines: list[Line], ranks: set[int], summary: Summary) -> Line | None:
    """Every failure is a lost peer or a time-out: the rank that the others name, that is behind, or that says nothing."""
    for line in lines:
        found = _NAMED.search(line.text)
        if found:
            return Line(line.source, line.number, int(found[1]), line.text, line.kind, line.time)
    enqueued = {line.rank: (int(_ENQUEUED.search(line.text)[1]), line) for line in reversed(lines) if line.rank is not None and _ENQUEUED.search(line.text)}
    counts = sorted(count for count, _ in enqueued.values())
    if len(counts) > 1 and counts[0] < counts[1]:
        return min(enqueued.values(), key=lambda pair: pair[0])[1]
    known = ranks | set(summary.ended)
    if summary.ended:
        known |= set(range(max(known)))
    silent = known - {f.line.rank for f in failures}
    unasked = {rank for rank in silent if summary.ended.get(rank, (TERM, None))[0] != TERM}  # ended, but not by the launcher
    for group in (silent & {summary.root}, unasked, silent):
        if len(group) == 1:
            rank = group.pop()
            said = [line for line in lines if line.rank == rank]
            if said:
                return said[-1]
            return (
                _at_end(rank, summary) if rank in summary.ended else Line(failures[0].line.source, failures[0].line.number, rank, f"rank {rank} says nothing")
            )
    return None


def _last_resort(failures: list[Failure], own: list[Failure], summary: Summary) -> Line | None:
    if summary.root is not None:
        of_root = [f for f in failures if f.line.rank == summary.root]
        return _of_rank(summary.root, failures) if of_root else _at_end(summary.root, summary)
    collective = [f for f in failures if _COLLECTIVE.search(f.line.text)]  # ends a run; other time-outs are often caught
    return _earliest(own or collective or failures) if failures else None


def _behind(lines: list[Line]) -> Line | None:
    """No failure in any log: of several ranks the one whose last step is the lowest, if one is alone in that."""
    last: dict[int, tuple[int, Line]] = {}
    for line in lines:
        found = _STEP.search(line.text) if line.rank is not None else None
        if found:
            last[line.rank] = (int(found[1]), line)
    if len(last) < 2:
        return None
    steps = sorted(step for step, _ in last.values())
    return min(last.values(), key=lambda item: item[0])[1] if steps[0] < steps[1] else None
