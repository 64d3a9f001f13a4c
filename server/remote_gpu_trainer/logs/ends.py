"""How a run ended: one table of the lines that tell it, and what is said of an end.

`TABLE` holds what schedulers, shells and launchers print, each row with what it means. From outside
a run is ended by its user or a scheduler: then nothing failed, and `ending_of` says who did it. A
program that is done says so itself (`came_to_end`). What the user's own file raised says all by its
message (`own_error`). A bare exit status is read as the shell would print it (`as_message`).
Python 3.8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..readings.line import read
from .detectors import NO_PROGRAM
from .evidence import Evidence, Failure
from .kinds import APART, EXCEPTION, FAILURE, FRAME, PLAIN, WARNING
from .lines import Line

# What bash prints for a program that a signal ended, by the signal's number.
SIGNALS = {
    "ILL": (4, "Illegal instruction (core dumped)"),
    "ABRT": (6, "Aborted (core dumped)"),
    "BUS": (7, "Bus error (core dumped)"),
    "FPE": (8, "Floating point exception (core dumped)"),
    "KILL": (9, "Killed"),
    "SEGV": (11, "Segmentation fault (core dumped)"),
    "TERM": (15, "Terminated"),
}
LONGEST = 80  # characters of a line that says nothing else
# The Chinese words of bash and of C's library for the same ends.
_CHINESE = {
    "段错误": "Segmentation fault", "总线错误": "Bus error", "已放弃": "Aborted",
    "非法指令": "Illegal instruction", "浮点数例外": "Floating point exception",
    "已杀死": "Killed", "已终止": "Terminated", "核心已转储": "core dumped", "吐核": "core dumped",
}  # fmt: skip
BY_SIGNAL = 128  # what a shell adds to the signal's number
_NAME = re.compile(rf"\bSIG({'|'.join(SIGNALS)})\b", re.I)
_BEFORE_NUMBER = re.compile(r"(?<=[^\x00-\x7f])(?=-?\d)")  # 退出代码137
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,3}(?!\w|\.\d)")
# Words of a launcher, a container engine or a person around the number of an exit status.
_AROUND = re.compile(
    r"\b(?:exit(?:ed|s|ing|code)?|code|status|return(?:ed|s|code)?|rc|ret|non-?zero|signal|sig|killed|by"
    r"|with|the|a|was|is|has|due|to|from|received|got|caught|on|process|program|job|task|command"
    r"|finished|ended|terminated|died|container|pod|script|training|childfailederror|error)\b"
    r"|退出|返回|代码|码|值|信号|进程|程序|训练|任务|收到|杀死|杀掉|终止|结束|被|以|为|是|由|了|[\W_]",
    re.I,
)
_STATUS = re.compile(r"exit|code|status|return|\brc\b|sig|退出|返回|信号", re.I)
# Epoch 3 | loss 0.213 | lr 1e-4       Loading checkpoint shards: 100%       Total time: 6033.5
_PROGRESS = re.compile(
    r"(?=.*\d).*(?:\b(?:epoch|step|iter|iteration|loss|acc|accuracy|lr|batch|training|loading"
    r"|saved|total|result)s?\b|'(?:loss|epoch)'|it/s|s/it)",
    re.I,
)
# 0,31,1.97,,1.478     25  train_nll=2.5403  heldout_nll=2.5323; a version isn't one: 2.13.0
_NUMBERS = re.compile(r"(?:(?<![\d.])\d{1,9}\.\d{1,20}(?![\d.]).{0,200}?){2}")
ROWS = 5  # lines of several numbers that are a course
_RAISED = re.compile(
    # Two processes that write at once may print a name twice: SyntaxErrorSyntaxError
    r"(?:[A-Za-z_]\w{0,40}\.){0,8}([A-Z][A-Za-z]{2,40}?(?:Error|Exception|Interrupt|Exit))\1?(?=:|\s|$)"
)
# Timed out waiting 4000ms for recv operation to complete     gloo; NCCL's watchdog says "timeout"
TIMED_OUT = re.compile(r"timed? ?-?out|\btimeout", re.I)
NOTICE = 25  # lines of other processes that may stand behind a notice of the end
LAST_LINES = 25  # lines of a log in which it may tell its end
# Above each form, one real line.
_TELLS_END = re.compile(
    r"""(?:
        # Training completed. Do not forget to share your model on huggingface.co/models =)
        Training\ completed\.\ Do\ not\ forget\ to\ share
        # {'train_runtime': 6033.5, 'train_samples_per_second': 16.6, 'epoch': 3.0}
        | .{0,40}'train_runtime':
        # `Trainer.fit` stopped: `max_epochs=10` reached.
        | .{0,80}`Trainer\.fit`\ stopped:\ `max_(?:epochs|steps)=\d+`\ reached
        # 300 epochs completed in 4.213 hours.
        | \d{1,6}\ epochs\ completed\ in\ \d
        # Script done on 2026-11-20 10:00:00+00:00 [COMMAND_EXIT_CODE="0"]
        | Script\ done.{0,60}COMMAND_EXIT_CODE="0"
        # [wandb_run.py:_atexit_cleanup():2469] got exitcode: 0
        | .{0,120}_atexit_cleanup\(\):\d{1,6}\]\ got\ exitcode:\ 0$
        # Training time 3:21:11
        | Training\ time:?\ \d+:\d\d:\d\d$
        # Training complete in 24m 3s      Training finished!       Finished training
        # 2026-11-25 12:55:56,081 INFO train: training finished, best accuracy 0.5764
        | (?:\W*|.{0,60}[\]|]\W*|.{0,60}INFO\W{1,5}(?:[\w.]{1,40}:\ )?)
          (?:(?:Model\ )?Training\ (?:is\ )?(?:complete|completed|finished|done)|Finished\ Training)
          (?:$|[.!:,]|\ (?:in|after|at)\ )
        # [2026-11-02 10:30:00,000] [INFO] [launch.py:350:main] Process 4711 exits successfully.
        | .{0,80}\bProcess\ \d{1,9}\ exits\ successfully\.$
        # Successfully completed.     LSF, of a job that ended with 0
        | Successfully\ completed\.$
        # 训练完成
        | .{0,60}训练(?:完成|结束|完毕)
    )""",
    re.X | re.I,
)
# Files that the user didn't write: packages, the standard library, code without a file.
_FOREIGN = re.compile(
    r"(?:^|[/\\])(?:site|dist)-packages[/\\]|[/\\][Ll]ib[/\\](?:python\d|\w+\.py$)|^<|torch[/\\]csrc"
    r"|[/\\]bin[/\\]\w+$"
)
_MEANINGS = {
    "FileNotFoundError": "it opened a path that isn't there",
    "NotADirectoryError": "it took a file for a folder",
    "IsADirectoryError": "it took a folder for a file",
    "FileExistsError": "it made a file or folder that is there already",
    "PermissionError": "it may not open that path",
    "ModuleNotFoundError": "it imports a module that isn't installed or isn't on Python's path",
    "ImportError": "it imports a name that isn't there",
    "NameError": "it uses a name that was never set",
    "UnboundLocalError": "it uses a name before it is set",
    "SyntaxError": "Python can't read the program",
    "IndentationError": "Python can't read the program",
    "TabError": "Python can't read the program",
    "ZeroDivisionError": "it divides by zero",
    "KeyError": "it asks a mapping for a key that isn't in it",
    "IndexError": "it asks for a place beyond the end",
    "AttributeError": "it asks an object for what that doesn't have",
    "AssertionError": "a check of its own failed",
    "NotImplementedError": "it calls what nobody wrote",
}


# Of these the text says all, whatever the program is about.
_SAY_ALL = frozenset((
    "FileNotFoundError", "NotADirectoryError", "IsADirectoryError", "FileExistsError", "NameError",
    "UnboundLocalError", "SyntaxError", "IndentationError", "TabError", "ZeroDivisionError",
))  # fmt: skip


# Python's own words, whatever the class: AttributeError, TypeError, PicklingError.
_PICKLE = re.compile(r"(?:[Cc]an't|[Cc]annot) pickle |Can't get local object")
_SAVERS = re.compile(
    r"[/\\\\]torch[/\\\\]serialization\.py$|[/\\\\]copy\.py$"
)  # for whom the user pickles
PICKLED = "it pickles an object that holds what can't be pickled"


# Of these the message says what is wrong wherever they were raised.
_SAY_MUCH = frozenset((
    *_SAY_ALL, "TypeError", "ValueError", "KeyError", "IndexError", "AttributeError",
    "AssertionError", "NotImplementedError", "UnicodeDecodeError", "JSONDecodeError",
    "RecursionError", "PermissionError",
))  # fmt: skip
# Of what can't read a file of the user's: yaml.scanner.ScannerError, tomllib.TOMLDecodeError.
_READERS = ("ScannerError", "ParserError", "ParseError", "ParsingError", "DecodeError")
ELSEWHERE = (
    "The program ended with an error that isn't in this file; look into its standard error too"
)
# Exited with exit code 137.     exitcode: -9     Signal 11 (SIGSEGV) received by PID 4711
_SIGNALLED = re.compile(r"(?:code|status)\W{1,6}(?:-\d|1[2-9]\d)|[Ss]ignal|SIG")
LAST_OF_PROGRAM = (
    25  # lines of a file in which the place of a program that can't be read is looked for
)
_FILE = re.compile(r"[\w.-]{1,60}$")
_SLURM = {
    "TIME LIMIT": "was ended at its time limit",
    "PREEMPTION": "was preempted: another job came first",
    "NODE FAILURE": "was ended because the node failed",
    "JOB REQUEUE": "was ended to be queued again",
    "SIGNAL": "was ended by a signal that somebody sent",
}
# Without a reason. srun cancels its step when a task of it fails, and says so in the same words.
_CANCELLED = {
    "JOB": "was cancelled from outside: by scancel, an administrator or a dependency",
    "STEP": "was cancelled: by srun after one of its tasks failed, or by scancel",
}
_UNKNOWN = "was ended by Slurm, with a reason beside it"
_LSF = {
    "RUNLIMIT": "at its run limit",
    "MEMLIMIT": "at its memory limit",
    "SWAP": "at its swap limit",
    "CPULIMIT": "at its CPU limit",
    "PROCESSLIMIT": "at its limit of processes",
    "THREADLIMIT": "at its limit of threads",
    "OWNER": "because its owner killed it",
    "FORCE_OWNER": "because its owner killed it by force",
    "ADMIN": "because an administrator killed it",
    "FORCE_ADMIN": "because an administrator killed it by force",
    "PREEMPT": "because another job came first",
    "BUCKET_KILL": "by bkill -b",
    "REQUEUE_OWNER": "because its owner requeued it",
    "REQUEUE_ADMIN": "because an administrator requeued it",
    "WINDOW": "because the queue's time window closed",
    "LOAD": "because the host's load was too high",
    "DEADLINE": "at its deadline",
}
_HUNG_UP = "the session that started it was closed (SIGHUP)"
_INTERRUPTED = "somebody pressed Ctrl-C (SIGINT)"
_ASKED = "somebody or the machine asked it to end (SIGTERM)"
_SIGNALS = {
    "1": _HUNG_UP, "HUP": _HUNG_UP,
    "2": _INTERRUPTED, "INT": _INTERRUPTED,
    "15": _ASKED, "TERM": _ASKED,
}  # fmt: skip
# slurm-48213_0.out, the name that sbatch gives
_SLURM_LOG = re.compile(r"(?:^|/)slurm-(\d{1,12})(?:[_.-]\d{1,6})?\.(?:out|err|log)$")
BEHIND = 200  # lines at the end of a log in which Slurm may tell of it
# The class of an end in `runner.failures`, or its name there, by the reasons above. The others are
# ends by their user.
_CLASS = {
    "TIME LIMIT": "time", "PREEMPTION": "preempted", "NODE FAILURE": "node",
    "JOB REQUEUE": "requeued", "SIGNAL": "killed",
    "RUNLIMIT": "time", "CPULIMIT": "time", "PREEMPT": "preempted",
    "DEADLINE": "time", "MEMLIMIT": "limit", "SWAP": "limit", "PROCESSLIMIT": "limit",
    "THREADLIMIT": "limit", "REQUEUE_OWNER": "requeued", "REQUEUE_ADMIN": "requeued",
    "WINDOW": "closed", "LOAD": "closed",
    "walltime": "time", "cput": "time",
    "1": "killed", "HUP": "killed", "15": "killed", "TERM": "killed",
}  # fmt: skip
# train.sh: line 12: 4711
_SHELL = r"(?:\S{1,200}[:：] ?(?:line|行|第) ?\d+(?: ?行)?[:：] *\d+ +)"
_BEFORE = re.compile(rf"^{_SHELL}")
_CRASHED = (
    r"(?:Killed|Segmentation fault|Aborted|Bus error|Illegal instruction"
    r"|已杀死|段错误|已放弃|总线错误)"
)


class End(NamedTuple):
    """A row of the table.

    A line that the row is about holds one of the `hints`, and matches `form` from its first letter.
    `bounds`: another run may follow in the same file. `said` makes a sentence of the match, ""
    where the line alone says nothing of who ended the run; the place of the line follows it.
    `kind`: the kind that the line must have, None for any. `own`: the program itself ended the run.
    """

    name: str
    hints: tuple[str, ...]
    form: re.Pattern
    bounds: bool
    said: Callable[[re.Match], str]
    kind: str | None = None
    own: bool = False


def _nothing(_: re.Match) -> str:
    return ""


def _slurm(hit: re.Match) -> str:
    reason = (hit[3] or "").upper()
    ways = (how for name, how in _SLURM.items() if reason.startswith(name))
    how = next(ways, _UNKNOWN) if reason else _CANCELLED[hit[1]]
    return f"Slurm's {hit[1].lower()} {hit[2]} {how}"


def _pbs(hit: re.Match) -> str:
    return f"PBS killed the job at its limit of {hit[1]}" if hit[1] else "PBS killed the job"


def _lsf(hit: re.Match) -> str:
    reason = _LSF.get(hit[1])
    return f"LSF ended the job {reason} (TERM_{hit[1]})" if reason else ""


def _stopped(hit: re.Match) -> str:
    """That the signal stopped the run which the match names."""
    reason = _SIGNALS.get(next(filter(None, hit.groups()), ""))
    return f"The run was stopped: {reason}" if reason else ""


def _asked(_: re.Match) -> str:
    return f"The run was stopped: {_ASKED}"


def _of_status(hit: re.Match) -> str:
    """That a signal stopped a process, by the exit code or the words for it."""
    reason = _reason_of(hit[1])
    return f"The run was stopped: {reason}" if reason else ""


def _reason_of(words: str) -> str:
    code = _CODE.search(words)
    if code:
        return _SIGNALS.get(str(int(code[1]) - BY_SIGNAL), "")
    return _ASKED if as_shell(words) == "Terminated" else ""


_CODE = re.compile(r"(?:code|代码为?) ?(1\d\d)\b")
STATUS = "status"  # name of the rows whose first group tells how a process ended
# Above each form, one real line.
TABLE = (
    # slurmstepd: error: *** JOB 330967 ON n4 CANCELLED AT 2025-12-21T01:31:22 DUE TO TIME LIMIT ***
    End(
        "slurm", ("CANCELLED",),
        re.compile(
            # A progress bar may stand before it: 99%|#| 9/10 [00:10<00:01]slurmstepd: error: ***
            r"(?:\d+: |.{0,1900}[\]\s])?slurmstepd: error: \*\*\* (JOB|STEP) ([\d.+]{1,30})"
            r" ON \S{1,80} CANCELLED(?: AT \S{1,40})?(?: DUE [Tt][Oo] ([A-Z][A-Za-z ]{2,40}))?"
        ), True, _slurm,
    ),
    # =>> PBS: job killed: walltime 3624 exceeded limit 3600
    End(
        "pbs", ("=>> PBS",),
        re.compile(
            r"=>> PBS: job killed"
            r"(?:: (walltime|cput|mem|vmem|pmem|pvmem|ncpus) \S{1,20} exceeded limit)?"
        ), True, _pbs,
    ),
    # TERM_RUNLIMIT: job killed after reaching LSF run time limit.
    End("lsf", ("TERM_",), re.compile(r"TERM_([A-Z_]{3,40}): "), False, _lsf),
    # torch.distributed.elastic.multiprocessing.api.SignalException: Process 9 got signal: 15
    End(
        "signal", ("SignalException",),
        re.compile(r"(?:\w+\.)*SignalException: Process \d+ got signal: (\d{1,2})"),
        False, _stopped,
    ),
    # Received 2 death signal, shutting down workers     under a Python before 3.11 "Signals.SIGINT"
    End(
        "signal", (" death signal",),
        re.compile(r".{0,120}\bReceived (?:Signals\.SIG)?(\w{1,4}) death signal"), False, _stopped,
    ),
    # /var/spool/j: line 3: 991 Terminated              python train.py
    End(
        "terminated", ("erminated", "已终止"),
        re.compile(_SHELL + r"?(?:Terminated|已终止)(?:  .*)?$"), True, _asked,
    ),
    # RuntimeError: DataLoader worker (pid 4711) is killed by signal: Terminated.
    End(
        "terminated", ("signal: Terminated",),
        re.compile(r"RuntimeError: DataLoader worker \(pid.{1,80}\) is killed by signal: Term"),
        False, lambda _: f"A worker of the DataLoader was stopped: {_ASKED}",
    ),
    # [2026-04-17] [INFO] [launch.py:324:sigkill_handler] Main process received SIGTERM, exiting
    End(
        "asked to end", (" SIGTERM", " SIGINT"),
        re.compile(r".{0,60}(?:Main process received|\bReceived|\*\*\*) SIG(TERM|INT)\b"),
        False, _stopped,
    ),
    # /var/spool/slurmd/job1/slurm_script: line 12: 4711 Killed    python train.py
    # Segmentation fault (core dumped)
    End(
        "crashed", ("illed", "fault", "bort", "error", "nstruction", "已", "错误"),
        re.compile(
            rf"{_SHELL}{_CRASHED}|(?:Segmentation fault|Bus error) \(core dumped\)$|Killed$"
            "|已杀死$|(?:段错误|总线错误|已放弃)(?: ?\\(|$)"
        ), True, _nothing,
    ),
    # [1]+  Killed                  python train.py
    End(
        "job of a shell", ("illed", "Exit ", "erminated", "fault", "已杀死", "退出"),
        re.compile(
            r"\[\d+\]\s?[+-]?\s+(?:Killed|Exit \d+|Terminated|Segmentation fault|已杀死|退出)"
        ), True, _nothing,
    ),
    # srun: error: g12: tasks 0-3: Exited with exit code 137
    End(
        STATUS, ("srun: error: ",),
        re.compile(r"srun: error: \S{1,200}: tasks? [\d,-]{1,200}: (.{1,100})$"), False, _of_status,
    ),
    # mpirun noticed that process rank 3 with PID 0 on node g12 exited on signal 9 (Killed).
    # YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)
    # =   KILLED BY SIGNAL: 9 (Killed)
    # Process finished with exit code 137 (interrupted by signal 9:SIGKILL)
    # 进程已结束，退出代码为 137
    End(
        STATUS, (" exited on signal", "EXIT STRING", "BY SIGNAL", "Process finished", "进程已结束"),
        re.compile(
            r"(?:\w{1,20} noticed that process rank .{1,200} exited on (?=signal)"
            r"|YOUR APPLICATION TERMINATED WITH THE EXIT STRING: |=   KILLED BY (?=SIGNAL)"
            r"|Process finished with (?=exit code)|进程已结束\W{1,3}(?=退出代码))(.{1,100})$"
        ), True, _of_status,
    ),
    # ./run.sh: line 9: python3.12: command not found
    End(
        "no program", ("command not found", "未找到命令", "找不到命令"), NO_PROGRAM, False,
        lambda _: "The shell found no program of the name that a command begins with", own=True,
    ),
    # train.py: error: unrecognized arguments: --bath_size 8
    End(
        "refused arguments", (": error: ",),
        re.compile(
            r"[\w./-]{1,100}: error: "
            r"(?:unrecognized arguments|argument |the following arguments|ambiguous option)"
        ), True, lambda _: "The program refused its arguments; its message says which", own=True,
    ),
    # Script done on 2026-11-20 10:00:00+00:00 [COMMAND_EXIT_CODE="0"]
    End("script", ("Script done",), re.compile(r"Script done(?: on|,)"), True, _nothing),
    # End PBS Epilogue Tue Nov 20 12:00:00 CST 2026 1700007200
    End(
        "epilogue", ("Epilog",), re.compile(r"End (?:PBS|Torque|SLURM|Slurm) Epilog"), True,
        _nothing,
    ),
    End(
        "interrupted", ("KeyboardInterrupt",), re.compile("KeyboardInterrupt"), False,
        lambda _: "The run was stopped: somebody pressed Ctrl-C", EXCEPTION,
    ),
    End(
        "interrupted", ("^C",), re.compile(r"\^C$"), False,
        lambda _: "The run was stopped: somebody pressed Ctrl-C",
    ),
)  # fmt: skip
_HINTS = tuple(dict.fromkeys(hint for end in TABLE for hint in end.hints))


def end_in(line: Line) -> tuple[End, re.Match] | None:
    """Return the row of the table that a line belongs to, and its match. None for most lines."""
    text = line.text
    for hint in _HINTS:
        if hint in text:
            break
    else:
        return None
    text = text.strip()
    for end in TABLE:
        if end.kind in (None, line.kind):
            hit = end.form.match(text)
            if hit:
                return end, hit
    return None


def is_interrupt(line: Line) -> bool:
    """Return whether a line tells that somebody pressed Ctrl-C."""
    found = end_in(line)
    return found is not None and (
        found[0].name == "interrupted"
        or (found[0].said is _stopped and found[1][1] in ("2", "INT"))
    )


def as_shell_says(line: Line) -> str:
    """What an English shell prints for the end by a signal that a line tells in other words.

    "" for any other line, and for an end that somebody asked for. What the shell says of the
    command stays.
    """
    found = end_in(line)
    if found is None:
        return ""
    end, hit = found
    if end.name == STATUS:
        return "" if _reason_of(hit[1]) else as_shell(hit[1])
    words = _BEFORE.sub("", line.text.strip()) if end.name == "crashed" else ""
    return "" if words.isascii() else in_english(words)


def class_of_end(end: End, hit: re.Match) -> str:
    """Return the class of an end from outside, or its name, as `runner.failures` has it.

    "" for an end whose reason isn't known.
    """
    reason = next((group for group in reversed(hit.groups()) if group), "")
    if end.name == "slurm":
        words = (hit[3] or "").upper()
        by_user = "cancelled" if hit[1] == "JOB" else ""
        return next((_CLASS[name] for name in _CLASS if words.startswith(name)), by_user)
    if end.name == STATUS:
        return "cancelled" if _reason_of(hit[1]) == _INTERRUPTED else "killed"
    if end.name == "pbs":
        return _CLASS.get(reason, "limit") if reason else ""
    return "killed" if end.name == "terminated" else _CLASS.get(reason, "cancelled")


def bounds(line: Line) -> bool:
    """Return whether a line tells of an end behind which another run may begin."""
    found = end_in(line)
    return found is not None and found[0].bounds


def slurm_job(lines: list[Line]) -> str:
    """Return the number of Slurm's job that wrote these lines, "" where nothing tells it.

    The name of its log does, and Slurm's own notice of the end.
    """
    for source in {line.source: None for line in lines}:
        named = _SLURM_LOG.search(source)
        if named:
            return named[1]
    for line in reversed(lines[-BEHIND:]):
        found = end_in(line)
        if found and found[0].name == "slurm":
            return found[1][2].partition(".")[0]
    return ""


def sacct(job: str) -> str:
    """Return the command that asks Slurm how a job ended."""
    return f"`sacct -j {job} -o JobID,State,ExitCode,MaxRSS`"


def class_of(line: Line) -> str:
    """The name of the exception that a line begins with, without its module; "" without one.

    It goes into sentences, so it may hold no more than a name does.
    """
    name = _RAISED.match(line.text.strip())
    return name[1] if name else ""


def is_progress(line: Line) -> bool:
    """Return whether a line says how far a run has come."""
    return tells_progress(line.text)


def shows_course(lines: Iterable[Line]) -> bool:
    """Return whether lines show a training that goes on or is done. A setup or stacks don't.

    They name a step, an epoch or the end, or are rows of numbers.
    """
    rows = 0
    for line in lines:
        rows += bool(_NUMBERS.search(line.text))
        if rows == ROWS or is_progress(line) or tells_end(line):
            return True
        said = read(line.text)
        if said.step is not None or said.epoch is not None:
            return True
    return False


def tells_progress(text: str) -> bool:
    """Return whether a text says how far a run has come."""
    return bool(_PROGRESS.match(text))


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
        for line in own[_last_lines(own) :]:
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
    found = end_in(line)
    if found is None or found[0].own:
        return None
    end, hit = found
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


def _last_lines(lines: list[Line]) -> int:
    """The place from which on a notice of the end may stand: the last lines that aren't blank."""
    plain = [at for at, line in enumerate(lines) if line.kind in (PLAIN, WARNING, *APART)]
    return plain[-NOTICE] if len(plain) >= NOTICE else 0


def came_to_end(lines: list[Line]) -> int:
    """Return the number of the line at the end of a log that tells that training is over, or 0."""
    return max((line.number for line in lines[-LAST_LINES:] if tells_end(line)), default=0)


def tells_end(line: Line) -> bool:
    """Return whether a line tells that training is over."""
    return bool(_TELLS_END.match(line.text.strip()))


def own_error(evidence: Evidence) -> tuple[str, bool]:
    """Return a sentence on an error of the user's own program, "" for any other.

    Beside it stands whether the error's own text says all that an entry could. The exception is the
    one that failed first, and its innermost frame decides: a library's frame below the user's means
    that the cause may be anywhere, unless the exception is of a kind that says what is wrong.
    """
    first = evidence.first
    if first is None:
        return _refused_program(evidence.lines)
    if evidence.failures and all(
        _tells_an_exit_alone(failure.line) for failure in evidence.failures
    ):
        return f"{ELSEWHERE} (line {first.number}).", False
    end = end_in(first)
    if end and end[0].own:
        says_all = end[0].name != "no program"  # of some programs an entry says how to get them
        return f"{end[0].said(end[1])} (line {first.number}).", says_all
    if first.kind != EXCEPTION or first.says("system error"):
        return "", False
    kind = class_of(first)
    signs = (line.sign("frame") for line in _frames_of(first, evidence))
    frames = [frame for frame in signs if frame]
    own = [frame for frame in frames if not _FOREIGN.search(frame[0])]
    is_innermost = bool(own) and own[-1] is frames[-1]
    if not own or not (is_innermost or kind in _SAY_MUCH or kind.endswith(_READERS)):
        return "", False
    pickled = _PICKLE.search(first.text) is not None and (
        is_innermost or _SAVERS.search(frames[-1][0]) is not None
    )
    meaning = _MEANINGS.get(kind, "its message says what is wrong") if is_innermost else ""
    meaning = PICKLED if pickled else meaning
    file = _name(own[-1][0])
    what = f"`{kind}`" if kind else "an exception of its own"
    where = "in" if is_innermost else "at a call from"
    sentence = (
        f"The program stopped {where} its own file, {file} line {own[-1][1]}, with {what}"
        f" (line {first.number}){': ' if meaning else ''}{meaning}."
    )
    return sentence, pickled or (is_innermost and kind in _SAY_ALL)


def _tells_an_exit_alone(line: Line) -> bool:
    """Whether a line says that a program ended with an error code, which is no signal's."""
    return (
        line.kind == FAILURE
        and line.says("exit", "exit code")
        and not line.says("killed", "crash", "memory kill", "cuda error", "watchdog")
        and not _SIGNALLED.search(line.text)
    )


def _refused_program(lines: list[Line]) -> tuple[str, bool]:
    """Tell that Python can't read a program whose error several processes wrote into one another.

    What is left to recognize is the place in the program: a frame without a function.
    """
    for line in reversed(lines[-LAST_OF_PROGRAM:]):
        if is_progress(line):
            break
        frame = line.sign("frame")
        if frame and is_frame_alone(line):
            return (
                f"Python can't read the program: {_name(frame[0])} line {frame[1]}"
                f" (line {line.number}).",
                True,
            )
    return "", False


def is_frame_alone(line: Line) -> bool:
    """Return whether a line is a frame of no function, as Python names where it can't compile.

    `File "train.py", line 3 in main`, without a comma, is of faulthandler.
    """
    frame = line.sign("frame") if line.kind == FRAME else None
    return bool(frame) and frame[2] is None and line.text.rstrip().endswith(frame[1])


def _name(path: str) -> str:
    """The name of a file, without its folders; it goes into a sentence, so it may hold no other."""
    file = re.split(r"[/\\]", path)[-1]
    return file if _FILE.match(file) else "a file"


def _frames_of(first: Line, evidence: Evidence) -> list[Line]:
    """The frames of the traceback that ends in a line, outermost first."""
    for failure in evidence.failures:
        if (failure.line.source, failure.line.number) == (first.source, first.number):
            return [
                frame for frame in failure.frames if frame.kind == FRAME and frame.says("frame")
            ]
    return []


def in_english(words: str) -> str:
    """The words of a shell for an end by a signal, in English."""
    for chinese, english in _CHINESE.items():
        words = words.replace(chinese, english)
    return " ".join(words.split())


def as_shell(words: str) -> str:
    """What a shell prints for the end that a launcher tells in these words; "" for no signal.

    `Killed`, `Exited with exit code 137` and `signal 9 (Killed)` give `Killed`.
    """
    for _, said in SIGNALS.values():
        if words.startswith(said.partition(" (")[0]):
            return said
    return as_message(_BEFORE_NUMBER.sub(" ", words.partition(" (")[0]))


def as_message(line: str) -> str:
    """What a shell prints for the exit status that a line names; "" if it says anything else.

    `137`, `exit code 137`, `exitcode: -9`, `signal 9` and `SIGKILL` give `Killed`.
    """
    if len(line) > LONGEST:
        return ""
    name, number = _NAME.search(line), _NUMBER.search(line)
    rest = _NAME.sub(" ", _NUMBER.sub(" ", line))
    says_more = bool(_AROUND.sub("", rest))
    is_status = number and (_STATUS.search(line) or number[0] == line.strip())
    if says_more or not (name or is_status):
        return ""
    if name:
        return SIGNALS[name[1].upper()][1]
    status = int(number[0]) if number else 0
    is_signal = status < 0 or "sig" in line.lower() or "信号" in line
    signal = abs(status) if is_signal else status - BY_SIGNAL
    return next((text for at, text in SIGNALS.values() if at == signal), "")
