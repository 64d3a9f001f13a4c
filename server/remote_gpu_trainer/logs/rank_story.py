"""Say of a job's ranks where each stood, which were lost, and what became of the one to look at.

Where no rank tells of a failure of its own, the others' words decide: a rank whose connections were
closed is gone, one for which the others waited until their time was over lives and is stuck, and
one that lost the others itself came too late. Standard library, Python 3.8.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..numbers.entries import (
    DESYNC,
    LOG_BREAKS_OFF,
    NATIVE_CRASH,
    RANK_0_ALONE,
    RANK_MISSING,
    UNEVEN_BATCHES,
)
from .detectors import template_of
from .ends import TIMED_OUT, sacct
from .evidence import Evidence, Failure
from .flight_recorder import name_ranks
from .kinds import SPOKEN, WARNING
from .launcher import ABORT, TERM, Summary
from .lines import Line
from .rank_places import Place, camps_of, describe_places, is_own_frame, places_of
from .ranks import LAST, is_stuck, odd_one, own_failures, who

MOST_CULPRITS = 4  # lines of them that are told
# op.preamble.length <= op.nbytes. 64 vs 32.     gloo: what came, and what the call has room for
_SIZES = re.compile(r"op\.preamble\.length <= op\.nbytes\. (\d{1,12}) vs (\d{1,12})")
# Functions in which rank 0 often does something alone.
_ALONE = re.compile(r"eval|valid|test|save|checkpoint|ckpt|log|metric|predict|generate|sampl", re.I)
_OF_ALONE = re.compile(r"barrier|wait_for_everyone|all_gather_object|gather\w*|synchronize")
# What a rank complains of before it leaves a batch out.
_COMPLAINS = re.compile(
    r"skip|not finite|\b(?:nan|inf)\b|error|fail|bad|corrupt|invalid|warn|ignor|drop|stop|跳过",
    re.I,
)
_NOT_FINITE = re.compile(r"(?<![\w./-])-?(?:nan|inf)\b(?![./-]\w)", re.I)
SILENT, LEFT_OUT = "went silent", "left a collective out"
_SHAPE = re.compile(r"\[[\d, ]{1,60}\]|\([\d, ]{3,60}\)")


@dataclass(frozen=True)
class _Job:
    """What is known of a job with several ranks.

    `known` are those of which a log tells, and `spoken` is what each wrote, without stacks.
    """

    evidence: Evidence
    failures: list[Failure]
    lines: list[Line]
    summary: Summary
    known: frozenset[int]
    places: dict[int, Place]
    spoken: dict[int, list[Line]]

    def of(self, rank: int | None) -> list[Line]:
        """Return what a rank wrote, nothing for None."""
        return [] if rank is None else self.spoken.get(rank, [])

    def lost(self, but: int | None = None) -> list[Failure]:
        """Return the failures of ranks that lost another one or waited for it, but those of one."""
        return [f for f in self.failures if f.secondary and who(f.line) not in (None, but)]

    def code(self, rank: int) -> int | None:
        """Return the exit code that the launcher tells of a rank."""
        return self.summary.ended[rank][0] if rank in self.summary.ended else None


def with_ranks(
    evidence: Evidence,
    failures: list[Failure],
    summary: Summary,
    silent: frozenset[int] = frozenset(),
) -> Evidence:
    """Return the evidence with what its ranks show beside each other.

    `failures` are all that tell of a failure, lost peers among them. `silent` are the ranks that
    left no line.
    """
    lines = evidence.lines
    failed = {rank for rank in (who(f.line) for f in failures) if rank is not None}
    known = frozenset({*evidence.ranks, *silent, *summary.ended, *failed})
    if len(known) < 2:
        return evidence
    places = places_of(failures, lines)
    spoken: dict[int, list[Line]] = {}
    for line in lines:
        if line.rank is not None and line.kind in (*SPOKEN, WARNING):
            spoken.setdefault(line.rank, []).append(line)
    job = _Job(evidence, failures, lines, summary, known, places, spoken)
    culprits = _culprits(job)
    evidence = replace(evidence, places=describe_places(places), culprits=culprits[:MOST_CULPRITS])
    if odd_one(lines):
        return evidence
    return _with_sizes(evidence, job) or _with_story(evidence, job, culprits)


def _culprits(job: _Job) -> tuple[Line, ...]:
    """The line of each rank that failed on its own, the first failure first."""
    found = own_failures(job.failures, job.lines, job.summary)
    first = job.evidence.first
    found.sort(key=lambda line: first is None or line.rank != first.rank)
    return tuple(found) if len(found) > 1 else ()


def _with_sizes(evidence: Evidence, job: _Job) -> Evidence | None:
    """Tell of a message that was too large for the rank that it came to; None without one.

    The receiver aborts, whichever of the two has another size than the rest. In gloo's ring each
    rank receives from the one after it.
    """
    line = next((line for line in job.lines if _SIZES.search(line.text)), None)
    if line is None or line.rank is None:
        return None
    came, room = _SIZES.search(line.text).groups()  # type: ignore[union-attr]
    own = f"rank {line.rank} aborted because {came} bytes came where its own call has {room}"
    odd = _with_other_shape(job)
    ring = sorted(job.known) == list(range(len(job.known)))
    if odd is not None:
        first = _last(job, odd).of_rank(odd)
        said = f"rank {odd} has another shape than all others (line {first.number}); {own}"
        quoted: tuple[Line, ...] = (first, line)
    else:
        first, quoted = line, (line,)
        other = f"rank {(line.rank + 1) % len(job.known)}" if ring else "the rank"
        said = f"{own}: it or {other}, which sent them, calls with another size than the rest"
    asked = {line.rank, first.rank, (line.rank + 1) % len(job.known) if ring else None}
    check = f"print the tensor's shape before the call on ranks {_those(asked)}"
    return replace(
        evidence,
        first=first,
        how="sent another size" if odd is not None else "met another size",
        culprits=(),
        quoted=quoted,
        victims=f"{_capital(said)}.",
        check=f"{_capital(check)}.",
    )


def _those(ranks: set[int | None]) -> str:
    return " and ".join(str(rank) for rank in sorted(r for r in ranks if r is not None))


def _with_other_shape(job: _Job) -> int | None:
    """The one rank whose last words hold another shape than those of all others."""
    shapes: dict[int, str] = {}
    for rank in job.known:
        for line in reversed(job.of(rank)[-LAST:]):
            found = _SHAPE.search(line.text)
            if found:
                shapes[rank] = found[0]
                break
    found_shapes = list(shapes.values())
    alone = [rank for rank, shape in shapes.items() if found_shapes.count(shape) == 1]
    return alone[0] if len(alone) == 1 and len(found_shapes) > 2 else None


def _last(job: _Job, rank: int) -> Line:
    """The last line of a rank with a shape in it."""
    return next(line for line in reversed(job.of(rank)) if _SHAPE.search(line.text))


def _with_story(evidence: Evidence, job: _Job, culprits: tuple[Line, ...]) -> Evidence:
    first = evidence.first
    own = [f for f in job.failures if first and _is_line(f.line, first)]
    if own and not own[0].secondary and not _is_silent_end(own[0].line):
        if own[0].is_caught() and first is not None and first.rank is not None:
            caught = _with_caught(evidence, job, own[0])
            if caught:
                return caught
        return _with_own(evidence, job, own[0], culprits)
    strayed = _with_stray(evidence, job) or _with_one_elsewhere(evidence, job)
    if strayed:
        return strayed
    if first is None or first.rank is None:
        return evidence
    return _with_fate(evidence, job, first)


def _is_line(one: Line, other: Line) -> bool:
    return (one.source, one.number) == (other.source, other.number)


def _is_silent_end(line: Line) -> bool:
    """Whether a line only tells how the launcher saw a rank end."""
    return line.says("ended rank", "ended code", "ended signal")


def _with_own(
    evidence: Evidence, job: _Job, failure: Failure, culprits: tuple[Line, ...]
) -> Evidence:
    """Tell of ranks that failed on their own, and quote the code in which the first one did."""
    code = _own_code(failure)
    quoted: tuple[Line, ...] = (
        failure.line.of_rank(evidence.first.rank if evidence.first else None),
        *code,
    )
    others = [line.rank for line in culprits if line.rank is not None]
    shapes = {template_of(line.text.strip()) for line in culprits}
    if len(shapes) > 1:
        quoted = culprits[:MOST_CULPRITS]
    how = "failed alike" if len(shapes) == 1 else "each failed on their own"
    said = f"{_capital(name_ranks(others))} {how}." if len(others) > 1 else ""
    after = {f.line.rank for f in job.lost()} - set(others) - {failure.line.rank, None}
    if after and not others:
        said = f"{_capital(name_ranks(after))} only lost it."  # type: ignore[arg-type]
    return replace(evidence, quoted=quoted, victims=said)


def _own_code(failure: Failure) -> list[Line]:
    """The line of the user's own code in which an exception came up, [] without one."""
    frames = failure.frames
    for at in range(len(frames) - 1, -1, -1):
        if is_own_frame(frames[at]):
            below = frames[at + 1] if at + 1 < len(frames) else None
            return [below] if below is not None and not below.says("frame") else [frames[at]]
    return []


def _with_caught(evidence: Evidence, job: _Job, failure: Failure) -> Evidence | None:
    """Tell of an exception that a rank caught, whereupon it left the others waiting."""
    rank = failure.line.rank
    if rank is None or not job.lost(but=rank) or not _outlived(job, rank, failure.line):
        return None
    said = (
        f"Rank {rank} caught an exception of its own (line {failure.line.number}) and went on "
        f"without the others: {_lower(name_ranks(_ranks(job.lost(but=rank))))} waited in a "
        "collective that it had left out."
    )
    return replace(
        evidence,
        seen=RANK_MISSING,
        how="caught an exception",
        quoted=(failure.line, *_own_code(failure)),
        victims=said,
        check=f"Look at what rank {rank} does after the `except`: all ranks must skip, or none.",
    )


def _outlived(job: _Job, rank: int, raised: Line) -> bool:
    """Whether a rank went on after its exception, which Python would have ended with exit code 1.

    A traceback without its first frames alone doesn't tell that: people cut them. Nor does a step
    more than the others have, where these lost the connection to it: it is gone.
    """
    if job.summary.ended:
        return job.code(rank) in (None, TERM)
    last = {other: _last_step(job.of(other)) for other in job.known}
    is_gone = any(f.line.says("lost peer") for f in job.lost(but=rank))
    is_ahead = not is_gone and all(
        last[rank] > step >= 0 for other, step in last.items() if other != rank
    )
    lost = any(f.secondary and who(f.line) == rank for f in job.failures)
    # Above the exception a user's own words may stand.
    return _ends_done(job, rank, below=raised) or is_ahead or lost


def _last_step(lines: list[Line]) -> int:
    steps = (line.sign("step") for line in reversed(lines))
    return next((int(step[0]) for step in steps if step), -1)


def _ranks(failures: Iterable[Failure]) -> set[int]:
    return {rank for rank in (who(f.line) for f in failures) if rank is not None}


def _with_stray(evidence: Evidence, job: _Job) -> Evidence | None:
    """Tell of ranks that waited in different calls; None where they didn't, or one is gone."""
    waiting = {rank: place for rank, place in job.places.items() if place.waits}
    camps = camps_of(waiting)
    if len(camps) < 2:
        return None
    timed_out = any(TIMED_OUT.search(f.line.text) for f in job.lost())
    unknown = job.known - set(waiting)
    ended = all(job.code(rank) == TERM for rank in unknown)
    if unknown and not (timed_out or ended):
        return None  # a rank that is gone may have been lost in two calls
    if any(job.of(rank)[-1:] and job.of(rank)[-1].says("done") for rank in unknown):
        return None
    odd = _odd_camp(camps)
    is_alone = [0] in camps and _does_alone(waiting[0])
    entry = RANK_0_ALONE if is_alone else DESYNC
    rank = 0 if is_alone else odd
    first = None if rank is None else _line_of(job, rank)
    others = [f.line for f in job.lost() if who(f.line) in waiting and who(f.line) != rank]
    return replace(
        evidence,
        seen=entry,
        first=first or (evidence.first.of_rank(None) if evidence.first else None),
        how="stood in another call" if first else "",
        calls_differ=not unknown,
        quoted=tuple(line for line in [first, *others[:1]] if line),
        victims=(
            "The ranks waited in different calls."
            if any(place.file for place in waiting.values())
            else "The ranks are in different collectives."
        ),
        check="Compare these two places: which branch of the program leads only some ranks there?",
    )


def _with_one_elsewhere(evidence: Evidence, job: _Job) -> Evidence | None:
    """Tell of the one rank that stood in no common call while all others waited in one."""
    apart = [rank for rank, place in job.places.items() if not place.waits]
    others = {place.describe() for place in job.places.values() if place.waits}
    if len(apart) != 1 or len(others) != 1 or set(job.places) != job.known:
        return None
    rank, where = apart[0], job.places[apart[0]].describe()
    line = next((line for line in reversed(job.lines) if line.rank == rank), None)
    return replace(
        evidence,
        seen=DESYNC,
        first=line,
        how="stood elsewhere",
        is_log=True,
        victims=f"Rank {rank} stood in {where} while all others waited for it.",
    )


def _odd_camp(camps: list[list[int]]) -> int | None:
    """The one rank that stood alone while most stood together."""
    by_size = sorted(camps, key=len)
    total = sum(map(len, camps))
    is_odd = len(camps) == 2 and len(by_size[0]) == 1 and 2 * len(by_size[-1]) > total
    return by_size[0][0] if is_odd and total > 2 else None


def _does_alone(place: Place) -> bool:
    """Whether rank 0 stands in what it often does alone: saving, evaluating, logging."""
    return bool(_OF_ALONE.fullmatch(place.call)) or any(map(_ALONE.search, place.within))


def _line_of(job: _Job, rank: int) -> Line | None:
    return next((f.line.of_rank(rank) for f in job.lost() if who(f.line) == rank), None)


@dataclass(frozen=True)
class _Lost:
    """The rank that the others lost or waited for, and what is known of its end.

    `waited` are their failures, `timed_out` those of them that say that time was over. `spoken` is
    what it wrote, `event` the line of its training that no other rank says. `code` is its exit
    code, None where the launcher doesn't tell it.
    """

    job: _Job
    rank: int
    waited: list[Failure]
    timed_out: list[Failure]
    spoken: list[Line]
    event: Line | None
    code: int | None

    def began(self) -> str:
        """Return how most sentences begin: where it fell silent."""
        return f"Rank {self.rank} went silent{_since(self.spoken)} without an error of its own"

    def post_mortem(self) -> str:
        """Return how to find out why its process ended."""
        kernel = f"`dmesg -T | grep -w {_pid(self.job, self.rank) or 'python'}` on its machine"
        slurm = self.job.evidence.job
        if slurm:
            return f"{sacct(slurm)}, then {kernel}."
        return f"{_ask_code(self.rank) if self.code is None else ''}{kernel}."

    def alive(self) -> str:
        """Return how to find out where its process stands."""
        return (
            f"Run it again and, while it hangs, `py-spy dump --pid PID` for rank {self.rank} and "
            "one other."
        )


def _ask_code(rank: int) -> str:
    return f"Look up the exit code of rank {rank}, then "


class _Fate(NamedTuple):
    """What became of a rank: in two words, in a sentence, the entry about it, and the check."""

    how: str
    said: str
    seen: str
    check: str


def _with_fate(evidence: Evidence, job: _Job, first: Line) -> Evidence:
    """Tell what became of the rank that the others lost or waited for."""
    rank = first.rank
    waited = job.lost(but=rank)
    if rank is None or not waited:
        return evidence
    timed_out = [f for f in waited if TIMED_OUT.search(f.line.text)]
    spoken = job.of(rank)
    lost = _Lost(job, rank, waited, timed_out, spoken, _own_event(job, rank), job.code(rank))
    fate = next(fate for fate in (find(lost) for find in _FATES) if fate)
    closed = len(waited) - len(timed_out)
    did = "lost it or waited for" if closed and timed_out else "lost" if closed else "waited for"
    victims = f"{_capital(name_ranks(_ranks(waited)))} only {did} it."
    last = lost.event or (spoken[-1] if spoken else None)
    alone = f"; before, it alone said line {lost.event.number}" if lost.event else ""
    said = fate.said + ("" if fate.how == LEFT_OUT else alone)
    return replace(
        evidence,
        seen=fate.seen or evidence.seen,
        how=fate.how,
        quoted=tuple(line for line in [last, waited[0].line] if line),
        victims=f"{said}. {victims}",
        check=fate.check,
    )


def _signalled(lost: _Lost) -> _Fate | None:
    """A signal ended it, and not the launcher's."""
    code, job = lost.code, lost.job
    if code is None or code >= 0 or code == TERM or is_stuck(lost.rank, job.summary, job.failures):
        return None
    how = f"was ended by {_signal(code)}"
    said = f"Rank {lost.rank} {how}{_since(lost.spoken)}, without an error of its own"
    return _Fate(how, said, NATIVE_CRASH if code == ABORT else "", lost.post_mortem())


def _left_out(lost: _Lost) -> _Fate | None:
    """It complains of what no other rank does, and finished or let the others wait."""
    event = lost.event
    if event is None or not _COMPLAINS.search(event.text):
        return None
    if not (lost.timed_out or _has_finished(lost)):
        return None
    said = (
        f"Rank {lost.rank} alone complains (line {event.number}), and leaves the others waiting in "
        "a collective that it leaves out"
    )
    check = f"Look at what rank {lost.rank} does where line {event.number} of its log is printed."
    return _Fate(LEFT_OUT, said, RANK_MISSING, check)


def _finished(lost: _Lost) -> _Fate | None:
    """It finished while the others still trained."""
    if not _has_finished(lost):
        return None
    number = lost.spoken[-1].number
    said = f"Rank {lost.rank} had finished (line {number}) while the others still waited for it"
    return _Fate("finished early", said, UNEVEN_BATCHES, "")


def _has_finished(lost: _Lost) -> bool:
    others = _ranks(lost.waited)
    return (
        bool(lost.spoken)
        and lost.spoken[-1].says("done")
        and not any(_ends_done(lost.job, other) for other in others)
    )


def _late(lost: _Lost) -> _Fate | None:
    """It lost the others itself: they had given up before it came, or it is in another step."""
    own = [f for f in lost.job.failures if f.secondary and who(f.line) == lost.rank]
    if not own:
        return None
    since = _since(lost.spoken)
    if lost.timed_out and not any(TIMED_OUT.search(f.line.text) for f in own):
        said = f"Rank {lost.rank} came too late{since}: the others had given up waiting for it"
        return _Fate("came too late", said, "", lost.alive())
    said = f"Rank {lost.rank} isn't where the others are{since}"
    return _Fate("is behind", said, "", lost.alive())


def _exited(lost: _Lost) -> _Fate | None:
    """It ended with an error code, and says nothing of the error."""
    if lost.code is None or lost.code <= 0:
        return None
    how = f"ended with exit code {lost.code}"
    said = f"Rank {lost.rank} {how}{_since(lost.spoken)}, without an error of its own"
    return _Fate(how, said, "", lost.post_mortem())


def _unclear(lost: _Lost) -> _Fate | None:
    """Some saw a closed connection, and others waited until their time was over.

    The first to give up closes its own connections, so this alone doesn't tell which came first.
    """
    is_alive = lost.code == TERM or _was_killed_last(lost)
    closed = len(lost.waited) - len(lost.timed_out)
    if is_alive or not (closed and lost.timed_out) or lost.job.summary.ended:
        return None
    said = (
        f"{lost.began()}. Some of the others saw a closed connection, some waited until their time "
        "was over: it is gone, or it was stuck"
    )
    check = f"{_ask_code(lost.rank)}if it lived, where it stood: {_lower(lost.alive())}"
    return _Fate(SILENT, said, RANK_MISSING, check)


def _was_killed_last(lost: _Lost) -> bool:
    """Whether the launcher had to kill it."""
    job = lost.job
    return lost.code is not None and is_stuck(lost.rank, job.summary, job.failures)


def _stuck(lost: _Lost) -> _Fate | None:
    """The others waited until their time was over, so nothing closed its connections."""
    closed = len(lost.waited) - len(lost.timed_out)
    if not lost.timed_out or (closed and lost.job.summary.ended and lost.code is None):
        return None
    # NCCL may not see that a machine is gone.
    is_sure = any("gloo" in f.line.text for f in lost.timed_out)
    place = lost.job.places.get(lost.rank)
    why = "and the launcher had to end it" if closed else "no connection to it was closed"
    said = (
        f"{lost.began()}. The others waited until their time was over, {why}: it "
        f"{'' if is_sure else 'probably '}lived and was stuck"
        f"{f' in {place.describe()}' if place else ''}"
    )
    return _Fate(SILENT, said, RANK_MISSING, lost.alive())


def _left(lost: _Lost) -> _Fate | None:
    """The launcher lists the ranks that failed, and it isn't among them."""
    if not lost.job.summary.ended or lost.code is not None:
        return None
    said = (
        f"{lost.began()}. The launcher lists no failure of it: it left with exit code 0, or "
        "ran on another machine"
    )
    check = f"Find where rank {lost.rank} can leave the loop or the program early."
    return _Fate("left", said, RANK_MISSING, check)


def _gone(lost: _Lost) -> _Fate:
    """Its connections were closed, so its process ended; nobody says how."""
    said = f"{lost.began()}. Its connections were closed: its process is gone"
    return _Fate(
        SILENT, said, LOG_BREAKS_OFF if lost.code is None else RANK_MISSING, lost.post_mortem()
    )


_FATES: tuple[Callable[[_Lost], _Fate | None], ...] = (
    _signalled, _left_out, _finished, _late, _exited, _unclear, _stuck, _left, _gone,
)  # fmt: skip


def with_values(evidence: Evidence) -> Evidence:
    """Return the evidence with which ranks print nan or inf, where the numbers show that as fault.

    On all ranks at once it comes from what they share; on one it began there.
    """
    since: dict[int, Line] = {}
    for line in evidence.lines:
        if line.rank is not None and _NOT_FINITE.search(line.text):
            since.setdefault(line.rank, line)
    if not since or len(evidence.ranks) < 2:
        return evidence
    if len(since) == len(evidence.ranks):
        steps = {(line.sign("step") or (None,))[0] for line in since.values()}
        step = next(iter(steps)) if len(steps) == 1 else None
        at = f" from step {step} on" if step else ""
        said = f"All {len(since)} ranks print nan or inf{at}, so it isn't one rank's own."
    else:
        said = f"Of {len(evidence.ranks)} ranks only {_lower(name_ranks(since))} print nan or inf."
    alone = next(iter(since.values())) if len(since) == 1 else None
    return replace(evidence, victims=said, first=alone or evidence.first)


def _ends_done(job: _Job, rank: int, below: Line | None = None) -> bool:
    """Whether a rank says at its end that it is done, in lines that aren't above this one."""
    said = [line for line in job.of(rank)[-LAST:] if line.says("done")]
    return any(
        below is None or line.source != below.source or line.number >= below.number for line in said
    )


def _since(spoken: list[Line]) -> str:
    """As in " after step 19", by the last words of a rank; "" where it said nothing."""
    for line in reversed(spoken):
        step = line.sign("step")
        if step:
            return f" after step {step[0]}"
    return f" after line {spoken[-1].number} of its log" if spoken else ""


def _pid(job: _Job, rank: int) -> str:
    """The number of the process of a rank, from the launcher's summary; "" if it isn't there."""
    for line in job.summary.blocks.get(rank, ()):
        code = line.sign("ended code")
        if code and code[1]:
            return code[1]
    return ""


def _signal(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _own_event(job: _Job, rank: int) -> Line | None:
    """The last line of a rank's training that no other rank says, and that it says once."""
    others = {template_of(line.text) for other in job.known - {rank} for line in job.of(other)}
    spoken = job.of(rank)
    began = next((at for at, line in enumerate(spoken) if line.says("step")), len(spoken))
    own = [(template_of(line.text), line) for line in spoken[began:] if not line.says("done")]
    shapes = [shape for shape, _ in own]
    alone = [line for shape, line in own if shape not in others and shapes.count(shape) == 1]
    return alone[-1] if alone and others else None


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
