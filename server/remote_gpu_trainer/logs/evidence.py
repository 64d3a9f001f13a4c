"""What reading a log amounts to: the lines, those to believe, and what failed first. Python 3.8."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..text.masking import shown
from .kinds import EXCEPTION, FAILED, FAILURE, FRAME
from .lines import MESSAGE_LINES, Line

MOST_DECISIVE = 12  # lines to believe, by which a log is judged
# The outermost functions of a traceback that nobody caught: of a program, a process, a thread.
OUTERMOST = (
    "<module>",
    "_run_module_as_main",
    "_bootstrap",
    "_bootstrap_inner",
    "_wrap",
    "worker",
)
MAIN = "main"  # the outermost too where people cut the frame that called it
_ID = re.compile(r"(?:K8S|[A-Z]{1,6})[0-9]{1,3}[a-z]?")  # of an entry


@dataclass(frozen=True)
class Probed:
    """A finding of the probe's report on the first steps of a run.

    `wrong`: it proves that the entry `id` applies; else it is a hint. `step` and `rank` are -1
    where they aren't known. `said` is the probe's sentence, masked and short. `source` is the name
    of the report.
    """

    id: str
    wrong: bool
    step: int
    rank: int
    said: str
    source: str

    @classmethod
    def of(cls, item: object, source: str) -> Probed | None:
        """Return the finding in JSON of unknown origin, None for what can't be one."""
        if not isinstance(item, dict) or item.get("level") not in ("wrong", "hint", "note"):
            return None
        entry, sentence = item.get("id"), item.get("evidence")
        if not isinstance(entry, str) or not _ID.fullmatch(entry):
            return None
        said = shown(sentence, 160).replace("`", "") if isinstance(sentence, str) else ""
        wrong = item["level"] == "wrong"
        return cls(entry, wrong, _count(item.get("step")), _count(item.get("rank")), said, source)


def _count(value: object) -> int:
    """A number of JSON that can be a step or a rank, -1 for any other value."""
    return value if type(value) is int and 0 <= value < 10**9 else -1


@dataclass(frozen=True)
class Failure:
    """What ended a rank, or seems to have ended it.

    `secondary`: a survivor may say this when a peer is gone. `frames`: the calls of its traceback,
    outermost first.
    """

    line: Line
    secondary: bool
    frames: tuple[Line, ...] = ()

    def is_caught(self) -> bool:
        """Return whether the program itself caught an exception and printed its traceback."""
        return self.outermost() not in ("", MAIN, *OUTERMOST)

    def may_be_caught(self) -> bool:
        """Return whether nothing in a traceback shows that nobody caught the exception."""
        return self.outermost() not in OUTERMOST

    def outermost(self) -> str:
        """Return the function of the outermost frame of the traceback, "" without one."""
        frames = [frame.sign("frame") for frame in self.frames if frame.kind == FRAME]
        return next((frame[2] or "<module>" for frame in frames if frame), "")


@dataclass(frozen=True)
class Evidence:
    """What was read, and what it amounts to.

    `lines` are all that count, `failures` those of them that tell of a failure. `decisive` holds
    the lines to believe, most telling first. `first` is the first failure, or the last step of a
    rank that is behind; None without either, and where somebody's Ctrl-C ended all. `ranks` are
    those that wrote a line. `is_log`: whether it is a log, not somebody's own words. `is_report`: a
    file holds somebody's own words.

    `left_out` is a sentence on what of a folder was not read. `numbers` is one on what the numbers
    show that is no fault. `victims` is one on the ranks that only lost another one, where none
    tells of a failure of its own. Each is "" where there is nothing to say.

    `older` is one on faults in a kernel log that ended before its end.

    `seen` is the entry of the fault that the numbers show; "fault" where no entry explains it;
    "sound" where the numbers show no fault and nothing failed; else "". `probed` holds the findings
    of a probe's report.

    `of_file`: it came as a file, so that no person wrote it. `read` is a sentence on what of it was
    looked at: which lines, and which of its runs. `ended` is one on who ended the run from outside,
    `own` one on an exception that the user's own file raised. `says_all`: no entry could add to
    its text. `went_on`: the program caught or only logged each failure, and went on.
    `is_compared`: what a good run also printed was left out.

    Of several ranks: `places` says in one line where each stood. `culprits` are the lines of those
    that failed on their own, where several did. `how` is what the first one did instead of failing,
    as in "went silent"; "" where it failed. `quoted` are the lines that decide. `check` is what to
    look at first. `job` is the number that Slurm gave the run, "" without one.

    `ended_as` is what `runner.failures` calls the end that `ended` tells of. `failed_twice`: the
    last two runs, or attempts, ended at the same step with the same words. `came_to_end` is the
    number of the line at the end that tells that training is over, 0 without one. `calls_differ`:
    ranks stood in different collective calls. `last_words` are the new lines with which a log ends
    that outlived all failures, or had none; none where it ends in its routine or tells its end.
    `standstill` is a sentence on a run that stands still while its log goes on, "" for any other.
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
    older: str = ""
    probed: tuple[Probed, ...] = ()
    of_file: bool = False
    read: str = ""
    ended: str = ""
    own: str = ""
    says_all: bool = False
    went_on: bool = False
    is_compared: bool = False
    places: str = ""
    culprits: tuple[Line, ...] = ()
    how: str = ""
    quoted: tuple[Line, ...] = ()
    check: str = ""
    job: str = ""
    ended_as: str = ""
    failed_twice: bool = False
    came_to_end: int = 0
    calls_differ: bool = False
    last_words: tuple[Line, ...] = ()
    is_report: bool = False
    standstill: str = ""

    def failed(self) -> bool:
        """Return whether a line tells of a failure that wasn't survived."""
        return any(line.kind in (EXCEPTION, FAILURE) for line in self.lines)


def disagreement(evidence: Evidence, line: Line) -> str:
    """Return a sentence if the line that a match rests on isn't the first failure, else "".

    A log may hold lines that its program didn't write, so neither of the two is hidden. The
    sentence holds no text of the log.
    """
    first = evidence.first
    if first is None or line.kind not in FAILED:
        return ""
    beside = line.source == first.source and 0 <= line.number - first.number <= MESSAGE_LINES
    is_of_all = line.says("mismatch") and first.says("mismatch")  # each rank says it
    if beside or is_of_all or line.says("secondary") or first.says("secondary"):
        return ""
    return (
        f"The match rests on {_place(line)}, the first failure is {_place(first)}; "
        "one of them may not belong to this run's end."
    )


def _place(line: Line) -> str:
    return f"line {line.number}" + (f" of rank {line.rank}" if line.rank is not None else "")
