"""What reading a log amounts to: the lines, those to believe, and what failed first. Python 3.8."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..text.masking import shown
from .kinds import EXCEPTION, FAILED, FAILURE
from .lines import MESSAGE_LINES, Line
from .waiting import Failure

_ID = re.compile(r"(?:K8S|[A-Z]{1,6})[0-9]{1,3}[a-z]?")  # of an entry


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
        return any(line.kind in (EXCEPTION, FAILURE) for line in self.lines)


def disagreement(found: Evidence, line: Line) -> str:
    """Return one sentence where the line that a match rests on isn't the first failure; else "".

    A log may hold lines that its program didn't write, so neither of the two is hidden. The
    sentence holds no text of the log.
    """
    first = found.first
    if first is None or line.kind not in FAILED:
        return ""
    beside = line.source == first.source and 0 <= line.number - first.number <= MESSAGE_LINES
    if beside or line.says("secondary") or first.says("secondary"):
        return ""
    return (
        f"The match rests on {_place(line)}, the first failure is {_place(first)}; "
        "one of them may not belong to this run's end."
    )


def _place(line: Line) -> str:
    return f"line {line.number}" + (f" of rank {line.rank}" if line.rank is not None else "")
