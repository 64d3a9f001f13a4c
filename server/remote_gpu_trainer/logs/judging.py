"""Judge lines: which failure came first, which lines decide, and what was only a consequence."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ..text.masking import shown
from .first_failure import attempt_of, first_failure, only_reports
from .lines import Line
from .routine import MESSAGE, Routine, is_sentence, routine_of, set_apart, survived
from .waiting import Failure, clean_up, only_victims, who
from .wrapping import ABORT, TERM, launcher_talk, summary_of

# How lines begin that tell nothing.
_NOISE = re.compile(r"\W*$|[\s=*#_~-]{6,}|Root Cause|Other Failures|\s*\[\d+\]:\s*$|-+$")
_ID = re.compile(r"(?:K8S|[A-Z]{1,6})[0-9]{1,3}[a-z]?")  # of an entry
_NUMBER = re.compile(r"\d+")
ENDING = 6  # lines of the end of a long log to judge by
# The entry about a job of which one rank crashed. Of all entries that explain the words of the
# others it is the right one.
CRASHED = "D20"
_FAILED = ("exception", "failure", "consequence")
_TALK = ("trace", "frame", *_FAILED)


@dataclass(frozen=True)
class Probed:
    """What the probe saw in the first steps of a run: `wrong` where that proves the entry.

    `step` and `rank` are -1 where they aren't known. `said` is masked, and short.
    """

    id: str
    wrong: bool
    step: int
    rank: int
    said: str
    source: str

    @classmethod
    def of(cls, found: object, source: str) -> Probed | None:
        """A finding of somebody else's JSON; None for anything that can't be one."""
        if not isinstance(found, dict) or found.get("level") not in ("wrong", "hint"):
            return None
        name, said = found.get("id"), found.get("evidence")
        if not isinstance(name, str) or not _ID.fullmatch(name):
            return None
        step, rank = (
            value if type(value) is int and 0 <= value < 10**9 else -1
            for value in (found.get("step"), found.get("rank"))
        )
        said = shown(said, 160).replace("`", "") if isinstance(said, str) else ""
        return cls(name, found["level"] == "wrong", step, rank, said, source)


@dataclass(frozen=True)
class Evidence:
    """What was read, and what it amounts to.

    `decisive` holds the lines to believe, most telling first. `first` is the first failure, or the
    last step of a rank that is behind. `is_log`: whether it is a log, not somebody's own words.
    `left_out` says in one sentence what of a folder was not read, and `numbers` what the numbers
    show that is no fault. `seen` is the entry of the fault that the numbers show; "fault" where no
    entry explains it; "sound" where the numbers show no fault and nothing failed. `victims` says in
    one sentence which ranks only lost another one, where none tells of its own failure. `probed`
    holds what a probe's report says.
    """

    lines: list[Line]
    failures: list[Failure]
    decisive: list[Line]
    first: Line | None
    ranks: tuple[int, ...]
    is_log: bool
    left_out: str = ""
    numbers: str = ""
    seen: str = ""
    victims: str = ""
    probed: tuple[Probed, ...] = ()

    def failed(self) -> bool:
        """Return whether a line tells of a failure that wasn't survived."""
        return any(line.kind in ("exception", "failure") for line in self.lines)


def disagreement(found: Evidence, line: Line) -> str:
    """Return one sentence where the line that a match rests on isn't the first failure; else "".

    A log may hold lines that its program didn't write, so neither of the two is hidden. The
    sentence holds no text of the log.
    """
    first = found.first
    if first is None or line.kind not in ("exception", "failure", "message"):
        return ""
    beside = line.source == first.source and 0 <= line.number - first.number <= MESSAGE
    if beside or line.says("secondary") or first.says("secondary"):
        return ""
    return (
        f"The match rests on {_place(line)}, the first failure is {_place(first)}; "
        "one of them may not belong to this run's end."
    )


def _place(line: Line) -> str:
    return f"line {line.number}" + (f" of rank {line.rank}" if line.rank is not None else "")


def judge(
    lines: list[Line], silent: frozenset[int] = frozenset(), pasted: bool = False
) -> Evidence:
    """Return the evidence in these lines, and change the kinds of some of them.

    `silent` are the ranks that left no line. `pasted`: a person may have written some of the lines.
    """
    failures: list[Failure] = []
    places: list[int] = []
    frames: dict[int | None, list[Line]] = {}
    for at, line in enumerate(lines):
        if line.kind == "trace":
            frames[line.rank] = []
        elif line.kind == "frame":
            frames.setdefault(line.rank, []).append(line)
        elif line.kind in ("exception", "failure"):
            failures.append(
                Failure(
                    line,
                    (line.says("secondary") and not _own_by_nccl(at, lines))
                    or _lost_by_nccl(at, lines),
                    tuple(frames.pop(line.rank, ())),
                )
            )
            places.append(at)
    routine, end = routine_of(lines, pasted), []
    if routine:
        failures, end = _lasting(failures, places, lines, routine)
    ranks = tuple(sorted({line.rank for line in lines if line.rank is not None}))
    wrapped = {id(f) for f in failures if f.line.says("wrapper")}
    first = first_failure([f for f in failures if id(f) not in wrapped] or failures, lines, silent)
    for failure in failures:
        for frame in failure.frames if failure.secondary else ():
            if "backward" in frame.text:  # that a rank waited there says nothing of the backward
                frame.kind = "trace"
    for line in clean_up(failures, lines):
        line.kind = "consequence"
    failures = [f for f in failures if f.line.kind != "consequence"]
    victims = only_victims(failures, lines, silent)
    lines, failures = _consequences(lines, failures, first)
    telling = [f for f in failures if id(f) not in wrapped]
    decisive = _decisive(telling or failures, first, lines, end)
    is_log = (
        bool(failures or (routine and routine.places))
        or len(ranks) > 1
        or any(line.kind in ("warning", "frame", "trace") for line in lines)
    )
    if routine and not failures and any(is_sentence(line.text) for line in end):
        is_log = False  # what somebody says of a run that goes on
    sound = bool(routine and routine.places) and not (failures or first or routine.told)
    return Evidence(
        lines,
        failures,
        decisive,
        first,
        ranks,
        is_log,
        seen="sound" if sound else "",
        victims=victims,
    )


def _lasting(
    failures: list[Failure], places: list[int], lines: list[Line], routine: Routine
) -> tuple[list[Failure], list[Line]]:
    """Of a long log: the failures that weren't survived, and what it ends with.

    Its plain lines get their kinds. A rank's own failure counts although routine follows, as long
    as there is no other: `torchrun --tee 3` may write what a program printed after its traceback.
    A launcher's words on an end, or a line that only says "error", aren't another failure.
    """
    over = set(survived(places, lines, routine))
    empty = launcher_talk(lines) if over else {}
    ends = [
        f
        for f, at in zip(failures, places)
        if at not in over and not f.secondary and not only_reports(f)
    ]
    own = any(empty.get((f.line.source, f.line.number)) != "" for f in ends)
    kept = [
        (f, at) for f, at in zip(failures, places) if at not in over or not (own or f.secondary)
    ]
    if not kept and not routine.told:
        kept = list(zip(failures, places))
    lasting = {at for _, at in kept}
    for at in over - lasting:
        lines[at].kind = "aside"
    set_apart(lines, sorted(lasting), routine)
    return [f for f, _ in kept], [lines[at] for at in routine.told]


def _lost_by_nccl(at: int, lines: list[Line]) -> bool:
    """Whether the three lines after NCCL's own tell that a peer is gone.

    As after "NCCL error in: ProcessGroupNCCL.cpp:1970, internal error".
    """
    if not lines[at].says("nccl error"):
        return False
    near = [line for line in lines[at + 1 : at + 1 + MESSAGE * 8] if line.rank == lines[at].rank]
    return any(line.says("lost peer") for line in near[:3])


def _own_by_nccl(at: int, lines: list[Line]) -> bool:
    """Whether NCCL says near its own error that this rank alone is at fault.

    As "Error while creating shared memory segment /dev/shm/nccl-1YsMbG" after "unhandled system
    error" or before it.
    """
    if not lines[at].says("nccl error"):
        return False
    near = lines[max(at - MESSAGE * 8, 0) : at + 1 + MESSAGE * 8]
    return any(line.says("own nccl") and line.rank == lines[at].rank for line in near)


def _consequences(lines: list[Line], failures: list[Failure], first: Line | None):
    """Remove lost peers and later attempts from the failures once a rank's own exception is known.

    Timeouts stay, because they may be the cause.
    """
    if first is None or first.kind != "exception" or first.rank is None or first.says("lost peer"):
        return lines, failures
    attempt = attempt_of(first.source)
    lost = {
        id(f.line)
        for f in failures
        if f.line.says("lost peer")
        or (attempt is not None and (attempt_of(f.line.source) or 0) > attempt)
    }
    lost |= {id(frame) for f in failures if id(f.line) in lost for frame in f.frames}
    changed = [line if id(line) not in lost else line.of_kind("consequence") for line in lines]
    return changed, [f for f in failures if id(f.line) not in lost]


def _is_empty(line: Line) -> bool:
    """Whether a launcher only says that a rank raised something, or that it ended the rank."""
    code = line.sign("exit code")
    return bool(code) and ("1" in code or "-15" in code)


def _decisive(
    failures: list[Failure], first: Line | None, lines: list[Line], end: list[Line]
) -> list[Line]:
    """At most 12 lines to judge by.

    The first failure with its message and innermost frames, then other failures, then the end of a
    long log, then warnings.
    """
    chosen: list[Line] = []
    seen = set()

    def add(line: Line) -> None:
        if len(chosen) == 12 or _NOISE.match(line.text):
            return
        shape = _NUMBER.sub("#", line.text.strip())
        if shape not in seen:
            seen.add(shape)
            chosen.append(line)

    def is_first(line: Line) -> bool:  # `first` may be a copy without its rank
        return first is not None and (line.source, line.number) == (first.source, first.number)

    ordered = sorted(
        failures,
        key=lambda f: (
            not is_first(f.line),
            _is_empty(f.line),
            f.secondary,
            f.line.kind != "exception",
            -f.line.number,
        ),
    )
    messages = [line for line in lines if line.kind == "message" and not line.says("advice")]
    for failure in ordered[:4]:
        add(failure.line)
        for line in messages:
            if (
                0 < line.number - failure.line.number <= MESSAGE
                and line.source == failure.line.source
                and line.rank == failure.line.rank
            ):
                add(line)
        for frame in [f for f in failure.frames if f.kind == "frame" and f.says("frame")][-2:]:
            add(frame)
    if first:
        add(first)
    end = [line for line in end if not line.says("field", "no cause", "rule")]
    for line in end if len(end) <= ENDING else [*end[: ENDING // 2], *end[-ENDING // 2 :]]:
        add(line)
    for line in reversed(lines):
        if line.kind == "warning":
            add(line)
    return chosen


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
    crashed = first.kind == "exception" or (
        first.kind == "failure" and "terminate called" not in first.text
    )
    killed = not crashed and _is_killed(first, found.lines)
    lost = _lost(found, first, anywhere=killed) if crashed or killed else set()
    if not lost:
        return found
    since: dict[tuple[str, int | None], int] = {}
    for line in found.lines:
        if line.rank in lost and (
            line.kind in _TALK or (line.kind == "aside" and line.says("secondary"))
        ):
            since.setdefault((line.source, line.rank), line.number)

    def is_theirs(line: Line) -> bool:
        if line.rank is None:
            return (killed or _is_after(line, first)) and (who(line) in lost or _is_end(line))
        return line.number >= since.get((line.source, line.rank), line.number + 1)

    dropped = {id(line) for line in found.lines if is_theirs(line)}
    return replace(
        found,
        lines=[line for line in found.lines if id(line) not in dropped],
        failures=[failure for failure in found.failures if id(failure.line) not in dropped],
        decisive=[line for line in found.decisive if id(line) not in dropped],
    )


def _without_clean_up(found: Evidence) -> Evidence:
    kept = [
        line
        for line in found.lines
        if line.kind != "consequence" or not line.says("ended rank", "ended code", "ended signal")
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
        told = line.kind == "consequence" or line.says("secondary")
        if rank not in lost:
            lost[rank] = told and (anywhere or _is_after(line, first))
        elif line.kind == "exception" and not told:
            lost[rank] = False
    return {rank for rank, only in lost.items() if only}
