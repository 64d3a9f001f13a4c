"""Judge lines: what failed, what was survived, which lines decide, and what is routine. Python 3.8.

A run that goes on writes the same lines with other numbers. Where these end, the run ended; a
failure after which they go on was survived. Short reports are left as they are, because people cut
them to what matters. `ranks` says which rank failed first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from .detectors import template_of
from .ends import came_to_end, ending_of, is_interrupted, is_progress, shows_course, slurm_job
from .evidence import MOST_DECISIVE, Evidence, Failure
from .kinds import (
    ASIDE,
    EXCEPTION,
    FAILURE,
    FRAME,
    MESSAGE,
    PLAIN,
    ROUTINE,
    TOLD,
    TRACE,
    WARNING,
)
from .launcher import launcher_talk
from .lines import MESSAGE_LINES, Line
from .prose import ends_well, is_complaint, is_sentence
from .ranks import JudgedLog, judge_ranks, only_reports, telling

# How lines begin that tell nothing.
_NOISE = re.compile(r"\W*$|[\s=*#_~-]{6,}|Root Cause|Other Failures|\s*\[\d+\]:\s*$|-+$")
ENDING = 6  # lines of the end of a long log to judge by
MOST_FAILURES = 4  # failures whose messages and frames are among them
INNERMOST = 2  # frames of each of these
NEAR_NCCL = 8 * MESSAGE_LINES  # lines before and after an error of NCCL that belong to it
LONG = 30  # lines from which a report is a log that nobody cut
REPEATS = 3  # lines of one form that make it routine
LATE = 0.4  # a form first seen in this last share of a log is new, not routine
NEAR_BEFORE, NEAR_AFTER = 12, 6  # lines around a failure that belong to it
PAUSE = 15  # lines without a sentence that may stand within what a person wrote
BESIDE = 2  # lines before and after a complaint that count with it
LAST_WORDS = 4  # new lines at the end of a log that are told
GOES_ON = 2  # routine lines of a rank after its failure show that it survived

_PLAIN = frozenset((PLAIN, MESSAGE))
_START = re.compile(r"\s*([^\d/]{4,40})")
_DIGIT = re.compile(r"\d")
# perplexity              =   103.6809       wandb: Find logs at: wandb/offline-run-20261122_105624
_RESULT = re.compile(r"[\w /.-]{2,60}[=:] {0,20}-?[\d.]{1,20}(?:e[+-]\d+)?%?$|(?:wandb|swanlab): ")
_WORD = re.compile(r"[A-Za-z]{3,}")


def judge_lines(
    lines: list[Line], silent: frozenset[int] = frozenset(), pasted: bool = False
) -> Evidence:
    """Return the evidence in these lines; its lines are the same, some with another kind.

    `silent` are the ranks that left no line. `pasted`: a person may have written some of the lines.
    """
    found = _failures_in(lines)
    routine = routine_of(lines, pasted)
    if routine is None:
        log = JudgedLog(lines, list(found.values()), [])
    else:
        log = _without_survived(lines, found, routine)
    verdict = judge_ranks(log, silent)
    log = verdict.log
    ranks = tuple(sorted({line.rank for line in lines if line.rank is not None}))
    last = _last_words(log, routine, pasted)
    evidence = Evidence(
        log.lines,
        log.failures,
        _decisive(log, last),
        log.first,
        ranks,
        _is_log(log, routine, ranks),
        seen="sound" if _is_sound(log, routine, pasted) and not last else "",
        victims=verdict.victims,
        job=slurm_job(lines),
        calls_differ=verdict.calls_differ,
        last_words=tuple(last),
    )
    if is_interrupted(log.failures):
        return replace(evidence, first=None, victims="")
    if len(ranks) + len(silent) + len(verdict.summary.ended) < 2:
        return evidence
    from . import rank_story  # here for a fast start: most logs are of one rank

    return rank_story.with_ranks(evidence, verdict.failures, verdict.summary, silent)


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


def _without_survived(
    lines: list[Line], failures: dict[int, Failure], routine: Routine
) -> JudgedLog:
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
    return JudgedLog(lines, list(lasting.values()), [lines[at] for at in routine.told])


def _is_log(log: JudgedLog, routine: Routine | None, ranks: tuple[int, ...]) -> bool:
    """Whether the lines are a log, not somebody's own words."""
    if routine and not log.failures and any(is_sentence(line.text) for line in log.end):
        return False  # what somebody says of a run that goes on
    return (
        bool(log.failures or (routine and routine.places))
        or len(ranks) > 1
        or any(line.kind in (WARNING, FRAME, TRACE) for line in log.lines)
    )


def _last_words(log: JudgedLog, routine: Routine | None, pasted: bool) -> list[Line]:
    """The new lines that a log ends with of which nothing says how it ended.

    What a person says are none.
    """
    if log.failures or log.first or ending_of(log.lines):
        return []
    if pasted and (routine is None or any(is_sentence(log.lines[at].text) for at in routine.told)):
        return []
    return last_words(log.lines)


def _is_sound(log: JudgedLog, routine: Routine | None, pasted: bool) -> bool:
    """Whether a log repeats itself to its end, and nothing failed, lags behind or is told.

    A file has to say how far a run came: one of stacks repeats itself too.
    """
    return (
        routine is not None
        and bool(routine.places)
        and not (log.failures or log.first or routine.told)
        and (pasted or shows_course(log.lines))
    )


def _decisive(log: JudgedLog, last: list[Line]) -> list[Line]:
    """At most MOST_DECISIVE lines to judge by, each template once, most telling first.

    `last` are the new lines that a log without a failure ends with.
    """
    chosen: list[Line] = []
    seen: set[str] = set()
    for line in (*reversed(last), *_by_weight(log)):
        template = template_of(line.text.strip())
        if template in seen or _NOISE.match(line.text):
            continue
        seen.add(template)
        chosen.append(line)
        if len(chosen) == MOST_DECISIVE:
            break
    return chosen


def _by_weight(log: JudgedLog) -> Iterator[Line]:
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


def _ordered(log: JudgedLog) -> list[Failure]:
    """The failures, most telling first: the first one, then exceptions of a rank's own, later ones
    before earlier ones, then lost peers, and last a launcher's word that a rank ended.
    """
    # `first` may be a copy without its rank.
    first = log.first and (log.first.source, log.first.number)
    return sorted(
        telling(log.failures),
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


@dataclass(frozen=True)
class Routine:
    """Places (indices) in a list of lines, each in order.

    `places`: routine lines. `told`: lines before the first or after the last routine line in which
    a person says what happens, or the log complains.
    """

    places: tuple[int, ...]
    told: tuple[int, ...]


def routine_of(lines: list[Line], pasted: bool) -> Routine | None:
    """Return what is routine in a log.

    None for a short report, and for one without routine and without anything told. `pasted`: a
    person may have written some of the lines.
    """
    sources: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        sources.setdefault(line.source, []).append(at)
    if len(sources) < 2:
        return _of_one(lines, pasted)
    places, told = [], []
    for own in sources.values():  # each rank's log has an end of its own
        part = _of_one([lines[at] for at in own], pasted)
        if part:
            places += [own[at] for at in part.places]
            told += [own[at] for at in part.told]
    return Routine(tuple(sorted(places)), tuple(sorted(told))) if places or told else None


def _of_one(lines: list[Line], pasted: bool) -> Routine | None:
    if len(lines) <= LONG:
        return None
    forms = [_form(line.text) for line in lines]
    last = {form: at for at, form in enumerate(forms)}
    new = set(forms).difference(forms[: -int(LATE * len(lines))])
    often = {
        form
        for form, count in Counter(forms).items()
        if count >= REPEATS and not (form in new and last[form] >= len(lines) - 1 - REPEATS)
    }
    places = tuple([at for at, form in enumerate(forms) if form in often and _repeats(lines[at])])
    start, stop = (places[0], places[-1]) if places else (len(lines), -1)
    told = tuple(
        dict.fromkeys(
            (*(_told_first(lines, start) if pasted else ()), *_told_last(lines, stop + 1, pasted))
        )
    )
    return Routine(places, told) if places or told else None


def survived(places: list[int], lines: list[Line], routine: Routine) -> list[int]:
    """Return those places of failures after which the same rank went on with its routine."""
    later: dict[tuple[str, int | None], list[int]] = {}
    for at in reversed(routine.places):
        last = later.setdefault((lines[at].source, lines[at].rank), [])
        if len(last) < GOES_ON:
            last.append(at)
    ends = {writer: last[-1] for writer, last in later.items() if len(last) == GOES_ON}
    return [at for at in places if at < ends.get((lines[at].source, lines[at].rank), -1)]


def last_words(lines: list[Line]) -> list[Line]:
    """Return the new lines that a log ends with, at most LAST_WORDS of each source.

    None where it ends in its routine or in progress, or says at its end that training is over: then
    nothing shows that it broke off. The lines of a long log have their kinds by `set_apart`.
    """
    sources: dict[str, list[Line]] = {}
    for line in lines:
        sources.setdefault(line.source, []).append(line)
    return [line for own in sources.values() for line in _new_at_end(own)]


def _new_at_end(lines: list[Line]) -> list[Line]:
    """The last new lines of one source, in order."""
    if came_to_end(lines):
        return []
    count = Counter(_form(line.text) for line in lines)
    new: list[Line] = []
    for line in reversed(lines):
        is_told = is_progress(line) or ends_well(line.text) or _RESULT.match(line.text.strip())
        is_calm = is_told and not is_complaint(line.text)
        if line.kind == ROUTINE or count[_form(line.text)] > 1 or is_calm:
            break
        new.append(line)
        if len(new) == LAST_WORDS:
            break
    return new[::-1]


def set_apart(lines: list[Line], failed: list[int], routine: Routine) -> list[Line]:
    """Return the lines of a long log, each plain one with its kind: routine, told, plain or aside.

    Lines near a failure stay plain; `failed` holds the places of failures. Where something failed
    or is told, warnings elsewhere are asides too.
    """
    often, told = set(routine.places), set(routine.told)
    near = {at for place in failed for at in range(place - NEAR_BEFORE, place + NEAR_AFTER + 1)}
    since = MESSAGE_LINES + 1
    judged = []
    for at, line in enumerate(lines):
        since = 0 if line.kind == EXCEPTION else since + 1
        kind = line.kind
        if at in often:
            kind = ROUTINE
        elif kind == PLAIN or (kind == MESSAGE and since > MESSAGE_LINES):
            kind = TOLD if at in told else PLAIN if at in near else ASIDE
        elif kind == WARNING and at not in near and (failed or told):
            kind = ASIDE
        judged.append(line if kind == line.kind else line.of_kind(kind))
    return judged


def _told_first(lines: list[Line], end: int) -> list[int]:
    """What a person wrote before a log: the first paragraphs, if each begins with a sentence."""
    head: list[int] = []
    for at in range(end):
        begins = at == 0 or lines[at].number > lines[at - 1].number + 1  # behind a blank line
        if begins and not is_sentence(lines[at].text):
            break
        if lines[at].kind in _PLAIN:
            head.append(at)
    return head if len(head) < len(lines) else []


def _told_last(lines: list[Line], start: int, pasted: bool) -> list[int]:
    """What follows the last routine.

    From where a person begins to say what happens; else what the log complains of, with the lines
    beside it.
    """
    plain = [at for at in range(start, len(lines)) if lines[at].kind in _PLAIN]
    begin = len(lines)
    for at in reversed(plain):
        if begin - at > PAUSE:
            break
        if is_sentence(lines[at].text, of_oneself=not pasted):
            begin = at
    if begin < len(lines):
        return [at for at in plain if at >= begin]
    wrong = {at for at in plain[-PAUSE:] if is_complaint(lines[at].text)}
    return [at for at in plain if not wrong.isdisjoint(range(at - BESIDE, at + BESIDE + 1))]


def _repeats(line: Line) -> bool:
    """Whether a line may belong to those that differ in their numbers only."""
    return line.kind == WARNING or (line.kind in _PLAIN and bool(_DIGIT.search(line.text)))


def _form(text: str) -> str:
    """A line up to its first number or path, or its first words where that is nothing."""
    start = _START.match(text)
    return start[1] if start else " ".join(_WORD.findall(text[:120])[:3])
