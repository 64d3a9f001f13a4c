"""Find where one run ends and the next begins in a file that holds several. Python 3.8.

People append: `nohup python train.py >> log`, a shell script with a loop, a scheduler that writes
all jobs into one file. Only what a process or a scheduler prints at its start or end bounds a run:

- a start: `nohup: ignoring input`, a session that Slurm or `script` opens, the report that LSF
  writes before a job's output, Python's refusal to compile the program;
- an end: a scheduler's notice that it killed the job, a shell's word on a process that died, an
  exception that went through the program's outermost frame. An end bounds a run only if the file
  goes on with lines that no dying process prints.

Repeated steps, a header of nvidia-smi or a second epoch 1 bound nothing: a run may resume, train
folds, or be watched. Several processes write at once in a distributed job, so that there an
exception of one of them is no end of the run.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from .files import Unreadable
from .kinds import EXCEPTION, FAILURE, FRAME, MESSAGE, PLAIN, TRACE, WARNING
from .lines import MESSAGE_LINES, Line

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
_LSF = re.compile(r"Sender: LSF System <")
_LSF_BEHIND = re.compile(r"The output \(if any\) follows")
_LSF_ABOVE = re.compile(r"The output \(if any\) is above this job summary")
_END = re.compile(
    r"""(?:
        # slurmstepd: error: *** JOB 330967 ON node-46 CANCELLED AT 2025-12-21T01:31:22 ***
        slurmstepd:\ error:\ \*\*\*\ (?:JOB|STEP)\ [\d.]+\ ON\ \S+\ CANCELLED
        # =>> PBS: job killed: walltime 3624 exceeded limit 3600
        | =>>\ PBS:\ job\ killed
        # /var/spool/slurmd/job1/slurm_script: line 12: 4711 Killed    python train.py
        | \S{1,200}:\ (?:line|行)\ ?\d+:\ +\d+\ +(?:Killed|Segmentation\ fault|Aborted|Terminated
          |Bus\ error|Illegal\ instruction|已杀死|段错误|已终止|已放弃)
        # [1]+  Killed                  python train.py
        | \[\d+\]\s?[+-]?\s+(?:Killed|Exit\ \d+|Terminated|Segmentation\ fault|已杀死|退出)
        | (?:Segmentation\ fault|Bus\ error)\ \(core\ dumped\)$ | Killed$ | Terminated$
        | Script\ done(?:\ on|,)
        # train.py: error: unrecognized arguments: --bath_size 8
        | [\w./-]{1,100}\.py:\ error:\ (?:unrecognized\ arguments|argument\ |the\ following\ arg)
        # End PBS Epilogue Tue Nov 20 12:00:00 CST 2026 1700007200
        | End\ (?:PBS|Torque|SLURM|Slurm)\ Epilog
    )""",
    re.X,
)
# Words of which each of these holds one.
_ENDINGS = (
    "CANCELLED", "=>> PBS", "illed", "fault", "bort", "erminated", "rror", "Exit ", "nstruction",
    "Script done", "Epilog", "已", "段错误", "退出",
)  # fmt: skip
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
# Epoch 3 | loss 0.213 | lr 1e-4       Loading checkpoint shards: 100%       Total time: 6033.5
_PROGRESS = re.compile(
    r"(?=.*\d).*(?:\b(?:epoch|step|iter|iteration|loss|acc|accuracy|lr|batch|training|loading"
    r"|saved|total|result)s?\b|'(?:loss|epoch)'|it/s|s/it)",
    re.I,
)
_CHAINED = re.compile(r"\s*(?:During handling of the above|The above exception was the direct)")
# Words of a job of several processes, in lower case; the last ones only with a number behind them.
_MANY = (
    "torchrun", "torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic",
    "torch/distributed/run", "torch/distributed/launch", "torch/distributed/elastic", "mpirun",
    "horovodrun", "srun: error", "accelerate launch", "launch.py:", "ray::", "(pid=",
)  # fmt: skip
_RANKED = ("world_size", "world size", "rank")
_SEVERAL = re.compile(r"world[_ ]size\W{1,3}(?!1\b)\d|\brank ?[1-9]\b")
_CLASS = re.compile(
    r"(?:[A-Za-z_]\w{0,40}\.){0,8}([A-Z][A-Za-z]{2,40}(?:Error|Exception|Interrupt|Exit))(?=:|\s|$)"
)
_FIRST_NUMBER = re.compile(r"([^\d]{3,60})(\d{1,12})")
MOST_TOLD = 3  # earlier runs that a sentence tells of


@dataclass(frozen=True)
class Chosen:
    """The lines of the run to read, and the numbers of its first and last line.

    `history` is a sentence on the runs of the file, "" where it holds one.
    """

    lines: list[Line]
    numbers: tuple[int, int]
    history: str


def choose(lines: list[Line], run: int | None, whole: bool = False) -> Chosen:
    """Return one run of a file: the one of this number from 1, None for the last, 0 for all.

    With `whole` the lines aren't of a file, and all are taken. Raises Unreadable for a number that
    the file doesn't have.
    """
    everything = (0, sys.maxsize)
    places = [(0, len(lines))] if whole else runs_of(lines)
    count = len(places)
    if run is not None and run > count:
        runs = "one run" if count == 1 else f"{count} runs"
        raise Unreadable(f"the file holds {runs}, and run {run} was asked for; pass --run all")
    if count == 1 or run == 0:
        return Chosen(
            lines, everything, f"All {count} runs of the file are read as one." if count > 1 else ""
        )
    at = count - 1 if run is None else run - 1
    begin, end = places[at]
    chosen = lines[begin:end]
    first = chosen[0].number if at else 0
    last = chosen[-1].number if at < count - 1 else sys.maxsize
    return Chosen(chosen, (first, last), _history(lines, places, at))


def _history(lines: list[Line], places: list[tuple[int, int]], at: int) -> str:
    """A sentence on which run was read, and how the others ended."""
    begins = lines[places[at][0]].number
    told = []
    for number in range(max(0, at - MOST_TOLD), at):
        begin, end = places[number]
        failed = next(
            (line for line in reversed(lines[begin:end]) if line.kind in (EXCEPTION, FAILURE)), None
        )
        if failed:
            what = class_of(failed) or "a failure"
            told.append(f"run {number + 1} ended with {what} (line {failed.number})")
    earlier = f" Earlier, {'; '.join(told)}." if told else ""
    which = f"this is about run {at + 1}, from line {begins} on"
    return f"The file holds {len(places)} runs; {which}.{earlier}"


def class_of(line: Line) -> str:
    """The name of the exception that a line begins with, without its module; "" without one.

    It goes into sentences, so it may hold no more than a name does.
    """
    name = _CLASS.match(line.text.strip())
    return name[1] if name else ""


def runs_of(lines: list[Line]) -> list[tuple[int, int]]:
    """Return the runs in the lines of one file, in order, as places: [first, behind the last)."""
    starts = sorted({0, *_at_starts(lines), *_behind_ends(lines)})
    ends = [*starts[1:], len(lines)]
    places: list[tuple[int, int]] = []
    for begin, end in zip(starts, ends):
        is_empty = not _has_content(lines[begin:end])
        if places and (is_empty or not _has_content(lines[slice(*places[-1])])):
            places[-1] = (places[-1][0], end)
        else:
            places.append((begin, end))
    return places


def _is_start(line: Line) -> bool:
    return line.text[:1] in _STARTS and bool(_START.match(line.text))


def _is_end(line: Line) -> bool:
    """Whether a line tells of an end; most lines hold none of the words of one."""
    text = line.text
    return any(word in text for word in _ENDINGS) and bool(_END.match(text))


def _has_content(lines: list[Line]) -> bool:
    """Whether a run wrote anything of its own, or is told to have ended."""
    return any(
        _is_end(line) or not (_is_start(line) or _AFTERMATH.match(line.text)) for line in lines
    )


def _at_starts(lines: list[Line]) -> list[int]:
    """The places at which a process or a scheduler says that a run begins."""
    found: list[int] = []
    before = PLAIN
    for at, line in enumerate(lines):
        if _is_start(line) or _end_of_report(lines, at, _LSF_BEHIND) >= 0:
            found.append(_above_rule(lines, at))
        elif _is_refused_program(line, before) and not (at and _is_frame_alone(lines[at - 1])):
            found.append(at)
        before = line.kind
    return found


def _above_rule(lines: list[Line], at: int) -> int:
    """The place of a line, or of the rule above it."""
    return at - 1 if at and re.match(r"-{20,}$", lines[at - 1].text) else at


def _is_refused_program(line: Line, before: str) -> bool:
    """Whether Python names a place in the program that it can't compile: a frame of no function.

    Within a traceback such a frame is about an imported module.
    """
    return _is_frame_alone(line) and before not in (FRAME, TRACE)


def _is_frame_alone(line: Line) -> bool:
    frame = line.sign("frame") if line.kind == FRAME else None
    return bool(frame) and frame[2] is None


def _behind_ends(lines: list[Line]) -> list[int]:
    """The places behind an end at which the file goes on with another run."""
    is_shared = _are_of_several_processes(lines)
    found: list[int] = []
    end: Line | None = None
    by_itself = False  # an exception ended the process, which proves less than a scheduler's word
    going: list[int] = []  # places since the end of lines that no dying process prints
    outermost = ""  # function of the outermost frame of the last traceback
    report = -1  # place of the last line of an LSF report
    for at, line in enumerate(lines):
        if at <= report:
            continue
        if line.kind == TRACE:
            outermost = ""
            if end is not None and not is_shared and _begins_with(lines, at, end):
                found.append(going[0] if going else at)
                end, going = None, []
        frame = line.sign("frame") if line.kind == FRAME else None
        if frame and not outermost:
            outermost = frame[2] or "<module>"
        report = _end_of_report(lines, at, _LSF_BEHIND)
        if report >= 0 or _is_start(line):
            end, going = None, []
            continue
        report = _end_of_report(lines, at, _LSF_ABOVE)
        is_killed = _is_end(line) or report >= 0
        is_raised = line.kind == EXCEPTION and outermost == "<module>" and not is_shared
        if is_killed or (is_raised and not _is_chained(lines, at)):
            end, by_itself, going = line, not is_killed, []
        elif end is not None and _goes_on(line, end):
            going.append(at)
            if len(going) < GOES_ON or (by_itself and not _has_progress(lines, going)):
                continue
            if not _counts_on(lines, end, going):
                found.append(going[0])
            end, going = None, []
    return found


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

    Then the program survived: a new one would count from its start.
    """
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


def _has_progress(lines: list[Line], places: list[int]) -> bool:
    """Whether one of these lines says how far a run has come."""
    return any(_PROGRESS.match(lines[at].text) for at in places)


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
    return not line.text[:1].isspace() and not (is_message and not _PROGRESS.match(line.text))
