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

from .collectives import behind, odd_one, who
from .detectors import FAILS, says
from .launcher import ABORT, KILL, TERM, Summary, summary_of
from .lines import APART, Line

_FOLDED = re.compile(r"\d+|0x[0-9a-f]+")
_SPOKEN = ("plain", "message", "warning", *APART)
LAST = 3  # lines at a rank's end in which it may say what no other rank says
SHOWN = 8  # ranks that a sentence names


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

    None when nothing failed and no rank is behind the others. The line has no rank where several
    ranks failed alike, or all only lost another and none is set apart. `silent` are the ranks that
    left no line.
    """
    failures, lines = _first_attempt(failures, lines)
    summary = summary_of(lines)
    ranks = {line.rank for line in lines if line.rank is not None}
    if not failures and not summary.ended:
        return _behind(lines)
    own = [f for f in failures if not f.secondary]
    odd = odd_one(lines)
    if odd:
        line, rank = odd
        return line.of_rank(rank)
    if own and len(ranks) < 2 and not summary.ended:
        return _earliest([f for f in own if f.line.rank is not None] or own)
    own = _lasting(own, failures, lines)
    victims = _victims(failures, summary)
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
        and not _is_stuck(rank, summary, failures)
    ]
    if killed:
        rank = summary.root if summary.root in killed else killed[0]
        if rank in faulty:
            return _alone(_of_rank(rank, sure), own)
        codes = [summary.ended[one][0] for one in killed]
        line = _at_end(rank, summary)
        return line.of_rank(None) if codes.count(codes[killed.index(rank)]) > 1 else line
    if faulty:
        return _alone(_earliest([f for f in sure if f.line.rank in faulty]), own)
    unsaid = [f for f in own if f.line.rank is None and f.line.kind == "exception"]
    if unsaid and summary.root is not None and summary.ended[summary.root][0] == 1:
        # The exception that ended it was printed without its rank.
        return _earliest(unsaid).of_rank(summary.root)
    others = [f for f in failures if f.secondary or f.line.rank is None]
    named = (
        _waited_for(others, lines, ranks | silent if failures else ranks, summary)
        if others or not own
        else None
    )
    return named or _last_resort(failures, own, summary, ranks | silent)


def only_victims(
    failures: list[Failure], lines: list[Line], silent: frozenset[int] = frozenset()
) -> str:
    """Return one sentence on who only lost another rank and who says nothing; else "".

    For logs of several ranks in which no rank tells of a failure of its own.
    """
    summary = summary_of(lines)
    victims = {who(f.line) for f in failures} - {None}
    others = {line.rank for line in lines if line.rank is not None} | silent | set(summary.ended)
    others -= victims
    if not victims or len(victims | others) < 2 or not all(f.secondary for f in failures):
        return ""
    said = f"{_named(victims)} only lost another rank or waited for one"
    return f"{said}; no failure is seen on {_named(others).lower()}." if others else f"{said}."


def _named(ranks: set[int]) -> str:
    shown = ", ".join(map(str, sorted(ranks)[:SHOWN]))
    more = f" and {len(ranks) - SHOWN} more" if len(ranks) > SHOWN else ""
    return f"{'Rank' if len(ranks) == 1 else 'Ranks'} {shown}{more}"


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
    return failure.line.kind == "failure" and not failure.frames and not failure.line.says("end")


def _victims(failures: list[Failure], summary: Summary) -> set[int]:
    """The aborted ranks that only lost another one, or waited for it too long.

    Gloo ends a process by `terminate called` when another rank is gone, NCCL's watchdog does it
    after its time.
    """
    said: dict[int | None, list[Failure]] = {}
    for failure in failures:
        said.setdefault(who(failure.line), []).append(failure)
    return {
        rank
        for rank, (code, _) in summary.ended.items()
        if code == ABORT
        and rank in said
        and (all(f.secondary for f in said[rank]) or any(f.line.says("waited") for f in said[rank]))
    }


def clean_up(failures: list[Failure], lines: list[Line]) -> list[Line]:
    """Return the lines of torchrun's summary about signals that are no cause.

    Those of ranks that it killed itself, and of ranks that aborted because they lost another one.
    """
    summary = summary_of(lines)
    victims = _victims(failures, summary)
    return [
        line
        for rank, block in summary.blocks.items()
        if rank in victims or _is_stuck(rank, summary, failures)
        for line in block
    ]


def _is_stuck(rank: int, summary: Summary, failures: list[Failure]) -> bool:
    """Whether the launcher killed the rank when it cleaned up, rather than somebody before.

    Either the launcher says so; or it saw another rank end first, and the others waited until
    their time was over. A killed rank's connections are closed at once.
    """
    if rank in summary.stuck:
        return True
    waited = [f for f in failures if f.secondary and f.line.rank not in (None, rank)]
    return (
        summary.ended[rank][0] == KILL
        and summary.root not in (None, rank)
        and bool(waited)
        and not any(f.line.says("lost peer") for f in waited)
    )


def _alone(line: Line, own: list[Failure]) -> Line:
    """The line, without its rank where another rank failed alike."""
    shape = _FOLDED.sub("#", line.text.strip())
    alike = {line.rank} | {
        f.line.rank for f in own if _FOLDED.sub("#", f.line.text.strip()) == shape
    }
    return line if len(alike - {None}) < 2 else line.of_rank(None)


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
        found = line.sign("barrier")
        if found:
            return line.of_rank(int(found[0]))
    late = behind(lines)
    if late:
        return late[0].of_rank(late[1])
    known = ranks | set(summary.ended)
    if summary.ended:
        known |= set(range(max(known)))
    silent = known - {who(f.line) for f in failures if not f.line.says("notified")}
    said = {rank: [line for line in lines if line.rank == rank] for rank in sorted(known)}
    # Ended, but not by the launcher.
    unasked = {rank for rank in silent if summary.ended.get(rank, (TERM, None))[0] != TERM}
    ended_well = silent - set(summary.ended) if summary.ended else set()
    groups = [silent & {summary.root}, unasked, ended_well, silent]
    if len(said) > 1 and all(f.secondary for f in failures):
        groups += [_finished(silent, said), _ahead_or_behind(said), _other_words(said)]
    for group in groups:
        if len(group) == 1:
            rank = group.pop()
            own = [line for line in said[rank] if line.kind not in ("trace", "frame")]
            if own:
                return own[-1]
            if rank in summary.ended and not _is_stuck(rank, summary, failures):
                return _at_end(rank, summary)
            line = failures[0].line
            return Line(line.source, line.number, rank, f"rank {rank} says nothing")
    return None


def _finished(ranks: set[int], said: dict[int, list[Line]]) -> set[int]:
    """Those of these ranks that say at their end that they are done."""
    return {rank for rank in ranks if any(line.says("done") for line in said[rank][-LAST:])}


def _ahead_or_behind(said: dict[int, list[Line]]) -> set[int]:
    """The one of at least three ranks whose last step isn't that of all others."""
    last: dict[int, str] = {}
    for rank, lines in said.items():
        found = next(filter(None, (line.sign("step") for line in reversed(lines))), None)
        if found:
            last[rank] = found[0]
    for step in set(last.values()):
        at = {rank for rank, other in last.items() if other == step}
        if len(at) == 1 and len(last) > 2 and len(set(last.values())) == 2:
            return at
    return set()


def _other_words(said: dict[int, list[Line]]) -> set[int]:
    """The one rank that says at its end, once, what no other rank says."""
    shapes = {
        rank: [_FOLDED.sub("#", line.text) for line in lines if line.kind in _SPOKEN]
        for rank, lines in said.items()
    }
    if not all(shapes.values()):
        return set()
    return {
        rank
        for rank, own in shapes.items()
        if any(
            own.count(shape) == 1
            and not any(shape in others for other, others in shapes.items() if other != rank)
            for shape in own[-LAST:]
        )
    }


def _last_resort(
    failures: list[Failure], own: list[Failure], summary: Summary, ranks: set[int]
) -> Line | None:
    """A failure that its own rank need not have caused; without a rank where only victims speak."""
    if own:
        return _alone(_earliest(own), own)
    if summary.root is not None and not any(f.line.rank == summary.root for f in failures):
        return _at_end(summary.root, summary)
    if not failures:
        return None
    # These end a run; other timeouts are often caught.
    line = _earliest([f for f in failures if f.line.says("waited")] or failures)
    return line if len(ranks | set(summary.ended)) < 2 else line.of_rank(None)


def _behind(lines: list[Line]) -> Line | None:
    """Of several ranks without a failure the one whose last step is the lowest.

    None if it isn't alone in that, or says afterwards that it finished.
    """
    last: dict[int, tuple[int, Line]] = {}
    for line in lines:
        found = line.sign("step") if line.rank is not None else None
        if found:
            last[line.rank] = (int(found[0]), line)
    if len(last) < 2:
        return None
    steps = sorted(step for step, _ in last.values())
    slowest = min(last.values(), key=lambda item: item[0])[1]
    after = lines[lines.index(slowest) + 1 :] if steps[0] < steps[1] else []
    finished = any(line.rank == slowest.rank and line.says("done") for line in after)
    return slowest if steps[0] < steps[1] and not finished else None


def is_step(text: str) -> bool:
    """Return whether a text of an answer reports a step and no failure.

    A rank that `first_failure` names by such a line is only behind.
    """
    return says(text, "step") and not says(text, "exception", *FAILS)
