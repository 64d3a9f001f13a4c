"""One table of the lines that tell how a run was ended, each with what it means. Python 3.8.

`runs_in_file` asks whether a line bounds a run, `endings` what to say of an end from outside, and
`own_errors` whether the program refused its arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from .detectors import NO_PROGRAM
from .exit_status import BY_SIGNAL, as_shell, in_english
from .kinds import EXCEPTION
from .lines import Line

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
    "TIME LIMIT": "preempted", "PREEMPTION": "preempted", "NODE FAILURE": "node",
    "JOB REQUEUE": "requeued", "SIGNAL": "killed",
    "RUNLIMIT": "preempted", "CPULIMIT": "preempted", "PREEMPT": "preempted",
    "DEADLINE": "preempted", "MEMLIMIT": "limit", "SWAP": "limit", "PROCESSLIMIT": "limit",
    "THREADLIMIT": "limit", "REQUEUE_OWNER": "requeued", "REQUEUE_ADMIN": "requeued",
    "WINDOW": "closed", "LOAD": "closed",
    "walltime": "preempted", "cput": "preempted",
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
    told = (how for name, how in _SLURM.items() if reason.startswith(name))
    how = next(told, _UNKNOWN) if reason else _CANCELLED[hit[1]]
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
