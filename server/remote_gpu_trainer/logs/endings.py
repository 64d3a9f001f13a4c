"""Say in words who ended a run from outside: its user, or a scheduler. Python 3.8.

Such a run has no failure of its own to be found. Where memory or a time limit was the reason, that
is said too. What counts as an end stands in `ends.TABLE`.
"""

from __future__ import annotations

from typing import NamedTuple

from .ends import STATUS, class_of_end, end_in, is_interrupt
from .kinds import APART, EXCEPTION, FAILURE, PLAIN, WARNING
from .lines import Line
from .waiting import TIMED_OUT, Failure

BEHIND = 25  # lines of other processes that may stand behind a notice of the end


class Ending(NamedTuple):
    """An end from outside: the line that tells of it, and a sentence about it.

    `is_reasoned`: a scheduler told it, with its reason. `name` is what `runner.failures` calls it.
    """

    line: Line
    sentence: str
    is_reasoned: bool
    by: str
    name: str


def ending_of(lines: list[Line]) -> Ending | None:
    """Return how the run of these lines was ended from outside, None where nothing says so.

    A run that goes on behind a notice wasn't ended by it. Several notices of one end are one: the
    first that gives a reason counts.
    """
    found: Ending | None = None
    for source in dict.fromkeys(line.source for line in lines):
        own = [line for line in lines if line.source == source]
        for line in own[_last_words(own) :]:
            ending = _ending_in(line)
            if ending and (found is None or _says_more(ending, found)):
                found = ending
    return None if found and found.by == STATUS and not _is_all(lines) else found


def _is_all(lines: list[Line]) -> bool:
    """Whether the notices of an end are all that failed: one process may have ended another."""
    return all(_ending_in(line) for line in lines if line.kind in (EXCEPTION, FAILURE))


def is_interrupted(failures: list[Failure]) -> bool:
    """Return whether somebody's Ctrl-C is all that these failures tell of.

    The ranks that lost one which it ended are told too. A collective whose time was over before
    hung, and that is why somebody pressed Ctrl-C.
    """
    lines = [f.line for f in failures if not (f.secondary and _is_left_behind(f.line))]
    return any(map(is_interrupt, lines)) and all(
        is_interrupt(line) or line.says("exit", "wrapper") for line in lines
    )


def _is_left_behind(line: Line) -> bool:
    return not (is_interrupt(line) or TIMED_OUT.search(line.text))


def _ending_in(line: Line) -> Ending | None:
    told = end_in(line)
    if told is None or told[0].own:
        return None
    end, hit = told
    sentence = end.said(hit)
    if not sentence:
        return None
    is_reasoned = end.name == "slurm" and bool(hit[3])
    return Ending(
        line, f"{sentence} (line {line.number}).", is_reasoned, end.name, class_of_end(end, hit)
    )


def _says_more(ending: Ending, before: Ending) -> bool:
    """Whether this is another notice of Slurm's, and gives a reason that the one before doesn't.

    That of a job says more than that of a step, which ends when a task of it failed too.
    """
    gives = (ending.is_reasoned, bool(ending.name)) > (before.is_reasoned, bool(before.name))
    return ending.by == before.by == "slurm" and gives


def _last_words(lines: list[Line]) -> int:
    """The place from which on a notice of the end may stand: the last lines that aren't blank."""
    plain = [at for at, line in enumerate(lines) if line.kind in (PLAIN, WARNING, *APART)]
    return plain[-BEHIND] if len(plain) >= BEHIND else 0
