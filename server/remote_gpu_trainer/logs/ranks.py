"""Which rank failed first, whom the others waited for, and whose words are only a consequence.

A rank that loses a peer, or waits for one until time runs out, fails too, and its words often come
earlier in the log. Such a secondary failure is no cause where any rank has a fault of its own, was
ended by a signal, or wrote nothing while the others waited for it. A rank that trains on has
survived its failure. A logged "error" counts less than the rank that the others wait for.

Of several ranks, `first_failure` asks in this order: which one runs another collective than the
rest, which one torchrun saw fail first, which one a signal ended, which one has a fault of its own,
and which one the others waited for. Any other failure, such as a timeout, comes last.

What ranks say about their collectives compares within one process group only. The rank that
PyTorch prints inside its brackets is a rank of that group; the one before the line is a rank of the
job. Python 3.8.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from .detectors import FAILS, says, template_of
from .evidence import Evidence, Failure
from .kinds import ASIDE, CONSEQUENCE, EXCEPTION, FAILURE, FRAME, SPOKEN, TRACE, WARNING
from .launcher import ABORT, KILL, TERM, Summary, summary_of
from .lines import Line
from .runs import attempts_in

LAST = 3  # lines at a rank's end in which it may say what no other rank says
SHOWN = 8  # ranks that a sentence names
MOST_RANKS = 100_000  # ranks of which one line may tell what they run
_RUNS = re.compile(
    r"Rank (\d{1,5}) is running (?:inconsistent )?collective: CollectiveFingerPrint\("
    r"((?:SequenceNumber=\d{1,12}, )?OpType=\w{1,40}(?:, TensorShape=\[[^\]]{0,200}\])?)"
)
# gloo names its source: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection …
_COLLECTIVE = re.compile(r"/gloo/|NCCL|ProcessGroup|DistBackendError|c10d")
# What Python writes between two tracebacks, where one exception led to the other.
HANDLING = "During handling of the above exception"
LINKS = (HANDLING, "The above exception was the direct cause")
# Kinds of lines that tell of an end, and with the stacks that belong to them.
_FAILED = (EXCEPTION, FAILURE, CONSEQUENCE)
_TALK = (TRACE, FRAME, *_FAILED)


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


@dataclass(frozen=True)
class JudgedLog:
    """A log while it is judged.

    `failures` are those that count so far. `end` is what a long log ends with. `first` is the
    first failure, None before it is known and where there is none.
    """

    lines: list[Line]
    failures: list[Failure]
    end: list[Line]
    first: Line | None = None

    def with_kind(self, kind: str, chosen: Iterable[Line]) -> JudgedLog:
        """Return the log with these of its lines as ones of another kind, wherever they stand."""
        changed = {line: line.of_kind(kind) for line in chosen}
        if not changed:
            return self

        def now(line: Line) -> Line:
            return changed.get(line, line)

        return JudgedLog(
            list(map(now, self.lines)),
            [replace(f, line=now(f.line), frames=tuple(map(now, f.frames))) for f in self.failures],
            list(map(now, self.end)),
            None if self.first is None else now(self.first),
        )


@dataclass(frozen=True)
class RankVerdict:
    """What the ranks of a log amount to.

    `log` is the log without the failures that are only a consequence, and with the first failure.
    `failures` are all that tell of a failure, lost peers among them. `summary` is torchrun's, and
    `victims` the sentence of `only_victims`. `calls_differ`: ranks ran different collectives.
    """

    log: JudgedLog
    failures: list[Failure]
    summary: Summary
    victims: str
    calls_differ: bool


def judge_ranks(log: JudgedLog, silent: frozenset[int]) -> RankVerdict:
    """Return which failure came first, and which ones only followed from another.

    `silent` are the ranks that left no line.
    """
    summary = summary_of(log.lines)
    log = _drop_other_tracebacks(log, summary, silent)
    log = replace(log, first=first_failure(telling(log.failures), log.lines, summary, silent))
    log = _drop_summary_of_ended(log, summary)
    failures = telling(log.failures)
    victims = only_victims(log.failures, log.lines, summary, silent)
    log = _drop_lost_peers(log)
    return RankVerdict(log, failures, summary, victims, odd_one(log.lines) is not None)


def _drop_other_tracebacks(log: JudgedLog, summary: Summary, silent: frozenset[int]) -> JudgedLog:
    """Drop the failures that ranks outlived, or had while they handled the loss of another."""
    log = log.with_kind(
        CONSEQUENCE, [f.line for f in after_a_loss(log.failures, log.lines, summary, silent)]
    )
    log = log.with_kind(ASIDE, [f.line for f in outlived(log.failures, log.lines, summary)])
    kept = [f for f in log.failures if f.line.kind not in (CONSEQUENCE, ASIDE)]
    return replace(log, failures=kept)


def telling(failures: list[Failure]) -> list[Failure]:
    """Return the failures without those by which a launcher only repeats one.

    All where a launcher says all.
    """
    return [f for f in failures if not f.line.says("wrapper")] or failures


def _drop_summary_of_ended(log: JudgedLog, summary: Summary) -> JudgedLog:
    """Drop the failures that only tell how the launcher ended the other ranks."""
    log = log.with_kind(CONSEQUENCE, clean_up(log.failures, summary))
    return replace(log, failures=[f for f in log.failures if f.line.kind != CONSEQUENCE])


def _drop_lost_peers(log: JudgedLog) -> JudgedLog:
    """Drop lost peers and later attempts, once a rank's own exception is known.

    Timeouts stay, because they may be the cause.
    """
    first = log.first
    if first is None or first.kind != EXCEPTION or first.says("lost peer"):
        return log
    attempt_of = attempts_in(log.lines)
    attempt = attempt_of(first)
    if first.rank is None and attempt is None:
        return log

    def is_consequence(failure: Failure) -> bool:
        is_lost = first.rank is not None and failure.line.says("lost peer")
        return is_lost or (attempt is not None and (attempt_of(failure.line) or 0) > attempt)

    lost = [f for f in log.failures if is_consequence(f)]
    log = replace(log, failures=[f for f in log.failures if not is_consequence(f)])
    return log.with_kind(CONSEQUENCE, [line for f in lost for line in (f.line, *f.frames)])


def first_failure(
    failures: list[Failure],
    lines: list[Line],
    summary: Summary,
    silent: frozenset[int] = frozenset(),
) -> Line | None:
    """Return the line that tells of the first failure, with its rank if that is known.

    If nothing failed, return the last line of a rank that is behind the others, or None. The line
    has no rank if several ranks failed alike, or if all ranks only lost another one and none stands
    out. `silent` are the ranks that left no line.
    """
    failures, lines, summary = _first_attempt(failures, lines, summary)
    job = _job_of(failures, lines, summary, silent)
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


def _job_of(
    failures: list[Failure], lines: list[Line], summary: Summary, silent: frozenset[int]
) -> _Job:
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


def own_failures(failures: list[Failure], lines: list[Line], summary: Summary) -> list[Line]:
    """Return, for each rank that failed on its own, the line that tells it, in the log's order.

    A rank that only lost another one isn't among them, nor one that the launcher ended.
    """
    failures, lines, summary = _first_attempt(failures, lines, summary)
    if not failures or odd_one(lines):
        return []
    job = _job_of(failures, lines, summary, frozenset())
    faulty = job.faulty() - job.victims
    killed = [rank for rank in job.summary.ended if rank not in faulty and _is_killed(rank, job)]
    sure: dict[int | None, list[Failure]] = {}
    for failure in job.sure:
        sure.setdefault(failure.line.rank, []).append(failure)
    found = [_of_rank(rank, sure[rank]) for rank in sorted(faulty)]
    return [*found, *(at_end(rank, job.summary) for rank in killed)]


def after_a_loss(
    failures: list[Failure],
    lines: list[Line],
    summary: Summary,
    silent: frozenset[int] = frozenset(),
) -> list[Failure]:
    """Return the failures that ranks had while they handled the loss of another one.

    Empty where no rank failed in another way, and none says nothing of a failure although others
    lost it in a collective: then they are all that is known. `silent` are the ranks without a line.
    """
    links = _links(lines)
    losses: dict[tuple[str, int | None], int] = {}
    found, others = [], False
    ranks = {line.rank for line in lines} | silent | set(summary.ended)
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


def outlived(failures: list[Failure], lines: list[Line], summary: Summary) -> list[Failure]:
    """Return the exceptions that ranks outlived, where another rank has a failure that it didn't.

    They lost another rank in a later collective, or caught the exception themselves. Where every
    rank caught or only logged what failed, and trained on, nothing failed: all are returned.
    """
    own = [f for f in failures if not f.secondary and f.line.rank is not None]
    if _all_trained_on(failures, lines, summary):
        return failures
    over = _lost_later(own, failures, lines)
    over += [f for f in own if f.frames and f.is_caught() and f not in over]
    return over if any(f.frames for f in own if f not in over) else []


def _all_trained_on(failures: list[Failure], lines: list[Line], summary: Summary) -> bool:
    """Whether each rank caught or only logged all that failed, and trained on afterwards.

    It went on by its next steps in the same log, or says at its end that it is done.
    """
    if not failures or summary.ended:
        return False
    steps = _last_steps(failures, lines)
    ends = {line.rank: line for line in lines if line.kind in SPOKEN}

    def trained_on(failure: Failure) -> bool:
        rank = failure.line.rank
        return _has_steps_behind(failure, steps) or (rank in ends and ends[rank].says("done"))

    return all(
        f.line.rank is not None and not f.line.says("end") and f.may_be_caught() and trained_on(f)
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


def _first_attempt(
    failures: list[Failure], lines: list[Line], summary: Summary
) -> tuple[list[Failure], list[Line], Summary]:
    """Keep the failures and lines of the first of torchrun's attempts that has a failure.

    A log that names no attempt, such as the launcher's own, belongs to the last attempt.
    """
    attempt = attempts_in(lines)
    chosen = min(
        (number for number in [attempt(f.line) for f in failures] if number is not None),
        default=None,
    )
    if chosen is None:
        return failures, lines, summary
    last = max(number for number in map(attempt, lines) if number is not None)
    wanted = (chosen, None) if chosen == last else (chosen,)
    failures = [f for f in failures if attempt(f.line) in wanted]
    lines = [line for line in lines if attempt(line) in wanted]
    return failures, lines, summary_of(lines)


def _lasting(own: list[Failure], failures: list[Failure], lines: list[Line]) -> list[Failure]:
    """Leave out the failures that a rank survived: it logged two steps afterwards.

    Or it lost another rank afterwards, or caught an exception while another rank didn't. The steps
    may come from a buffer that was flushed when the
    process ended. So if no other sure
    failure of a rank is left, leave out only those of a rank that failed again after its last step.
    """
    steps, lost = _last_steps(own, lines), _lost_later(own, failures, lines)
    final = [f for f in own if f not in lost and not _has_steps_behind(f, steps)]
    uncaught = [f for f in final if not f.is_caught()]
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
            and line.kind in SPOKEN
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
    shape = template_of(line.text.strip())
    alike = {line.rank} | {f.line.rank for f in own if template_of(f.line.text.strip()) == shape}
    return line if len(alike - {None}) < 2 else line.of_rank(None)


def _of_rank(rank: int, failures: list[Failure]) -> Line:
    """The line of a rank's first failure if that has a traceback, or else of its last failure.

    If the rank has exceptions, other failures don't count.
    """
    of_it = [f for f in failures if f.line.rank == rank]
    of_it = [f for f in of_it if f.line.kind == EXCEPTION] or of_it
    return of_it[0].line if of_it[0].frames else of_it[-1].line


def _form_of_time(time: str) -> tuple[str, str]:
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
        and len({_form_of_time(f.line.time) for f in pool}) == 1
    ):
        return min(pool, key=lambda f: f.line.time).line
    per_rank: dict[int | None, Line] = {}
    for failure in pool:
        if failure.frames or failure.line.rank not in per_rank:
            per_rank[failure.line.rank] = failure.line
    return next(iter(per_rank.values())) if len(per_rank) > 1 else pool[-1].line


def place_of(line: Line) -> tuple[str, int | None]:
    """Return (process group, rank of the job) of a watchdog's line; "" is the whole job.

    It says "[PG ID 0 PG GUID 0(default_pg) Rank 3]", before PyTorch 2.4 "[PG 0 Rank 3]" or "[Rank
    3]". The GUID names a group on every rank, the ID only within one.
    """
    prefix = line.sign("group")
    if not prefix:
        return "", line.rank
    number, guid, name, rank = prefix
    whole = number is None or name == "default_pg" or (name is None and number == "0")
    group = "" if whole else guid or number or ""
    return group, line.rank if line.rank is not None or not whole else int(rank)


def who(line: Line) -> int | None:
    """Return the rank of a line, from its prefix or from what PyTorch's watchdog says."""
    return line.rank if line.rank is not None else place_of(line)[1]


def odd_one(lines: list[Line]) -> tuple[Line, int | None] | None:
    """Return the line that tells of a mismatch of collectives, and the rank that differs.

    With TORCH_DISTRIBUTED_DEBUG=DETAIL each rank compares itself with the others in order, and
    says which is the first that differs. The rank is None where no one differs from the many; all
    is None without such a line.
    """
    first: Line | None = None
    runs: dict[int, str] = {}  # the collective that a rank runs
    alike = 0  # ranks below this one are in `runs`
    for line in lines:
        pairs = _RUNS.findall(line.text) if line.says("mismatch") else ()
        for rank, collective in pairs:
            first = first or line
            runs.setdefault(int(rank), collective)
        if len(pairs) == 2:  # all before the one that differs are like the speaker
            below = min(int(pairs[1][0]), MOST_RANKS)
            for rank in range(alike, below):
                runs.setdefault(rank, pairs[0][1])
            alike = max(alike, below)
    if first is None:
        return None
    counts = Counter(runs.values())
    alone = [rank for rank, collective in runs.items() if counts[collective] == 1]
    return first, alone[0] if len(alone) == 1 and len(runs) > 2 else None


def behind(lines: list[Line]) -> tuple[Line, int] | None:
    """Return the rank that had reached fewer collectives of a group than all others, and its line.

    Where groups name different ranks, the group counts whose watchdog gave up first.
    """
    started = next((place_of(line)[0] for line in lines if line.says("initiator")), None)
    for name in ("enqueued", "waits in"):
        reached: dict[str, dict[int, tuple[int, Line]]] = {}
        for line in lines:
            groups = line.sign(name)
            if groups is None:
                continue
            group, rank = place_of(line)
            if rank is not None:
                reached.setdefault(group, {}).setdefault(rank, (int(groups[0]), line))
        fewest = {group: _fewest(counts) for group, counts in reached.items()}
        named = {group: rank for group, rank in fewest.items() if rank is not None}
        if len(set(named.values())) > 1:
            named = {started: named[started]} if started in named else {}
        for group, rank in named.items():
            return reached[group][rank][1], rank
    return None


def _fewest(counts: dict[int, tuple[int, Line]]) -> int | None:
    """The one rank that had reached fewer than every other."""
    numbers = sorted(number for number, _ in counts.values())
    if len(numbers) < 2 or numbers[0] == numbers[1]:
        return None
    return min(counts, key=lambda rank: counts[rank][0])


def only_victims(
    failures: list[Failure],
    lines: list[Line],
    summary: Summary,
    silent: frozenset[int] = frozenset(),
) -> str:
    """Return one sentence on who only lost another rank and who says nothing; else "".

    For logs of several ranks in which no rank tells of a failure of its own.
    """
    victims = {rank for rank in (who(f.line) for f in failures) if rank is not None}
    others = {line.rank for line in lines if line.rank is not None} | silent | set(summary.ended)
    others -= victims
    if not victims or len(victims | others) < 2 or not _only_lost(failures):
        return ""
    said = f"{_named(victims)} only lost another rank or waited for one"
    return f"{said}; no failure is seen on {_named(others).lower()}." if others else f"{said}."


def _only_lost(failures: list[Failure]) -> bool:
    """Whether no rank tells of a failure of its own, apart from the launcher's words."""
    return all(f.secondary or f.line.says("exit", "wrapper") for f in failures)


def _named(ranks: set[int]) -> str:
    shown = ", ".join(map(str, sorted(ranks)[:SHOWN]))
    more = f" and {len(ranks) - SHOWN} more" if len(ranks) > SHOWN else ""
    return f"{'Rank' if len(ranks) == 1 else 'Ranks'} {shown}{more}"


def victims_of(failures: list[Failure], summary: Summary) -> set[int]:
    """Return the aborted ranks that only lost another one, or waited for it too long.

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


def clean_up(failures: list[Failure], summary: Summary) -> list[Line]:
    """Return the lines of torchrun's summary about signals that are no cause.

    Those of ranks that it killed itself, and of ranks that aborted because they lost another one.
    """
    victims = victims_of(failures, summary)
    return [
        line
        for rank, block in summary.blocks.items()
        if rank in victims or is_stuck(rank, summary, failures)
        for line in block
    ]


def is_stuck(rank: int, summary: Summary, failures: list[Failure]) -> bool:
    """Return whether the launcher killed the rank when it cleaned up, rather than somebody before.

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


def at_end(rank: int, summary: Summary) -> Line:
    """Return the line of a rank that left nothing but its place in the summary."""
    line = summary.ended[rank][1]
    return Line(line.source, line.number, rank, line.text, FAILURE, line.time)


def waited_for(
    failures: list[Failure], lines: list[Line], ranks: set[int], summary: Summary
) -> Line | None:
    """Return the rank that the others name, that is behind, or that says nothing.

    For failures that all are lost peers or timeouts.
    """
    for line in lines:
        barrier = line.sign("barrier")
        if barrier:
            return line.of_rank(int(barrier[0]))
    late = behind(lines)
    if late:
        return late[0].of_rank(late[1])
    known = ranks | set(summary.ended)
    if summary.ended:
        known |= set(range(max(known)))
    said: dict[int, list[Line]] = {rank: [] for rank in sorted(known)}
    for line in lines:
        if line.rank in said:
            said[line.rank].append(line)
    rank = _set_apart(failures, said, summary)
    if rank is None:
        return None
    own = [line for line in said[rank] if line.kind not in (TRACE, FRAME)]
    if own:
        return own[-1]
    if rank in summary.ended and not is_stuck(rank, summary, failures):
        return at_end(rank, summary)
    line = failures[0].line
    return Line(line.source, line.number, rank, f"rank {rank} says nothing")


def _set_apart(
    failures: list[Failure], said: dict[int, list[Line]], summary: Summary
) -> int | None:
    """The rank that alone has one of these properties, the surest first.

    It says nothing of a loss, and torchrun saw it fail first; it ended, but not by the launcher; it
    isn't in the summary; it says nothing of a loss. Where all only lost another one: it is done, is
    in another step, or says what no other rank says.
    """
    silent = set(said) - {who(f.line) for f in failures if not f.line.says("notified")}
    unasked = {rank for rank in silent if summary.ended.get(rank, (TERM, None))[0] != TERM}
    ended_well = silent - set(summary.ended) if summary.ended else set()
    groups = [silent & {summary.root}, unasked, ended_well, silent]
    if len(said) > 1 and _only_lost(failures):
        groups += [_finished(silent, said), _ahead_or_behind(said), _other_words(said)]
    return next((rank for group in groups if len(group) == 1 for rank in group), None)


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
    count = Counter(last.values())
    alone = {rank for rank, step in last.items() if count[step] == 1}
    return alone if len(alone) == 1 and len(last) > 2 and len(count) == 2 else set()


def _other_words(said: dict[int, list[Line]]) -> set[int]:
    """The one rank that says at its end, once, what no other rank says."""
    spoken = {
        rank: [template_of(line.text) for line in lines if line.kind in (*SPOKEN, WARNING)]
        for rank, lines in said.items()
    }
    if not all(spoken.values()):
        return set()
    ranks_that_say = Counter(template for own in spoken.values() for template in set(own))
    return {
        rank
        for rank, own in spoken.items()
        if any(
            own.count(template) == 1 and ranks_that_say[template] == 1 for template in own[-LAST:]
        )
    }


def late_rank(lines: list[Line]) -> Line | None:
    """Return, of several ranks without a failure, the one whose last step is the lowest.

    None if it isn't alone in that, or says afterwards that it finished.
    """
    last: dict[int, tuple[int, Line]] = {}
    for line in lines:
        step = line.sign("step")
        if step and line.rank is not None:
            last[line.rank] = (int(step[0]), line)
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


def drop_secondary(evidence: Evidence) -> Evidence:
    """Return the evidence without the words of ranks that only lost the one that failed.

    What torchrun says of the ranks that it killed itself is left out too. Returns `evidence` itself
    where no rank failed by itself, or none lost it.

    A job of many ranks ends with the words of those that waited: a watchdog's timeout, a closed
    connection, the end of their own process. These are longer than what the first rank said, and
    the same under every cause. So the look-up judges a log without them first, and as a whole where
    that finds nothing.
    """
    evidence = _drop_clean_up(evidence)
    first = evidence.first
    if first is None or first.says("secondary", "lost peer"):
        return evidence
    killed = not _is_crash(first) and _is_killed_from_outside(first, evidence.lines)
    if not killed and not _is_crash(first):
        return evidence
    lost = _find_lost(evidence, first, anywhere=killed)
    if not lost:
        return evidence
    dropped = _words_of(lost, evidence, first, anywhere=killed)
    return replace(
        evidence,
        lines=[line for line in evidence.lines if line not in dropped],
        failures=[failure for failure in evidence.failures if failure.line not in dropped],
        decisive=[line for line in evidence.decisive if line not in dropped],
    )


def _drop_clean_up(evidence: Evidence) -> Evidence:
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
            return (anywhere or _is_after(line, first)) and (who(line) in lost or _tells_loss(line))
        return line.number >= since.get((line.source, line.rank), line.number + 1)

    return {line for line in evidence.lines if is_theirs(line)}


def _is_killed_from_outside(first: Line, lines: list[Line]) -> bool:
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


def _tells_loss(line: Line) -> bool:
    """Whether a line without a rank tells of a lost peer or a timeout, or belongs to its stack."""
    return line.says("native frame") or (line.kind in _FAILED and line.says("secondary"))


def _is_after(line: Line, first: Line) -> bool:
    return line.source != first.source or line.number > first.number


def _find_lost(evidence: Evidence, first: Line, anywhere: bool) -> set[int]:
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
