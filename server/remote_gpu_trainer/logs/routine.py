"""Find what a long log says over and over, and what is said besides. Python 3.8.

A run that goes on writes the same lines with other numbers. Where they end, the run ended; a
failure after which they go on was survived. Short reports are left as they are, because people cut
them to what matters.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from .kinds import ASIDE, EXCEPTION, MESSAGE, PLAIN, ROUTINE, TOLD, WARNING
from .lines import MESSAGE_LINES, Line
from .prose import is_complaint, is_sentence

LONG = 30  # lines from which a report is a log that nobody cut
REPEATS = 3  # lines of one form that make it routine
LATE = 0.4  # a form first seen in this last share of a log is new, not routine
NEAR_BEFORE, NEAR_AFTER = 12, 6  # lines around a failure that belong to it
PAUSE = 15  # lines without a sentence that may stand within what a person wrote
BESIDE = 2  # lines before and after a complaint that count with it
GOES_ON = 2  # routine lines of a rank after its failure show that it survived

_PLAIN = frozenset((PLAIN, MESSAGE))
_START = re.compile(r"\s*([^\d/]{4,40})")
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"[A-Za-z]{3,}")


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
