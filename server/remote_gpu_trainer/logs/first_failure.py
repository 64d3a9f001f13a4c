"""Find the rank that failed first.

A rank that loses a peer, or waits for one until time runs out, fails too, and its words often come
earlier in the log. Such a failure is only a consequence if any rank has a fault of its own, was
ended by a signal, or wrote nothing while the others waited for it. A rank that trains on has
survived its failure. A logged "error" counts less than the rank that the others wait for.

Of several ranks, `first_failure` asks in this order: which one runs another collective than the
rest, which one torchrun saw fail first, which one a signal ended, which one has a fault of its own,
and which one the others waited for. Any other failure, such as a timeout, comes last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .caught import is_caught, may_be_caught
from .kinds import APART, EXCEPTION, FAILURE, MESSAGE, PLAIN
from .lines import Line
from .repeats import attempts_in
from .waiting import (
    FOLDED,
    Failure,
    at_end,
    is_stuck,
    late_rank,
    odd_one,
    victims_of,
    waited_for,
    who,
)
from .wrapping import TERM, Summary, summary_of

_SPOKEN = (PLAIN, MESSAGE, *APART)
# gloo names its source: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection …
_COLLECTIVE = re.compile(r"/gloo/|NCCL|ProcessGroup|DistBackendError|c10d")
# What Python writes between two tracebacks, where one exception led to the other.
LINKS = ("During handling of the above exception", "The above exception was the direct cause")


@dataclass(frozen=True)
class _Job:
    """What a log shows of the ranks of a job.

    `failures` are all failures. `own` are those that no lost peer explains and that weren't
    survived. `sure` are those of `own` that do more than log an error. `ranks` wrote a line, and
    the `silent` ones left none. `victims` are the aborted ranks that only lost another one.
    """

    lines: list[Line]
    failures: list[Failure]
    own: list[Failure]
    sure: list[Failure]
    summary: Summary
    victims: set[int]
    ranks: set[int]
    silent: frozenset[int]

    def faulty(self) -> set[int]:
        """Return the ranks with a failure in `sure`."""
        return {f.line.rank for f in self.sure if f.line.rank is not None}


def first_failure(
    failures: list[Failure], lines: list[Line], silent: frozenset[int] = frozenset()
) -> Line | None:
    """Return the line that tells of the first failure, with its rank if that is known.

    If nothing failed, return the last line of a rank that is behind the others, or None. The line
    has no rank if several ranks failed alike, or if all ranks only lost another one and none stands
    out. `silent` are the ranks that left no line.
    """
    failures, lines = _first_attempt(failures, lines)
    job = _job_of(failures, lines, silent)
    if not failures and not job.summary.ended:
        return late_rank(lines)
    odd = odd_one(lines)
    if odd:
        line, rank = odd
        return line.of_rank(rank)
    own = [f for f in failures if not f.secondary]
    if own and len(job.ranks) < 2 and not job.summary.ended:
        return _earliest([f for f in own if f.line.rank is not None] or own)
    return (
        _of_root_cause(job)
        or _ended_by_signal(job)
        or _own_fault(job)
        or _exception_without_rank(job)
        or _whom_others_waited_for(job)
        or _last_resort(job)
    )


def _job_of(failures: list[Failure], lines: list[Line], silent: frozenset[int]) -> _Job:
    summary = summary_of(lines)
    own = _lasting([f for f in failures if not f.secondary], failures, lines)
    return _Job(
        lines,
        failures,
        own,
        [f for f in own if not only_reports(f)],
        summary,
        victims_of(failures, summary),
        {line.rank for line in lines if line.rank is not None},
        silent,
    )


def own_failures(failures: list[Failure], lines: list[Line]) -> list[Line]:
    """Return, for each rank that failed on its own, the line that tells it, in the log's order.

    A rank that only lost another one isn't among them, nor one that the launcher ended.
    """
    failures, lines = _first_attempt(failures, lines)
    if not failures or odd_one(lines):
        return []
    job = _job_of(failures, lines, frozenset())
    faulty = job.faulty() - job.victims
    killed = [rank for rank in job.summary.ended if rank not in faulty and _is_killed(rank, job)]
    found = [_of_rank(rank, job.sure) for rank in sorted(faulty)]
    return [*found, *(at_end(rank, job.summary) for rank in killed)]


def after_a_loss(
    failures: list[Failure], lines: list[Line], silent: frozenset[int] = frozenset()
) -> list[Failure]:
    """Return the failures that ranks had while they handled the loss of another one.

    Empty where no rank failed in another way, and none says nothing of a failure although others
    lost it in a collective: then they are all that is known. `silent` are the ranks without a line.
    """
    links = _links(lines)
    losses: dict[tuple[str, int | None], int] = {}
    found, others = [], False
    ranks = {line.rank for line in lines} | silent | set(summary_of(lines).ended)
    quiet = ranks - {who(failure.line) for failure in failures} - {None}
    for failure in failures:
        writer, is_chained = _writer(failure.line), False
        if failure.line.kind == EXCEPTION and failure.frames:
            before = losses.get(writer)
            is_chained = before is not None and _is_linked(failure, before, links)
            if failure.secondary or is_chained:
                losses[writer] = failure.line.number
            others = others or (failure.secondary and bool(quiet) and _is_in_collective(failure))
        if not failure.secondary and is_chained:
            found.append(failure)
        elif not failure.secondary and failure.line.rank is not None and not only_reports(failure):
            others = True
    return found if others else []


def _is_in_collective(failure: Failure) -> bool:
    """Whether an exception comes from a collective: a download may time out as well."""
    return _COLLECTIVE.search(failure.line.text) is not None or any(
        "torch/distributed/" in frame.text for frame in failure.frames
    )


def outlived(failures: list[Failure], lines: list[Line]) -> list[Failure]:
    """Return the exceptions that ranks outlived, where another rank has a failure that it didn't.

    They lost another rank in a later collective, or caught the exception themselves. Where every
    rank caught or only logged what failed, and trained on, nothing failed: all are returned.
    """
    own = [f for f in failures if not f.secondary and f.line.rank is not None]
    if _all_trained_on(failures, lines):
        return failures
    over = _lost_later(own, failures, lines)
    over += [f for f in own if f.frames and is_caught(f) and f not in over]
    return over if any(f.frames for f in own if f not in over) else []


def _all_trained_on(failures: list[Failure], lines: list[Line]) -> bool:
    """Whether each rank caught or only logged all that failed, and trained on afterwards.

    It went on by its next steps in the same log, or says at its end that it is done.
    """
    if not failures or summary_of(lines).ended:
        return False
    steps = _last_steps(failures, lines)
    ends = {line.rank: line for line in lines if line.kind in _SPOKEN}

    def trained_on(failure: Failure) -> bool:
        rank = failure.line.rank
        return _has_steps_behind(failure, steps) or (rank in ends and ends[rank].says("done"))

    return all(
        f.line.rank is not None and not f.line.says("end") and may_be_caught(f) and trained_on(f)
        for f in failures
    )


def _links(lines: list[Line]) -> dict[tuple[str, int | None], list[int]]:
    """{writer: numbers of the lines by which Python links two tracebacks}."""
    links: dict[tuple[str, int | None], list[int]] = {}
    for line in lines:
        if line.text.startswith(LINKS):
            links.setdefault(_writer(line), []).append(line.number)
    return links


def _is_linked(
    failure: Failure, before: int, links: dict[tuple[str, int | None], list[int]]
) -> bool:
    """Whether Python links a traceback to the exception in the line `before`."""
    head = failure.frames[0].number
    return any(before < number < head for number in links.get(_writer(failure.line), ()))


def _of_root_cause(job: _Job) -> Line | None:
    """The failure of the rank that torchrun saw fail first, if it has one of its own."""
    root = job.summary.root
    if root is None or root in job.victims or root not in {f.line.rank for f in job.own}:
        return None
    return _alone(_of_rank(root, job.sure if root in job.faulty() else job.own), job.own)


def _ended_by_signal(job: _Job) -> Line | None:
    """The failure of a rank that a signal ended, or else the summary's line about that rank.

    The summary's line loses its rank if the same signal ended several ranks.
    """
    summary = job.summary
    killed = [rank for rank in summary.ended if _is_killed(rank, job)]
    if not killed:
        return None
    rank = summary.root if summary.root in killed else killed[0]
    if rank in job.faulty():
        return _alone(_of_rank(rank, job.sure), job.own)
    codes = [summary.ended[other][0] for other in killed]
    line = at_end(rank, summary)
    return line.of_rank(None) if codes.count(summary.ended[rank][0]) > 1 else line


def _is_killed(rank: int, job: _Job) -> bool:
    """Whether a signal ended a rank that lost no other one and wasn't ended by the launcher."""
    code = job.summary.ended[rank][0]
    return (
        code is not None
        and code < 0
        and code != TERM
        and rank not in job.victims
        and not is_stuck(rank, job.summary, job.failures)
    )


def _own_fault(job: _Job) -> Line | None:
    """The earliest failure in `sure`, if any of them has a rank."""
    faulty = job.faulty()
    if not faulty:
        return None
    return _alone(_earliest([f for f in job.sure if f.line.rank in faulty]), job.own)


def _exception_without_rank(job: _Job) -> Line | None:
    """An exception that was printed without a rank, with the rank that torchrun saw fail first.

    Python ends with exit code 1 after an exception, so that rank must have had it.
    """
    root = job.summary.root
    without_rank = [f for f in job.own if f.line.rank is None and f.line.kind == EXCEPTION]
    if not without_rank or root is None or job.summary.ended[root][0] != 1:
        return None
    return _earliest(without_rank).of_rank(root)


def _whom_others_waited_for(job: _Job) -> Line | None:
    """The line of the rank that the others lost, or waited for."""
    others = [f for f in job.failures if f.secondary or f.line.rank is None]
    if not others and job.own:
        return None
    ranks = job.ranks | job.silent if job.failures else job.ranks
    return waited_for(others, job.lines, ranks, job.summary)


def _last_resort(job: _Job) -> Line | None:
    """Any other failure. It loses its rank if all ranks with a failure only lost another one."""
    own, summary = job.own, job.summary
    telling = [f for f in own if not f.line.says("exit", "wrapper")]
    if telling or (own and len(own) == len(job.failures)):
        return _alone(_earliest(telling or own), own)
    if summary.root is not None and not any(f.line.rank == summary.root for f in job.failures):
        return at_end(summary.root, summary)
    if not job.failures:
        return None
    # The timeout of a watchdog ends a run. Programs often catch other timeouts.
    line = _earliest(
        [f for f in job.failures if f.line.says("waited")]
        or [f for f in job.failures if f.secondary]
        or job.failures
    )
    known = job.ranks | job.silent | set(summary.ended)
    return line if len(known) < 2 else line.of_rank(None)


def _first_attempt(failures: list[Failure], lines: list[Line]) -> tuple[list[Failure], list[Line]]:
    """Keep the failures and lines of the first of torchrun's attempts that has a failure.

    A log that names no attempt, such as the launcher's own, belongs to the last attempt.
    """
    attempt = attempts_in(lines)
    chosen = min(
        (number for number in [attempt(f.line) for f in failures] if number is not None),
        default=None,
    )
    if chosen is None:
        return failures, lines
    last = max(number for number in map(attempt, lines) if number is not None)
    wanted = (chosen, None) if chosen == last else (chosen,)
    return [f for f in failures if attempt(f.line) in wanted], [
        line for line in lines if attempt(line) in wanted
    ]


def _lasting(own: list[Failure], failures: list[Failure], lines: list[Line]) -> list[Failure]:
    """Leave out the failures that a rank survived: it logged two steps afterwards.

    Or it lost another rank afterwards, or caught an exception while another rank didn't. The steps
    may come from a buffer that was flushed when the
    process ended. So if no other sure
    failure of a rank is left, leave out only those of a rank that failed again after its last step.
    """
    steps, lost = _last_steps(own, lines), _lost_later(own, failures, lines)
    final = [f for f in own if f not in lost and not _has_steps_behind(f, steps)]
    uncaught = [f for f in final if not is_caught(f)]
    if any(f.line.rank is not None and f.frames for f in uncaught):
        return uncaught
    if any(f.line.rank is not None and not only_reports(f) for f in final):
        return final
    ends = {_writer(f.line): f.line.number for f in failures}  # its last failure
    return [
        f
        for f in own
        if not _has_steps_behind(f, steps) or ends[_writer(f.line)] < steps[_writer(f.line)][0]
    ]


def _has_steps_behind(failure: Failure, steps: dict[tuple[str, int | None], list[int]]) -> bool:
    """Whether the last two `steps` of a failure's writer stand behind it."""
    after = steps.get(_writer(failure.line), ())
    return len(after) == 2 and after[1] > failure.line.number


def _lost_later(own: list[Failure], failures: list[Failure], lines: list[Line]) -> list[Failure]:
    """Those of the failures after which their rank lost another one in a later collective."""
    links = _links(lines) if own else {}
    losses = [f for f in failures if f.secondary and f.frames and f.line.kind == EXCEPTION]
    return [
        failure
        for failure in own
        if any(
            _writer(loss.line) == _writer(failure.line)
            and loss.frames[0].number > failure.line.number
            and not _is_linked(loss, failure.line.number, links)
            for loss in losses
        )
    ]


def _last_steps(own: list[Failure], lines: list[Line]) -> dict[tuple[str, int | None], list[int]]:
    """Return {writer: numbers of its last two lines that tell a step, the last one first}.

    Only steps after the first failure of a writer's own count.
    """
    since = {_writer(f.line): f.line.number for f in reversed(own) if f.line.rank is not None}
    steps: dict[tuple[str, int | None], list[int]] = {}
    for line in reversed(lines[lines.index(own[0].line) :]) if since else ():
        writer = _writer(line)
        if (
            line.number > since.get(writer, line.number)
            and line.kind in _SPOKEN
            and len(steps.get(writer, ())) < 2
            and line.says("step")
        ):
            steps.setdefault(writer, []).append(line.number)
    return steps


def _writer(line: Line) -> tuple[str, int | None]:
    """The log and the rank of a line. Line numbers compare only within one of these."""
    return line.source, line.rank


def only_reports(failure: Failure) -> bool:
    """Return whether a failure only logs an error, after which the program may go on."""
    return failure.line.kind == FAILURE and not failure.frames and not failure.line.says("end")


def _alone(line: Line, own: list[Failure]) -> Line:
    """Return the line, without its rank if another rank failed with the same words."""
    shape = FOLDED.sub("#", line.text.strip())
    alike = {line.rank} | {
        f.line.rank for f in own if FOLDED.sub("#", f.line.text.strip()) == shape
    }
    return line if len(alike - {None}) < 2 else line.of_rank(None)


def _of_rank(rank: int, failures: list[Failure]) -> Line:
    """The line of a rank's first failure if that has a traceback, or else of its last failure.

    If the rank has exceptions, other failures don't count.
    """
    of_it = [f for f in failures if f.line.rank == rank]
    of_it = [f for f in of_it if f.line.kind == EXCEPTION] or of_it
    return of_it[0].line if of_it[0].frames else of_it[-1].line


def _form(time: str) -> tuple[str, str]:
    """How a time is written, and its zone. Times compare as texts only if both are the same."""
    return re.sub(r"\d", "0", time[:19]), time[19:].lstrip(".,0123456789")


def _earliest(failures: list[Failure]) -> Line:
    """The line of the failure that came first. If there are exceptions, only they count.

    Times decide between ranks if every line has one and all are written alike. Otherwise the rank
    whose failure stands first in the log does: the line is its last one with a traceback, or else
    its first one. Of a single rank it is the last line.
    """
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
