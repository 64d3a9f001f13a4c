"""One table of what a line of a log can say, each row with its role. Python 3.8.

`Watch.signs_of` searches each line once; everything after it reads `Line.signs`. A row fires on its
pattern alone. `lines` and `judging` say what a line means beside others: a message after an
exception, a failure that was survived.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

MOST_SHAPES = 5_000  # of lines that a `Watch` remembers
SAYS_SO = 800  # characters within which a line says that something failed
# root: a rank failed by itself; cascade: it lost another one, or waited too long; advice: libraries
# say it under every error; progress: the run goes on, or is done; launcher: torchrun and its like.
ROLES = ("root", "cascade", "advice", "progress", "launcher")
Sign = tuple  # (name of a detector, groups of its match)
# Exceptions that no lost peer raises, whatever they say.
_OWN = frozenset((
    "AttributeError", "FileNotFoundError", "ImportError", "IndexError", "KeyError",
    "ModuleNotFoundError", "NameError", "NotImplementedError", "OutOfMemoryError",
    "PermissionError", "TypeError", "UnboundLocalError", "ValueError", "ZeroDivisionError",
))  # fmt: skip
_EXCEPTION_ENDS = (
    "Error", "Exception", "Interrupt", "Failure", "Exit", "Warning", "Timeout", "Expired",
    "LimitHit",
)  # fmt: skip
_NAME = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*$")
_CLASS = re.compile(r"(?:[A-Za-z_]\w{0,80}\.){1,8}[A-Z]\w{2,80}(?:: |$)|StopIteration(?:: |$)")
_LOGGED = re.compile(r"\bError:|\b[eE]rror\b.{0,80}:|\bERROR\b")
# What may tell of a lost peer.
_LOST = (
    "connection reset", "connection closed", "connection refused", "closed by peer", "broken pipe",
    "recvvalue", "sigterm", "signal 15", "keyboardinterrupt", "watchdog", "timeout", "time out",
    "timedout", "timed out", "remote process exited", "abort", "heartbeat", "sendbytes", "no error",
    "monitoredbarrier", "tcpstore", "c10d store", "key-value store", "store based", "store->",
    "diststore", "unhandled system error", "ncclremoteerror", "entire process down",
    "instance of 'c10::dist", "ncclsystemerror", "exit of a remote peer",
    "terminate called without an active exception", "flight recorder dump signal",
    "to signal dumping",
)  # fmt: skip
# The files of launchers, at the end of a frame's path.
_LAUNCHERS = re.compile(
    r"(?:torch/distributed/(?:run|launch|launcher/api|elastic/\S{1,120})"
    r"|accelerate/commands/\S{1,80}|deepspeed/launcher/\w{1,40}|runpy)\.py$|"
    r"bin/(?:torchrun|accelerate|accelerate-launch|deepspeed)$|^<frozen runpy>$"
)
# The words in which a process ends.
_ENDS = (
    "killed", "segmentation", "bus error", "core dumped", "abort", "terminate called", "what():",
    "cuda error", "oom", "out of memory", "fatal", "assertion", "signal", "exitcode", "exited",
)  # fmt: skip
_FAILS = {"most": SAYS_SO}
# "[PG ID 0 PG GUID 0(default_pg) Rank 3] Exception (…) detected by watchdog"
_GROUP = r"\[(?:PG (?:ID )?(\w{1,12})(?: PG GUID (\w{1,80}))?(?: ?\(([^()\]]{0,80})\))? )?"


# ./run.sh: line 9: python3.12: command not found
NO_PROGRAM = re.compile(
    r".{0,200}[:：] ?(?:command not found|未找到命令|找不到命令)\.{0,3}$"
    r"|zsh: command not found: \S{1,80}$"
)


class Detector(NamedTuple):
    """A row of the table.

    `hints` are in lower case; a line that fires holds one of them, and b"" is in every line.
    `find` returns the groups of a match, or None. `fails`: the line tells of a failure. `ranked`:
    the row is only for lines of a known rank.
    """

    name: str
    role: str
    hints: tuple[bytes, ...]
    find: Callable[[str], tuple | None]
    fails: bool = False
    ranked: bool = False


def _row(
    name: str,
    role: str,
    hints: tuple[str, ...],
    find: Callable[[str], tuple | None],
    fails: bool = False,
    ranked: bool = False,
) -> Detector:
    """A row whose hints have no digits, as the shapes in which they are looked for."""
    return Detector(name, role, tuple(_shape(hint) for hint in hints), find, fails, ranked)


def _shape(text: str) -> bytes:
    """A text as bytes without its digits: the lines of a progress report have one shape."""
    return text.encode("utf-8", "surrogatepass").translate(None, b"0123456789")


def pattern(text: str, flags: int = 0, most: int = 100_000) -> Callable[[str], tuple | None]:
    """Return a `find` that searches the first `most` characters for an expression."""
    search = re.compile(text, flags).search

    def find(line: str) -> tuple | None:
        hit = search(line, 0, most)
        return hit.groups() if hit else None

    return find


def start(text: str) -> Callable[[str], tuple | None]:
    """Return a `find` for an expression at the start of a line, which is quick to miss."""
    match = re.compile(text).match

    def find(line: str) -> tuple | None:
        hit = match(line)
        return hit.groups() if hit else None

    return find


def words(*texts: str) -> Callable[[str], tuple | None]:
    """Return a `find` for literal texts in lower case, in the first SAYS_SO characters."""
    return lambda line: () if any(text in line[:SAYS_SO].lower() for text in texts) else None


def is_exception(text: str) -> bool:
    """Return whether a line starts with the name of an exception that isn't a warning."""
    head, colon, rest = text.partition(":")
    if not head.endswith(_EXCEPTION_ENDS) or (rest and not rest[0].isspace()):
        return False
    return bool(_NAME.match(head)) and not head.endswith("Warning")


def is_raised(text: str) -> bool:
    """Return whether a line may end a traceback: the name of a class, and nothing or a colon."""
    return is_exception(text.strip()) or bool(_CLASS.match(text))


def is_figure(text: str) -> bool:
    """Return whether a text is a decimal fraction and nothing else."""
    try:
        float(text)
    except ValueError:
        return False
    return "." in text


def _exception(text: str) -> tuple | None:
    return () if is_exception(text.strip()) else None


def _logged_error(text: str) -> tuple | None:
    """Match a logged error, except a metric or a setting whose name holds "error".

    Such as "validation error: 0.113" and "INFO Error handling enabled:".
    """
    for hit in _LOGGED.finditer(text, 0, SAYS_SO):
        words_of = hit[0]
        may_be_metric = words_of.startswith("error") and not words_of[-2].isdigit()
        is_setting = words_of[:6].lower() in ("error ", "error-") and "INFO" in text[: hit.start()]
        if not is_setting and not (may_be_metric and is_figure(text[hit.end() :])):
            return ()
    return None


def _secondary(text: str) -> tuple | None:
    """Match what may tell of a lost peer, unless an exception raises it that no lost peer does."""
    low = text[:SAYS_SO].lower()
    # Names of arguments and settings say nothing: "unexpected keyword argument 'timeout_s'".
    if "timeout" in low:
        low = low.replace("timeout_", " ").replace("_timeout", " ")
    if not any(phrase in low for phrase in _LOST):
        return None
    return None if text.partition(":")[0].rpartition(".")[2] in _OWN else ()


_FRAME = start(r'\s*File "([^"]{1,400})", line (\d+)(?:, in (\S+))?')


def _own_frame(text: str) -> tuple | None:
    """Match a frame of the launcher itself."""
    frame = _FRAME(text)
    return () if frame and _LAUNCHERS.search(frame[0].replace("\\", "/")) else None


TABLE = (
    # What a rank says of its own failure.
    _row(
        "trace", "root", ("traceback (most recent", "(most recent call first"),
        # Thread 0x00007f5b7e7d1740 (most recent call first):     printed by faulthandler
        pattern(
            r"Traceback \(most recent call last"
            r"|hread 0x[0-9a-f]{1,16} .{0,80}\(most recent call first"
        ),
    ),
    _row("frame", "root", ('file "',), _FRAME),
    _row("exception", "root", tuple(end.lower() for end in _EXCEPTION_ENDS), _exception),
    _row(
        "killed", "root", ("kill", "已杀死"),
        pattern(r"\bKilled\b|Reason: +OOMKilled|killed by signal|已杀死", **_FAILS), True,
    ),
    _row(
        "crash", "root", ("fault", "bus error", "dumped", "abort", "terminate", "what()", "段错误",
         "转储", "吐核", "总线错误"),
        pattern(
            r"Segmentation fault|Bus error|core dumped|Aborted\b|terminate called|what\(\):"
            "|段错误|总线错误|核心已转储|吐核",
            **_FAILS,
        ), True,
    ),
    _row("cuda error", "root", ("cuda error",), pattern("CUDA error", **_FAILS), True),
    _row("nccl warning", "root", ("nccl warn",), pattern("NCCL WARN", **_FAILS), True),
    _row(
        "memory kill", "root", ("oom", "out of memory: kill", "slurmstepd", "srun: error"),
        pattern(r"oom[-_]kill|Out of memory: Kill|slurmstepd: error|srun: error", **_FAILS), True,
    ),
    _row("fatal", "root", ("fatal",), pattern(r"\bFATAL\b|\bfatal error\b", **_FAILS), True),
    _row(
        "no program", "root", ("command not found", "未找到命令", "找不到命令"),
        lambda line: () if NO_PROGRAM.match(line[:SAYS_SO].strip()) else None, True,
    ),
    _row(
        "assertion", "root", ("assertion",), pattern(r"Assertion .{0,200} failed", **_FAILS), True,
    ),
    _row("logged error", "root", ("error",), _logged_error, True),
    _row(  # a line with none of these may only log an error, as in "wandb: ERROR retrying"
        "end", "root", _ENDS, words(*_ENDS),
    ),
    _row(
        "barrier", "root", ("failed to pass",),
        pattern(r"Rank (\d{1,5}) failed to pass monitoredBarrier"),
    ),
    _row("nccl error", "root", ("nccl",), pattern(r"NCCL error|^nccl")),
    _row(  # what NCCL adds to a "system error" that is this rank's alone
        "own nccl", "root",
        ("shared memory", "shm_open", "/dev/shm", "no space left", "cuda failure", "cuda calloc",
         "no socket interface"),
        pattern(
            r"shared memory (?:segment|file)|shm_open|/dev/shm/nccl|No space left"
            r"|Cuda failure|Failed to CUDA calloc|no socket interface found",
            **_FAILS,
        ),
    ),
    # What it says when another one is gone.
    _row(
        "watchdog", "cascade", ("watchdog", "processgroup"),
        pattern(
            r"watchdog(?! thread (?:started|terminated normally))|\[E\d* ?ProcessGroup"
            "|Watchdog caught",
            **_FAILS,
        ), True,
    ),
    _row("secondary", "cascade", _LOST, _secondary),
    _row(
        "lost peer", "cascade",
        ("connection ", "by peer", "broken pipe", "sig", "exitcode", "remote process", "failed",
         "nccl", "unhandled"),
        pattern(
            r"connection (?:reset|closed)|closed by peer|broken pipe|sigterm|signal 15\b"
            r"|exitcode\s*:\s*-15|remote process exited|sendbytes failed|recvvalue failed|"
            r"unhandled system error|ncclSystemError|ncclRemoteError",
            re.I,
        ),
    ),
    _row(
        "waited", "cascade", ("watchdog", "collective operation", "timeout at nccl"),
        pattern(
            r"Watchdog caught collective|collective operation timeout|Timeout at NCCL work", re.I
        ),
    ),
    _row("group", "cascade", ("rank ",), pattern(_GROUP + r"Rank (\d{1,5})\]")),
    _row(
        "enqueued", "cascade", ("last enqueued",),
        pattern(r"last enqueued (?:NCCL )?work: (\d{1,12})", re.I),
    ),
    _row(
        "waits in", "cascade", ("worknccl(seqnum=",),
        pattern(r"WorkNCCL\(SeqNum=(\d{1,12})(?:, OpType=(\w{1,40}))?"),
    ),
    _row(  # "inconsistent" in older releases of PyTorch
        "mismatch", "cascade", ("is running collective", "is running inconsistent"),
        pattern("is running (?:inconsistent )?collective"),
    ),
    _row(
        "initiator", "cascade", ("to signal dumping",),
        pattern("First PG on this rank to signal dumping"),
    ),
    _row(
        "notified", "cascade", ("dump signal",),
        pattern("Observed flight recorder dump signal from another rank"),
    ),
    _row(  # stacks of C++ are printed without a rank
        "native frame", "cascade", ("frame #", "exception raised from"),
        start(r"\s*(?:frame #\d+: |Exception raised from )"),
    ),
    # What libraries add to every error, and warnings.
    _row(
        "advice", "advice",
        ("asynchronously reported", "launch_blocking", "torch_use_cuda_dsa", "if reserved memory"),
        pattern(
            r"CUDA kernel errors might be asynchronously reported"
            r"|For debugging consider passing CUDA_LAUNCH_BLOCKING"
            r"|Compile with `?TORCH_USE_CUDA_DSA|If reserved memory is >> allocated"
        ),
    ),
    _row(  # DEBUG train: parsing {"error": null}     2026-11-28 09:01:16 | TRACE    | io:read:7 - …
        "debug level", "advice", ("debug", "trace"),
        start(
            r"(?:(?!\b(?:INFO|WARN|ERROR|CRITICAL|FATAL|(?:[a-z]{1,20} ){2})|[eE]rror).){0,80}?"
            r"(?<![\w=.-])(?:DEBUG|TRACE)(?![\w=/-])"
        ),
    ),
    _row("warning", "advice", ("warn", "[w"), pattern(r"Warning:|\bWARN(?:ING)?\b|\[W\d* ")),
    # How far a rank has come.
    _row(
        "step", "progress", ("step", "it", "batch"),
        pattern(r"\b(?:step|iter(?:ation)?|it|batch)\b\D{0,4}(\d{1,9})", re.I), ranked=True,
    ),
    _row(
        "done", "progress", ("done", "finished", "complete", "stopped"),
        pattern(
            r"\b(?:train|run|job|fit|script|program|epoch)\w{0,8}\b"
            r".{0,40}\b(?:finished|completed?|done|stopped)\b"
            r"|^\W*(?:all )?(?:finished|completed?|done)\b(?:\W*$| in \d)",
            re.I,
        ), ranked=True,
    ),
    # What the launcher says.
    _row(
        "exit", "launcher", ("exit", "signal", "退出代码"),
        pattern(
            r"exitcode\s*:\s*-?[1-9]|Signal \d+ \(SIG"
            r"|exited with (?:code|status|signal)(?!\W{0,3}0\b)|Exit code(?!\W{0,3}0\b)"
            r"|exit code -?[1-9]|退出代码为? ?-?[1-9]",
            **_FAILS,
        ), True,
    ),
    _row(
        "root cause", "launcher", ("root cause (first",),
        pattern(r"Root Cause \(first observed failure\)"),
    ),
    _row("ended rank", "launcher", ("rank",), start(r"\s*rank\s*:\s*(\d{1,5})\b")),
    _row(
        "ended code", "launcher", ("exitcode",),
        start(r"\s*exitcode\s*:\s*(-?\d{1,5})\b(?: \(pid: (\d{1,9})\))?"),
    ),
    _row(
        "ended signal", "launcher", ("signal ",), start(r"\s*traceback\s*:\s*Signal (\d{1,3})"),
    ),
    _row(
        "forced", "launcher", ("forcefully exiting",),
        pattern(r"Unable to shutdown process (\d{1,9}) via .{1,40} forcefully exiting"),
    ),
    _row(
        "wrapper", "launcher",
        ("failed", "childfailed", "calledprocess", "systemexit", "processexited",
         "processraised", "signalexception", "subprocess-exited", "returned non-zero exit"),
        pattern(
            r"FAILED$|ChildFailedError|CalledProcessError|SystemExit|ProcessExitedException"
            r"|ProcessRaisedException|SignalException|subprocess-exited|returned non-zero exit"
        ),
    ),
    _row(
        "exit code", "launcher", ("exit", "died with"),
        pattern(
            r"failed \(exitcode: ?(-?\d{1,5})\)|exits with return code = (-?\d{1,5})"
            r"|^\s*exitcode\s{0,8}: ?(-?\d{1,5})\b|returned non-zero exit status (\d{1,10})"
            r"|died with <(Signals\.\w{1,20}: \d{1,3})>"
        ),
    ),
    _row(
        "no cause", "launcher",
        ("closing signal sigterm", "childfailederror", "killing subprocess"),
        pattern(
            r"Sending process \d+ closing signal SIGTERM|ChildFailedError"
            r"|\[launch\.py:\d+:sigkill_handler\] Killing subprocess"
        ),
    ),
    _row(
        "field", "launcher",
        ("root cause", "other failures", "time", "host", "rank", "error_file", "traceback",
         "<no_other", "failures:", " failed", "]:"),
        start(
            r"\W*(?:Root Cause \(first observed failure\)|Other Failures)"
            r"|\s*(?:time|host|rank|error_file)\s{0,8}: |\s*traceback\s{0,8}: To enable traceback"
            r"|\s*<NO_OTHER_FAILURES>|Failures:$|\s*\S{1,200} FAILED\s*$|\s*\[\d+\]:$"
        ),
    ),
    _row(
        "rule", "launcher", ("---", "===", "***", "###", "~~~", "^^^", "..."), start(r"\W{5,}$"),
    ),
    _row("own frame", "launcher", ('file "',), _own_frame),
)  # fmt: skip

_BY_NAME = {detector.name: detector for detector in TABLE}
NAMES = frozenset(_BY_NAME)
FAILS = frozenset(detector.name for detector in TABLE if detector.fails)


class Watch:
    """The rows that may fire on the lines of a log, and on each of them.

    Lines that differ in digits only have the same ones, so hints are looked for once a shape.
    """

    def __init__(self, texts: Iterable[str]):
        """`texts` are all lines that will be asked about."""
        shapes = set(map(_shape, texts))
        self.rows = _hinted(TABLE, b"\n".join(shapes).lower())
        self._of_shape: dict[bytes, list[Detector]] = {}

    def signs_of(self, text: str, ranked: bool) -> tuple[Sign, ...]:
        """Return what a line says: the name of each row that fires, with the groups of its match.

        `ranked`: whether the rank of the line is known.
        """
        shape = _shape(text)
        rows = self._of_shape.get(shape)
        if rows is None:
            if len(self._of_shape) > MOST_SHAPES:
                self._of_shape.clear()
            rows = self._of_shape[shape] = _hinted(self.rows, shape.lower())
        signs: tuple[Sign, ...] = ()
        for name, _, _, find, _, only_ranked in rows:
            if ranked or not only_ranked:
                groups = find(text)
                if groups is not None:
                    signs += ((name, groups),)
        return signs


def _hinted(rows: Iterable[Detector], low: bytes) -> list[Detector]:
    """The rows of which a text in lower case holds a hint."""
    hinted = []
    for row in rows:
        for hint in row.hints:
            if hint in low:
                hinted.append(row)
                break
    return hinted


def says(text: str, *names: str) -> bool:
    """Return whether one of these rows fires on a text that is no line of a log."""
    return any(_BY_NAME[name].find(text) is not None for name in names)
