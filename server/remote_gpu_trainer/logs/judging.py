"""Judge lines: which failure came first, which lines decide, and what was only a consequence."""

from __future__ import annotations

import re

from .evidence import Evidence
from .first_failure import attempt_of, first_failure, only_reports
from .lines import MESSAGE, Line
from .prose import is_sentence
from .routine import Routine, routine_of, set_apart, survived
from .waiting import Failure, clean_up, only_victims
from .wrapping import launcher_talk

# How lines begin that tell nothing.
_NOISE = re.compile(r"\W*$|[\s=*#_~-]{6,}|Root Cause|Other Failures|\s*\[\d+\]:\s*$|-+$")
_NUMBER = re.compile(r"\d+")
ENDING = 6  # lines of the end of a long log to judge by


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
