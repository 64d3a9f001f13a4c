"""Where one run ends and the next begins in a file, and whether two of them ended alike.

Python 3.8.

People append: `nohup python train.py >> log`, a shell script with a loop, a scheduler that writes
all jobs into one file. Only what a process or a scheduler prints at its start or end bounds a run:

- a start: `nohup: ignoring input`, a session that Slurm or `script` opens, the report that LSF
  writes before a job's output, Python's refusal to compile the program; the first words of a
  launcher, if a run failed or came to its end since its last ones;
- an end, as `ends.TABLE` lists them: a scheduler's notice that it killed the job, a shell's word on
  a process that died; or an exception that went through the program's outermost frame. An end
  bounds a run only if the file goes on with lines that no dying process prints, or with a progress
  bar that moves.

Repeated steps, a header of nvidia-smi or a second epoch 1 bound nothing: a run may resume, train
folds, or be watched. Several processes write at once in a distributed job, so that there an
exception of one of them is no end of the run.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..numbers.rows import Row
from ..readings.line import read
from .detectors import template_of
from .ends import (
    bounds,
    came_to_end,
    class_of,
    ending_of,
    is_frame_alone,
    is_progress,
    tells_end,
)
from .evidence import MAIN, OUTERMOST, Evidence
from .files import Unreadable
from .kinds import APART, EXCEPTION, FAILURE, FRAME, MESSAGE, PLAIN, SPOKEN, TRACE, WARNING
from .lines import MESSAGE_LINES, Line

# [default] Worker group FAILED. 2/3 attempts left; will restart worker group
RESTART = "will restart worker group"
MOST_COMPARED = 400  # characters of an error that are compared
STEPS_ON = 3  # lines behind a failure that tell of none, one of them of progress
GOES_ON = 3  # lines behind an end that no dying process prints
AHEAD = 200  # lines of a traceback at most
BEFORE = 400  # lines in which a count is looked for
REPORT = 70  # lines of an LSF report at most

# Above each form, one real line.
_START = re.compile(
    r"""(?:
        # nohup: ignoring input and appending output to 'nohup.out'
        nohup:\ (?:ignoring\ input|忽略输入)
        # srun: job 1234 queued and waiting for resources
        | (?:srun|salloc):\ (?:job|Pending\ job\ allocation)\ \d+\ (?:queued\ and\ waiting|$)
        | salloc:\ Granted\ job\ allocation\ \d+
        # Script started on 2026-11-20 10:00:00+00:00 [TERM="xterm"]
        | Script\ started(?:\ on|,)
        # Begin PBS Prologue Tue Nov 20 10:00:00 CST 2026 1700000000
        | Begin\ (?:PBS|Torque|SLURM|Slurm)\ Prolog
        # Submitted batch job 123456
        | Submitted\ batch\ job\ \d+$
    )""",
    re.X,
)
_STARTS = frozenset("nsSB")  # letters with which these begin
# What a launcher prints once at its start. It bounds a run if one ended before it in the file.
_LAUNCH = re.compile(
    r"""(?:
        # Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid
        .{0,160}Setting\ OMP_NUM_THREADS\ environment\ variable\ for\ each\ process
        # [2026-11-01 10:00:00,000] [INFO] [launch.py:145:main] WORLD INFO DICT: {'localhost': [0]}
        | .{0,160}\bWORLD\ INFO\ DICT:
        # The following values were not passed to `accelerate launch` and had defaults used instead:
        | The\ following\ values\ were\ not\ passed\ to\ `accelerate\ launch`
    )""",
    re.X,
)
_LAUNCHES = ("OMP_NUM_THREADS", "WORLD INFO DICT", "accelerate launch")
_LSF = re.compile(r"Sender: LSF System <")
_LSF_BEHIND = re.compile(r"The output \(if any\) follows")
_LSF_ABOVE = re.compile(r"The output \(if any\) is above this job summary")
# What dying processes, their launcher and their scheduler print behind an end.
_AFTERMATH = re.compile(
    r"""\s*(?:
        wandb: | swanlab: | srun: | slurmstepd: | sbatch: | scancel: | make: | =>> | ERROR\ conda
        | \[[WEI]\d*[\s\]] | .{0,60}(?:Killing\ subprocess|Main\ process\ received)
        | Exception\ ignored | During\ handling | The\ above\ exception | Fatal\ Python
        | Current\ thread | Thread\ 0x | Extension\ modules | terminate\ called | what\(\)
        | Aborted | Killed | Terminated | Segmentation | Resource\ usage | Exited\ with
        | Exit\ code | exit\ status | \S*resource_tracker | warnings\.warn
        | \^ | \*{3} | ={5,} | -{5,} | \#{5,} | \[\d+\]\s?[+-]?\s
        | (?:real|user|sys)\s | \d+:\d+:\d+ | (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[ ]
    )""",
    re.X,
)
# Resuming from checkpoint step 230      A new process says this, and then counts on.
_RESUMED = re.compile(r"\bresum(?:e|ed|ing)\b|\b(?:load|restor)(?:ed|ing)\b|恢复|断点", re.I)
_CHAINED = re.compile(r"\s*(?:During handling of the above|The above exception was the direct)")
# Words of a job of several processes, in lower case; the last ones only with a number behind them.
_MANY = (
    "torchrun", "torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic",
    "torch/distributed/run", "torch/distributed/launch", "torch/distributed/elastic", "mpirun",
    "horovodrun", "srun: error", "accelerate launch", "launch.py:", "ray::", "(pid=",
)  # fmt: skip
_RANKED = ("world_size", "world size", "rank")
_SEVERAL = re.compile(r"world[_ ]size\W{1,3}(?!1\b)\d|\brank ?[1-9]\b")
_FIRST_NUMBER = re.compile(r"([^\d]{3,60})(\d{1,12})")
# 39%|###   | 39/100 [00:12<00:19, 3.2it/s]
_BAR = re.compile(rb"(.{0,200}?)\d{1,3}%\|.{0,400}?(\d{1,12})/(\d{1,12}) \[")
MOST_TOLD = 3  # earlier runs that a sentence tells of


@dataclass(frozen=True)
class Run:
    """The lines of one run of a file, [begin, end), and the number of its first row there.

    A run may have rows of progress bars alone, which are no lines.
    """

    begin: int
    end: int
    row: int


@dataclass(frozen=True)
class Chosen:
    """The lines of the run to read, and the numbers of its first and last row.

    `said` is what an answer says of the runs of the file, "" where it holds one. `failed_twice`:
    this run ended at the same step and with the same words as the one before it.
    """

    lines: list[Line]
    numbers: tuple[int, int]
    said: str
    failed_twice: bool = False


def choose(
    lines: list[Line], run: int | None, rows: Sequence[Row] = (), whole: bool = False
) -> Chosen:
    """Return one run of a file: the one of this number from 1, None for the last, 0 for all.

    `rows` are those of the file, in which progress bars are looked for. With `whole` the lines
    aren't of a file, and all are taken. Raises Unreadable for a number that the file doesn't have.
    """
    runs = [Run(0, len(lines), 0)] if whole else runs_of(lines, rows)
    count = len(runs)
    if run is not None and run > count:
        has = "one run" if count == 1 else f"{count} runs"
        raise Unreadable(f"the file holds {has}, and run {run} was asked for; pass --run all")
    if count == 1 or run == 0:
        return Chosen(lines, (0, sys.maxsize), f"all {count} runs as one" if count > 1 else "")
    at = count - 1 if run is None else run - 1
    last = runs[at + 1].row - 1 if at < count - 1 else sys.maxsize
    chosen = runs[at]
    return Chosen(
        lines[chosen.begin : chosen.end],
        (chosen.row, last),
        _said(lines, runs, at, last),
        at > 0
        and same_end(
            lines[runs[at - 1].begin : runs[at - 1].end], lines[chosen.begin : chosen.end]
        ),
    )


def _said(lines: list[Line], runs: list[Run], at: int, last: int) -> str:
    """Which run was read, and how those before it ended."""
    to = f"to line {last}" if last < sys.maxsize else "on"
    which = f"run {at + 1} of {len(runs)}, from line {runs[at].row or 1} {to}"
    ends = [_end_of(lines, runs[number], number) for number in range(max(0, at - MOST_TOLD), at)]
    return "; ".join([which, *filter(None, ends)])


def _end_of(lines: list[Line], run: Run, number: int) -> str:
    """How an earlier run ended, "" if it didn't fail."""
    own = lines[run.begin : run.end]
    ending = ending_of(own)
    if ending:
        return f"run {number + 1}: {ending.sentence.rstrip('.')}"
    failed = [line for line in reversed(own) if line.kind in (EXCEPTION, FAILURE)]
    if not failed:
        return ""
    last = next((line for line in failed if line.kind == EXCEPTION), failed[0])
    return f"run {number + 1} ended with {class_of(last) or 'a failure'} (line {last.number})"


def last_exception(lines: list[Line]) -> str:
    """The name of the last exception in these lines, "" without one."""
    return next((class_of(line) for line in reversed(lines) if line.kind == EXCEPTION), "")


def runs_of(lines: list[Line], rows: Sequence[Row] = ()) -> list[Run]:
    """Return the runs in the lines of one file, in order. `rows` as in `choose`."""
    walk = _Walk(lines, rows)
    for at, line in enumerate(lines):
        walk.take(at, line)
    walk.bars_before(len(lines), sys.maxsize)
    starts = sorted({0: 0, **walk.starts}.items())
    ends = [*(begin for begin, _ in starts[1:]), len(lines)]
    runs: list[Run] = []
    for (begin, row), end in zip(starts, ends):
        run = Run(begin, end, row)
        is_empty = begin < end and not _has_content(lines[begin:end])
        if runs and (is_empty or not _has_content(lines[runs[-1].begin : runs[-1].end])):
            runs[-1] = Run(runs[-1].begin, end, runs[-1].row)
        else:
            runs.append(run)
    return runs


def _is_start(line: Line) -> bool:
    return line.text[:1] in _STARTS and bool(_START.match(line.text))


def _has_content(lines: list[Line]) -> bool:
    """Whether a run wrote anything of its own, or is told to have ended."""
    return any(
        bounds(line) or not (_is_start(line) or _AFTERMATH.match(line.text)) for line in lines
    )


class _Walk:
    """Walks once over the lines of a file and gathers where runs begin.

    `starts` maps the place of the first line of a run to the number of its first row. After an
    `end` the file goes on with another run once enough lines stand at the places `going` that no
    dying process prints. An exception ended a run `by_itself`, which proves less than the word of a
    scheduler. Whether one of the lines at `going` `progressed`, and the `bars` behind the end, are
    kept, so that each line and row is read once.
    """

    def __init__(self, lines: list[Line], rows: Sequence[Row]):
        self.lines, self.rows = lines, rows
        self.is_shared = _are_of_several_processes(lines)
        self.starts: dict[int, int] = {}
        self.end: Line | None = None
        self.by_itself = False
        self.going: list[int] = []
        self.progressed = False
        self.bars = Bars(rows, sys.maxsize)
        self.outermost = ""  # function of the outermost frame of the last traceback
        self.report = -1  # place of the last line of an LSF report
        self.before = PLAIN  # kind of the line before
        self.launched = False  # a launcher has started
        self.is_over = False  # since then a failure or the words of an end were seen

    def take(self, at: int, line: Line) -> None:
        """Take the next line, at this place."""
        before, self.before = self.before, line.kind
        if at <= self.report:
            return
        self.bars_before(at, line.number)
        if line.kind == TRACE:
            self._begin_traceback(at)
        frame = line.sign("frame") if line.kind == FRAME else None
        if frame and not self.outermost:
            self.outermost = frame[2] or "<module>"
        self.report = _end_of_report(self.lines, at, _LSF_BEHIND)
        if self._is_launch(line):
            self._start(_above_rule(self.lines, at))
            return
        if self.report >= 0 or _is_start(line):
            self.launched = self.is_over = False
            self._start(_above_rule(self.lines, at))
            return
        if _is_refused_program(line, before) and not (at and is_frame_alone(self.lines[at - 1])):
            self._start(at, keep_end=True)
        self._look_for_end(at, line)

    def _is_launch(self, line: Line) -> bool:
        """Whether a launcher starts here behind the end of what one started before."""
        if any(words in line.text for words in _LAUNCHES) and _LAUNCH.match(line.text):
            is_next = self.launched and self.is_over
            self.launched, self.is_over = True, False
            return is_next
        if self.launched and not self.is_over:
            self.is_over = line.kind in (EXCEPTION, FAILURE) or tells_end(line)
        return False

    def bars_before(self, at: int, number: int) -> None:
        """Take the progress bars between an exception and the line at this place, by its number.

        A bar that moves is of a program that runs.
        """
        if self.end is None or not self.by_itself or self.going:
            return
        row = next(self.bars.moving_before(number), None)
        if row is not None:
            self._start(at, row=row)

    def _start(self, at: int, row: int = 0, keep_end: bool = False) -> None:
        if at:
            self.starts[at] = row or self.lines[at].number
        if not keep_end:
            self._note_end(None)

    def _note_end(self, end: Line | None, by_itself: bool = False) -> None:
        """Note the end of a run, or that there is none to go on behind."""
        self.end, self.by_itself, self.going, self.progressed = end, by_itself, [], False
        if end is not None and by_itself:
            self.bars = Bars(self.rows, end.number)

    def _begin_traceback(self, at: int) -> None:
        self.outermost = ""
        if self.end is not None and not self.is_shared and _begins_with(self.lines, at, self.end):
            self._start(self.going[0] if self.going else at)

    def _look_for_end(self, at: int, line: Line) -> None:
        """Note an end, or that the file goes on behind one."""
        self.report = _end_of_report(self.lines, at, _LSF_ABOVE)
        is_killed = self.report >= 0 or bounds(line)
        is_raised = line.kind == EXCEPTION and self.outermost == "<module>" and not self.is_shared
        if is_killed or (is_raised and not _is_chained(self.lines, at)):
            self._note_end(line, by_itself=not is_killed)
        elif self.end is not None and _goes_on(line, self.end):
            self.going.append(at)
            self.progressed = self.progressed or (self.by_itself and is_progress(line))
            if len(self.going) < GOES_ON or (self.by_itself and not self.progressed):
                return
            if _counts_on(self.lines, self.end, self.going):
                self._note_end(None)
            else:
                self._start(self.going[0])


def _above_rule(lines: list[Line], at: int) -> int:
    """The place of a line, or of the rule above it."""
    return at - 1 if at and re.match(r"[-*]{20,}$", lines[at - 1].text) else at


def _is_refused_program(line: Line, before: str) -> bool:
    """Whether Python names a place in the program that it can't compile: a frame of no function.

    Within a traceback such a frame is about an imported module.
    """
    return is_frame_alone(line) and before not in (FRAME, TRACE)


def _are_of_several_processes(lines: list[Line]) -> bool:
    """Whether several processes of one job wrote these lines."""
    if any(line.rank is not None for line in lines):
        return True
    whole = "\n".join([line.text for line in lines]).lower()
    if any(word in whole for word in _MANY):
        return True
    return any(word in whole for word in _RANKED) and bool(_SEVERAL.search(whole))


def _begins_with(lines: list[Line], at: int, end: Line) -> bool:
    """Whether a traceback behind an end is of another program.

    Programs that a scheduler kills may still print one.
    """
    if end.text.startswith(("slurmstepd", "=>>")):
        return False
    return _is_of_a_program(lines, at) and not _is_chained(lines, at - 3)


def _end_of_report(lines: list[Line], at: int, form: re.Pattern) -> int:
    """The place of the last line, of this form, of the LSF report that begins here; else -1."""
    if not _LSF.match(lines[at].text):
        return -1
    for place in range(at, min(at + REPORT, len(lines))):
        if form.match(lines[place].text):
            return place
    return -1


def _is_of_a_program(lines: list[Line], at: int) -> bool:
    """Whether the traceback that begins here is the last word of a program, not of a launcher."""
    is_first = True
    for line in lines[at + 1 : at + AHEAD]:
        frame = line.sign("frame") if line.kind == FRAME else None
        if frame and is_first and frame[2] not in (None, "<module>"):
            return False
        if frame:
            is_first = False
        if line.says("own frame", "wrapper"):
            return False
        if line.kind == EXCEPTION:
            return not is_first
        if line.kind == TRACE:
            return False
    return False


def _counts_on(lines: list[Line], end: Line, going: list[int]) -> bool:
    """Whether the lines behind an end count on where the lines before it stopped.

    Then the program survived: a new one would count from its start, or say that it resumes.
    """
    if any(_RESUMED.search(lines[at].text) for at in going):
        return False
    behind = {}
    for at in going:
        number = _FIRST_NUMBER.match(lines[at].text)
        if number:
            behind.setdefault(number[1], int(number[2]))
    if not behind:
        return False
    for line in reversed(lines[max(0, going[0] - BEFORE) : going[0]]):
        if line.number > end.number:
            continue
        number = _FIRST_NUMBER.match(line.text)
        if number and number[1] in behind:
            return behind[number[1]] > int(number[2])
    return False


class Bars:
    """The progress bars behind a row of a file. Each row is read once, however often one asks."""

    def __init__(self, rows: Sequence[Row], behind: int):
        self.rows = rows
        self.at = bisect_right(rows, (behind, b"\xff"))  # place of the next row to read
        self.seen: dict[bytes, tuple[int, tuple]] = {}

    def moving_before(self, number: int) -> Iterator[int]:
        """Yield the number of the first row of each bar that moves in the next rows before one."""
        while self.at < len(self.rows) and self.rows[self.at][0] < number:
            row, raw = self.rows[self.at]
            self.at += 1
            bar = _BAR.search(raw) if b"%|" in raw else None
            if bar is None:
                continue
            title, done, whole = bar.groups()
            first, place = self.seen.setdefault(whole, (row, (title, done)))
            if place != (title, done):
                yield first


def moving_bars(rows: Sequence[Row], behind: int, before: int = sys.maxsize) -> Iterator[int]:
    """Yield the number of the first row of each progress bar that moves between two rows."""
    yield from Bars(rows, behind).moving_before(before)


def _is_chained(lines: list[Line], at: int) -> bool:
    """Whether another exception was raised while this one was handled."""
    return any(_CHAINED.match(line.text) for line in lines[at + 1 : at + 8])


def _goes_on(line: Line, end: Line) -> bool:
    """Whether a line behind an end belongs to another process than the one that ended.

    What stands right behind an exception may be the rest of its message.
    """
    if line.kind not in (PLAIN, WARNING, MESSAGE) or _AFTERMATH.match(line.text):
        return False
    is_message = line.kind == MESSAGE and line.number - end.number <= MESSAGE_LINES
    return not line.text[:1].isspace() and not (is_message and not is_progress(line))


class End(NamedTuple):
    """The words of the last failure, their numbers apart, and the last step before it."""

    words: str
    step: str


def same_end(before: list[Line], after: list[Line]) -> bool:
    """Return whether both of two runs, by their lines, failed with the same words at the same step.

    Two runs that failed before any step count as such too.
    """
    end = end_of(after)
    return end is not None and end_of(before) == end


def of_attempts(lines: list[Line]) -> bool:
    """Return whether the last two attempts of torchrun ended in the same way."""
    attempts: dict[int, list[Line]] = {}
    attempt = attempts_in(lines)
    for line in lines:
        number = attempt(line)
        if number is not None:
            attempts.setdefault(number, []).append(line)
    last = sorted(attempts)[-2:]
    if len(last) < 2:
        return False
    return same_end(attempts[last[0]], attempts[last[1]])


def attempt_of(source: str) -> int | None:
    """Return which of torchrun's attempts wrote a log: 1 for "attempt_1/0/stderr.log"."""
    number = source.partition("attempt_")[2].partition("/")[0]
    return int(number) if number.isdecimal() else None


def attempts_in(lines: list[Line]) -> Callable[[Line], int | None]:
    """Return what tells which of torchrun's attempts wrote a line, None where nothing says so.

    The name of its log does, or how often the launcher told before it that it restarts the ranks.
    """
    restarts: dict[str, list[int]] = {}
    for line in lines:
        if RESTART in line.text:
            restarts.setdefault(line.source, []).append(line.number)

    def attempt(line: Line) -> int | None:
        named = attempt_of(line.source)
        if named is None and line.source in restarts:
            return bisect_left(restarts[line.source], line.number)
        return named

    return attempt


def end_of(lines: list[Line]) -> End | None:
    """Return how a run ended, None where no failure of its own is seen.

    What a launcher says of a process that failed is the same for every cause.
    """
    failed = [
        line
        for line in lines
        if line.kind in (EXCEPTION, FAILURE) and not line.says("secondary", "exit", "wrapper")
    ]
    if not failed:
        return None
    last = [line for line in failed if line.kind == EXCEPTION] or failed
    return End(template_of(last[-1].text.strip()[:MOST_COMPARED]), _step(lines))


def _step(lines: list[Line]) -> str:
    """The last step and epoch that one of these lines tells, "" where none does."""
    for line in reversed(lines):
        if line.kind in SPOKEN:
            said = read(line.text)
            if said.step is not None or said.epoch is not None:
                return f"{said.epoch} {said.step}"
    return ""


def went_on(evidence: Evidence, rows: Sequence[Row] = ()) -> bool:
    """Return whether a run outlived everything that failed in it. False where nothing failed.

    `rows` are those of the run, in which progress bars are looked for.
    A program that catches an exception prints its traceback from the frame that caught it on, and a
    logged error has none. Both count only if the run made progress afterwards, or tells its end.
    """
    failures = evidence.failures
    if not failures or evidence.ranks or any(f.outermost() in (*OUTERMOST, MAIN) for f in failures):
        return False
    if len({failure.line.source for failure in failures}) > 1:
        return False  # which of two files wrote last isn't known
    last, source = max(f.line.number for f in failures), failures[0].line.source
    if next(moving_bars(rows, last), None) or came_to_end(evidence.lines) > last:
        return True
    later = [
        line
        for line in evidence.lines
        if line.source == source
        and (
            (line.number > last and line.kind in (PLAIN, *APART))
            or (line.number > last + MESSAGE_LINES and line.kind == MESSAGE)
        )
    ]
    return len(later) >= STEPS_ON and any(is_progress(line) for line in later)
