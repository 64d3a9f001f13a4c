"""Judge lines: which failure came first, which lines decide, and what was only a consequence.

Python 3.8.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from .endings import is_interrupted
from .ends import slurm_job
from .evidence import MOST_DECISIVE, Evidence
from .first_failure import after_a_loss, first_failure, only_reports, outlived
from .kinds import ASIDE, CONSEQUENCE, EXCEPTION, FAILURE, FRAME, MESSAGE, TRACE, WARNING
from .lines import MESSAGE_LINES, Line
from .prose import is_sentence
from .repeats import attempts_in
from .routine import Routine, routine_of, set_apart, survived
from .waiting import Failure, clean_up, odd_one, only_victims
from .wrapping import Summary, launcher_talk, summary_of

# How lines begin that tell nothing.
_NOISE = re.compile(r"\W*$|[\s=*#_~-]{6,}|Root Cause|Other Failures|\s*\[\d+\]:\s*$|-+$")
_NUMBER = re.compile(r"\d+")
ENDING = 6  # lines of the end of a long log to judge by
MOST_FAILURES = 4  # failures whose messages and frames are among them
INNERMOST = 2  # frames of each of these
NEAR_NCCL = 8 * MESSAGE_LINES  # lines before and after an error of NCCL that belong to it


@dataclass(frozen=True)
class _Log:
    """A log while it is judged.

    `failures` are those that count so far. `end` is what a long log ends with. `first` is the
    first failure, None before it is known and where there is none.
    """

    lines: list[Line]
    failures: list[Failure]
    end: list[Line]
    first: Line | None = None

    def with_kind(self, kind: str, chosen: Iterable[Line]) -> _Log:
        """Return the log with these of its lines as ones of another kind, wherever they stand."""
        changed = {line: line.of_kind(kind) for line in chosen}
        if not changed:
            return self

        def now(line: Line) -> Line:
            return changed.get(line, line)

        return _Log(
            list(map(now, self.lines)),
            [replace(f, line=now(f.line), frames=tuple(map(now, f.frames))) for f in self.failures],
            list(map(now, self.end)),
            None if self.first is None else now(self.first),
        )


def judge(
    lines: list[Line], silent: frozenset[int] = frozenset(), pasted: bool = False
) -> Evidence:
    """Return the evidence in these lines; its lines are the same, some with another kind.

    `silent` are the ranks that left no line. `pasted`: a person may have written some of the lines.
    """
    found = _failures_in(lines)
    routine = routine_of(lines, pasted)
    if routine is None:
        log = _Log(lines, list(found.values()), [])
    else:
        log = _without_survived(lines, found, routine)
    log = _without_waiting_backward(log)
    log = _without_other_tracebacks(log, silent)
    log = replace(log, first=first_failure(_telling(log.failures), log.lines, silent))
    summary = summary_of(log.lines)
    log = _without_clean_up(log, summary)
    failures = _telling(log.failures)
    victims = only_victims(log.failures, log.lines, summary, silent)
    log = _without_lost_peers(log)
    ranks = tuple(sorted({line.rank for line in lines if line.rank is not None}))
    evidence = Evidence(
        log.lines,
        log.failures,
        _decisive(log),
        log.first,
        ranks,
        _is_log(log, routine, ranks),
        seen="sound" if _is_sound(log, routine) else "",
        victims=victims,
        job=slurm_job(lines),
        calls_differ=odd_one(log.lines) is not None,
    )
    if is_interrupted(log.failures):
        return replace(evidence, first=None, victims="")
    if len(ranks) + len(silent) + len(summary.ended) < 2:
        return evidence
    from . import rank_story  # here for a fast start: most logs are of one rank

    return rank_story.with_ranks(evidence, failures, silent)


def _failures_in(lines: list[Line]) -> dict[int, Failure]:
    """{place of its line: failure}, each with the frames of its rank since its traceback began."""
    failures: dict[int, Failure] = {}
    frames: dict[int | None, list[Line]] = {}
    for at, line in enumerate(lines):
        if line.kind == TRACE:
            frames[line.rank] = []
        elif line.kind == FRAME:
            frames.setdefault(line.rank, []).append(line)
        elif line.kind in (EXCEPTION, FAILURE):
            own = tuple(frames.pop(line.rank, ()))
            failures[at] = Failure(line, _is_secondary(at, lines), own)
    return failures


def _is_secondary(at: int, lines: list[Line]) -> bool:
    """Whether a survivor may say this when a peer is gone.

    An error of NCCL is judged by what NCCL says near it.
    """
    return (lines[at].says("secondary") and not _own_by_nccl(at, lines)) or _lost_by_nccl(at, lines)


def _lost_by_nccl(at: int, lines: list[Line]) -> bool:
    """Whether the three lines after NCCL's own tell that a peer is gone.

    As after "NCCL error in: ProcessGroupNCCL.cpp:1970, internal error".
    """
    if not lines[at].says("nccl error"):
        return False
    near = [line for line in lines[at + 1 : at + 1 + NEAR_NCCL] if line.rank == lines[at].rank]
    return any(line.says("lost peer") for line in near[:3])


def _own_by_nccl(at: int, lines: list[Line]) -> bool:
    """Whether NCCL says near its own error that this rank alone is at fault.

    As "Error while creating shared memory segment /dev/shm/nccl-1YsMbG" after "unhandled system
    error" or before it.
    """
    if not lines[at].says("nccl error"):
        return False
    near = lines[max(at - NEAR_NCCL, 0) : at + 1 + NEAR_NCCL]
    return any(line.says("own nccl") and line.rank == lines[at].rank for line in near)


def _without_survived(lines: list[Line], failures: dict[int, Failure], routine: Routine) -> _Log:
    """A long log with the failures that weren't survived, and its plain lines set apart.

    A rank's own failure counts although routine follows, as long as there is no other: `torchrun
    --tee 3` may write what a program printed after its traceback. A launcher's words on an end, or
    a line that only says "error", aren't another failure.
    """
    over = set(survived(list(failures), lines, routine))
    talk = launcher_talk(lines) if over else {}
    ends_itself = any(
        talk.get((f.line.source, f.line.number)) != ""
        for at, f in failures.items()
        if at not in over and not f.secondary and not only_reports(f)
    )
    lasting = {
        at: f for at, f in failures.items() if at not in over or not (ends_itself or f.secondary)
    }
    if not lasting and not routine.told:
        lasting = failures  # nothing else says how the log ends
    lines = [
        line.of_kind(ASIDE) if at in over and at not in lasting else line
        for at, line in enumerate(lines)
    ]
    lines = set_apart(lines, list(lasting), routine)
    return _Log(lines, list(lasting.values()), [lines[at] for at in routine.told])


def _without_waiting_backward(log: _Log) -> _Log:
    """Frames of the backward pass in which a rank waited for a lost one count for nothing.

    That it waited there says nothing of the backward pass.
    """
    waited = [frame for f in log.failures if f.secondary for frame in f.frames]
    return log.with_kind(TRACE, [frame for frame in waited if "backward" in frame.text])


def _without_other_tracebacks(log: _Log, silent: frozenset[int]) -> _Log:
    """Without the failures that ranks outlived, or had while they handled the loss of another."""
    log = log.with_kind(
        CONSEQUENCE, [f.line for f in after_a_loss(log.failures, log.lines, silent)]
    )
    log = log.with_kind(ASIDE, [f.line for f in outlived(log.failures, log.lines)])
    kept = [f for f in log.failures if f.line.kind not in (CONSEQUENCE, ASIDE)]
    return replace(log, failures=kept)


def _telling(failures: list[Failure]) -> list[Failure]:
    """The failures without those by which a launcher only repeats one; all where it says all."""
    return [f for f in failures if not f.line.says("wrapper")] or failures


def _without_clean_up(log: _Log, summary: Summary) -> _Log:
    """Without the failures that only tell how the launcher ended the other ranks."""
    log = log.with_kind(CONSEQUENCE, clean_up(log.failures, summary))
    return replace(log, failures=[f for f in log.failures if f.line.kind != CONSEQUENCE])


def _without_lost_peers(log: _Log) -> _Log:
    """Without lost peers and later attempts, once a rank's own exception is known.

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


def _is_log(log: _Log, routine: Routine | None, ranks: tuple[int, ...]) -> bool:
    """Whether the lines are a log, not somebody's own words."""
    if routine and not log.failures and any(is_sentence(line.text) for line in log.end):
        return False  # what somebody says of a run that goes on
    return (
        bool(log.failures or (routine and routine.places))
        or len(ranks) > 1
        or any(line.kind in (WARNING, FRAME, TRACE) for line in log.lines)
    )


def _is_sound(log: _Log, routine: Routine | None) -> bool:
    """Whether a log repeats itself to its end, and nothing failed, lags behind or is told."""
    return (
        routine is not None
        and bool(routine.places)
        and not (log.failures or log.first or routine.told)
    )


def _decisive(log: _Log) -> list[Line]:
    """At most MOST_DECISIVE lines to judge by, each shape once, most telling first."""
    chosen: list[Line] = []
    seen: set[str] = set()
    for line in _by_weight(log):
        shape = _NUMBER.sub("#", line.text.strip())
        if shape in seen or _NOISE.match(line.text):
            continue
        seen.add(shape)
        chosen.append(line)
        if len(chosen) == MOST_DECISIVE:
            break
    return chosen


def _by_weight(log: _Log) -> Iterator[Line]:
    """The first failure with its message and innermost frames, then other failures, then the end
    of a long log, then warnings, the last one first.
    """
    messages = [line for line in log.lines if line.kind == MESSAGE and not line.says("advice")]
    for failure in _ordered(log)[:MOST_FAILURES]:
        yield failure.line
        yield from (line for line in messages if _belongs_to(line, failure.line))
        frames = [f for f in failure.frames if f.kind == FRAME and f.says("frame")]
        yield from frames[-INNERMOST:]
    if log.first:
        yield log.first
    end = [line for line in log.end if not line.says("field", "no cause", "rule")]
    yield from end if len(end) <= ENDING else [*end[: ENDING // 2], *end[-ENDING // 2 :]]
    yield from (line for line in reversed(log.lines) if line.kind == WARNING)


def _ordered(log: _Log) -> list[Failure]:
    """The failures, most telling first: the first one, then exceptions of a rank's own, later ones
    before earlier ones, then lost peers, and last a launcher's word that a rank ended.
    """
    # `first` may be a copy without its rank.
    first = log.first and (log.first.source, log.first.number)
    return sorted(
        _telling(log.failures),
        key=lambda f: (
            (f.line.source, f.line.number) != first,
            _is_empty(f.line),
            f.secondary,
            f.line.kind != EXCEPTION,
            -f.line.number,
        ),
    )


def _is_empty(line: Line) -> bool:
    """Whether a launcher only says that a rank raised something, or that it ended the rank."""
    code = line.sign("exit code")
    return bool(code) and ("1" in code or "-15" in code)


def _belongs_to(message: Line, failure: Line) -> bool:
    """Whether a message stands right behind a failure, in the same log and of the same rank."""
    return (
        0 < message.number - failure.number <= MESSAGE_LINES
        and message.source == failure.source
        and message.rank == failure.rank
    )
