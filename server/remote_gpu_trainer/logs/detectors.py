"""One table of what a line of a log can say, each row with its role. Python 3.8.

`Watch.signs_of` searches each line once; everything after it reads `Line.signs`. A row fires on its
pattern alone. `lines` and `judging` say what a line means beside others: a message after an
exception, a failure that was survived.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from .kinds import EXCEPTION, FAILURE, FRAME, PLAIN, TRACE, WARNING

MOST_TEMPLATES = 5_000  # of lines that a `Watch` remembers
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
# Hydra's head above a traceback: Error executing job with overrides: ['lr=0.1']
_HYDRA = "Error executing job with overrides"
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
# [E419 10:42:28.887 ProcessGroupNCCL.cpp:733] Stack trace of the failed collective:
_OF_WATCHDOG = r"\[E\d{0,4}(?: [\d:.]{8,20})?(?: \d{1,9})? ?ProcessGroup"
_WATCHDOG_LINE = re.compile(_OF_WATCHDOG)
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
# "[PG ID 0 PG GUID 0(default_pg) Rank 3] Exception (…) detected by watchdog"
_GROUP = r"\[(?:PG (?:ID )?(\w{1,12})(?: PG GUID (\w{1,80}))?(?: ?\(([^()\]]{0,80})\))? )?"


# ./run.sh: line 9: python3.12: command not found
NO_PROGRAM = re.compile(
    r".{0,200}[:：] ?(?:command not found|未找到命令|找不到命令)\.{0,3}$"
    r"|zsh: command not found: \S{1,80}$"
)
# What lines have in common that differ in numbers alone: see `template_of`.
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
_DIGITS = b"0123456789"


def template_of(text: str) -> str:
    """Return a text with "#" for each number and address in it."""
    return _NUMBER.sub("#", text)


def without_digits(text: str) -> bytes:
    """Return a text as bytes without its digits. It takes a third of the time of `template_of`."""
    return text.encode("utf-8", "surrogatepass").translate(None, _DIGITS)


class Detector(NamedTuple):
    """A row of the table.

    `hints` are in lower case; a line that fires holds one of them, and b"" is in every line.
    `find` returns the groups of a match, or None. `kind` is what it makes of a line, "" for
    nothing. `ranked`: the row is only for lines of a known rank. The row fires on each line of
    `matches`, and not on the one that it `spares`, which looks like them.
    """

    name: str
    role: str
    hints: tuple[bytes, ...]
    find: Callable[[str], tuple | None]
    matches: tuple[str, ...]
    spares: str
    kind: str = ""
    ranked: bool = False


def _row(
    name: str,
    role: str,
    hints: tuple[str, ...],
    find: Callable[[str], tuple | None],
    matches: tuple[str, ...],
    spares: str,
    kind: str = "",
    ranked: bool = False,
) -> Detector:
    """A row whose hints have no digits, as the templates in which they are looked for."""
    words_of = tuple(without_digits(hint) for hint in hints)
    return Detector(name, role, words_of, find, matches, spares, kind, ranked)


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

    Such as "validation error: 0.113" and "INFO Error handling enabled:". What Hydra writes above
    each traceback says of no other error.
    """
    if _HYDRA in text:
        return None
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
    if not (any(phrase in low for phrase in _LOST) or _WATCHDOG_LINE.search(text[:SAYS_SO])):
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
        kind=TRACE,
        matches=("Traceback (most recent call last):",),
        spares="traceback : To enable traceback see",
    ),
    _row(
        "frame", "root", ('file "',), _FRAME,
        kind=FRAME,
        matches=('  File "train.py", line 3, in main',),
        spares='cannot read File "a.txt", line 3',
    ),
    _row(
        "exception", "root", tuple(end.lower() for end in _EXCEPTION_ENDS), _exception,
        kind=EXCEPTION,
        matches=("torch.OutOfMemoryError: CUDA out of memory.",),
        spares="an Error: no",
    ),
    _row(
        "killed", "root", ("kill", "已杀死"),
        pattern(r"\bKilled\b|Reason: +OOMKilled|killed by signal|已杀死", most=SAYS_SO),
        kind=FAILURE,
        matches=("run.sh: line 3:  4012 Killed   python train.py",),
        spares="skilled labour",
    ),
    _row(
        "crash", "root", ("fault", "bus error", "dumped", "abort", "terminate", "what()", "段错误",
         "转储", "吐核", "总线错误", "free", "alloc()", "corrupted ", "munmap_chunk", "hsa_status_",
         "panicked at", "fallen off", "symbol lookup"),
        pattern(
            r"Segmentation fault|Bus error|core dumped|Aborted\b|terminate called|what\(\):"
            r"|段错误|总线错误|核心已转储|吐核"
            # double free or corruption (!prev)     glibc, of a damaged heap
            r"|double free or corruption|(?:free|[mr]e?alloc|munmap_chunk)\(\): [a-z]"
            r"|corrupted (?:size vs|double-linked)"
            # Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f00.     ROCm
            r"|Memory access fault by GPU|HSA_STATUS_ERROR|fallen off the bus"
            # thread 'main' panicked at src/lib.rs:10:5:     Rust
            r"|thread '.{1,80}' .{0,20}panicked at|: symbol lookup error: ",
            most=SAYS_SO,
        ),
        kind=FAILURE,
        matches=(
            "Fatal Python error: Segmentation fault",
            "double free or corruption (!prev)",
            "free(): invalid pointer",
            "malloc(): corrupted top size",
            "realloc(): invalid next size",
            "corrupted size vs. prev_size",
            "Memory access fault by GPU node-1 (Agent handle: 0x5566) on address "
            "0x7f0000000000.",
            ":0:rocdevice.cpp :2614: 123456 us: HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation",
            "NVRM: GPU 0000:3B:00.0: GPU has fallen off the bus.",
            "thread 'main' panicked at src/lib.rs:10:5",
            "python: symbol lookup error: libc10_cuda.so: undefined symbol: "
            "cudaGetDriverEntryPoint",
        ),
        spares="default segment: abortion of trials",
    ),
    _row(  # cp: cannot create regular file 'a': Disk quota exceeded     as strerror names it
        "system error", "root",
        ("file handle", "output error", "i/o error", "quota exceeded", "space left",
         "-only file system", "transport endpoint", "allocate memory", "[errno "),
        pattern(
            r"(?:^|: |\] )(?:Stale (?:NFS )?file handle|(?:Input/output|Remote I/O) error"
            r"|Disk quota exceeded|No space left on device|Read-only file system"
            r"|Transport endpoint is not connected|Cannot allocate memory)(?:$|: ')"
            # Ignored error while writing a.json: [Errno 13] Permission denied: '/data/.cache'
            # An exception of that form has a row of its own.
            r"|(?<!Error: )(?<!^)\[Errno \d{1,3}\] [A-Z]",
            most=SAYS_SO,
        ),
        kind=FAILURE,
        matches=(
            "Stale file handle",
            "cp: cannot create regular file 'a': Disk quota exceeded",
            "OSError: [Errno 5] Input/output error: '/mnt/data/x'",
            "mkdir: cannot create directory: Read-only file system",
            "OSError: [Errno 12] Cannot allocate memory",
            "Ignored error while writing a.json: [Errno 13] Permission denied: '/data/.cache'",
        ),
        spares="retry on Stale file handle is enabled",
    ),
    _row(
        # The second begins a line where processes that write at once tear it from its exception.
        "cuda error", "root", ("cuda error", "out of memory. tried"),
        pattern("CUDA error|^(?:CUDA|HIP) out of memory. Tried to allocate", most=SAYS_SO),
        kind=FAILURE,
        matches=(
            "RuntimeError: CUDA error: device-side assert triggered",
            "CUDA out of memory. Tried to allocate 56.00 MiB. GPU CUDA out of memory.",
        ),
        spares="cuda errors: 0",
    ),
    _row(
        "nccl warning", "root", ("nccl warn",), pattern("NCCL WARN", most=SAYS_SO),
        kind=FAILURE,
        matches=("node:1:2 [0] NCCL WARN Cuda failure 'out of memory'",),
        spares="NCCL INFO warnings off",
    ),
    _row(
        "memory kill", "root", ("oom", "out of memory: kill", "slurmstepd", "srun: error"),
        pattern(r"oom[-_]kill|Out of memory: Kill|slurmstepd: error|srun: error", most=SAYS_SO),
        kind=FAILURE,
        matches=("slurmstepd: error: Detected 1 oom_kill event",),
        spares="a room killed by noise",
    ),
    _row(
        "fatal", "root", ("fatal",), pattern(r"\bFATAL\b|\bfatal error\b", most=SAYS_SO),
        kind=FAILURE,
        matches=("FATAL: checkpoint folder is gone",),
        spares="non-fatal warnings: 3",
    ),
    _row(
        "no program", "root", ("command not found", "未找到命令", "找不到命令"),
        lambda line: () if NO_PROGRAM.match(line[:SAYS_SO].strip()) else None,
        kind=FAILURE,
        matches=(
            "go.sh: line 4: pyhton: command not found",
            "bash: 第 4 行: accelerate: 未找到命令",
        ),
        spares="if it says command not found, install it",
    ),
    _row(
        "assertion", "root", ("assertion",), pattern(r"Assertion .{0,200} failed", most=SAYS_SO),
        kind=FAILURE,
        matches=("Loss.cu:94: block: [0,0,0] Assertion `t >= 0` failed.",),
        spares="assertions are on",
    ),
    _row(
        "logged error", "root", ("error",), _logged_error,
        kind=FAILURE,
        matches=("ERROR: failed to read shard 7",),
        spares="val error: 0.113",
    ),
    _row(  # a line with none of these may only log an error, as in "wandb: ERROR retrying"
        "end", "root", _ENDS, words(*_ENDS),
        matches=("[rank2]: Segmentation fault (core dumped)",),
        spares="wandb: ERROR retrying",
    ),
    _row(
        "barrier", "root", ("failed to pass",),
        pattern(r"Rank (\d{1,5}) failed to pass monitoredBarrier"),
        matches=("RuntimeError: Rank 3 failed to pass monitoredBarrier in 5000 ms",),
        spares="all ranks passed monitoredBarrier",
    ),
    _row(
        "nccl error", "root", ("nccl",), pattern(r"NCCL error|^nccl"),
        matches=("ncclInternalError: Internal check failed.",),
        spares="NCCL_DEBUG=INFO",
    ),
    _row(  # what NCCL adds to a "system error" that is this rank's alone
        "own nccl", "root",
        ("shared memory", "shm_open", "/dev/shm", "no space left", "cuda failure", "cuda calloc",
         "no socket interface"),
        pattern(
            r"shared memory (?:segment|file)|shm_open|/dev/shm/nccl|No space left"
            r"|Cuda failure|Failed to CUDA calloc|no socket interface found",
            most=SAYS_SO,
        ),
        matches=("Error while creating shared memory segment /dev/shm/nccl-1YsMbG (size 7340384)",),
        spares="socketProgress: Connection closed by remote peer node-2<41542>",
    ),
    # What it says when another one is gone.
    _row(
        # [E1121 02:11:12.123 ProcessGroupNCCL.cpp:1414] To avoid data inconsistency, we are taking
        # the entire process down.
        "watchdog", "cascade", ("watchdog", "processgroup"),
        pattern(
            r"watchdog(?! thread (?:started|terminated normally))"
            r"|" + _OF_WATCHDOG + "|Watchdog caught",
            most=SAYS_SO,
        ),
        kind=FAILURE,
        matches=(
            "[E1120 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective "
            "operation timeout",
        ),
        spares="NCCL watchdog thread started!",
    ),
    _row(
        "secondary", "cascade", (*_LOST, "processgroup"), _secondary,
        matches=(
            "RuntimeError: Timed out waiting 4000ms for recv operation to complete",
            "[E419 10:42:28.887728774 ProcessGroupNCCL.cpp",
        ),
        spares="TypeError: __init__() got an unexpected keyword argument 'timeout_s'",
    ),
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
        matches=("RuntimeError: Connection closed by peer [10.0.0.1]:3000",),
        spares="connection opened by peer",
    ),
    _row(
        "waited", "cascade", ("watchdog", "collective operation", "timeout at nccl"),
        pattern(
            r"Watchdog caught collective|collective operation timeout|Timeout at NCCL work", re.I
        ),
        matches=("[Rank 0] Timeout at NCCL work: 5123",),
        spares="collective operation done",
    ),
    _row(
        "group", "cascade", ("rank ",), pattern(_GROUP + r"Rank (\d{1,5})\]"),
        matches=("[PG ID 1 PG GUID 4(tp) Rank 0] Exception (either an error or timeout)",),
        spares="[rank0]: Rank 0 is ready",
    ),
    _row(
        "enqueued", "cascade", ("last enqueued",),
        pattern(r"last enqueued (?:NCCL )?work: (\d{1,12})", re.I),
        matches=("Last enqueued NCCL work: 12, last completed NCCL work: 11.",),
        spares="last completed work: 3",
    ),
    _row(
        "waits in", "cascade", ("worknccl(seqnum=",),
        pattern(
            r"WorkNCCL\(SeqNum=(\d{1,12})(?:, OpType=(\w{1,40}))?"
            r"(?:, NumelIn=(\d{1,15}), NumelOut=(\d{1,15}))?"
        ),
        matches=("Watchdog caught: WorkNCCL(SeqNum=412, OpType=ALLREDUCE)",),
        spares="WorkNCCL(OpType=ALLREDUCE)",
    ),
    _row(  # "inconsistent" in older releases of PyTorch
        "mismatch", "cascade", ("is running collective", "is running inconsistent"),
        pattern("is running (?:inconsistent )?collective"),
        matches=(
            "Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=4, "
            "OpType=ALLREDUCE)",
        ),
        spares="rank 0 is running",
    ),
    _row(
        "initiator", "cascade", ("to signal dumping",),
        pattern("First PG on this rank to signal dumping"),
        matches=(
            "[PG ID 0 PG GUID 0(default_pg) Rank 3] First PG on this rank to signal dumping.",
        ),
        spares="nothing to signal dumping",
    ),
    _row(
        "notified", "cascade", ("dump signal",),
        pattern("Observed flight recorder dump signal from another rank"),
        matches=("[Rank 1] Observed flight recorder dump signal from another rank via TCPStore.",),
        spares="Received a dump signal due to a collective timeout from this local rank",
    ),
    _row(  # stacks of C++ are printed without a rank
        "native frame", "cascade", ("frame #", "exception raised from"),
        start(r"\s*(?:frame #\d+: |Exception raised from )"),
        matches=("frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96",),
        spares="a frame #3: x",
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
        matches=("Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",),
        spares="os.environ['TORCH_USE_CUDA_DSA'] = '1'",
    ),
    _row(  # DEBUG train: parsing {"error": null}     2026-11-28 09:01:16 | TRACE    | io:read:7 - …
        "debug level", "advice", ("debug", "trace"),
        start(
            r"(?:(?!\b(?:INFO|WARN|ERROR|CRITICAL|FATAL|(?:[a-z]{1,20} ){2})|[eE]rror).){0,80}?"
            r"(?<![\w=.-])(?:DEBUG|TRACE)(?![\w=/-])"
        ),
        kind=PLAIN,
        matches=("2026-11-28 09:22:08,908 DEBUG urllib3: retry on ConnectionError",),
        spares="ERROR train: run it with TORCH_DISTRIBUTED_DEBUG=DETAIL to see more",
    ),
    _row(
        "warning", "advice", ("warn", "[w"), pattern(r"Warning:|\bWARN(?:ING)?\b|\[W\d* "),
        kind=WARNING,
        matches=("UserWarning: lr_scheduler.step() was called first",),
        spares="no warnings",
    ),
    # How far a rank has come.
    _row(
        "step", "progress", ("step", "it", "batch"),
        pattern(r"\b(?:step|iter(?:ation)?|it|batch)\b\D{0,4}(\d{1,9})", re.I),
        ranked=True,
        matches=("epoch 0 step 3 loss 2.7",),
        spares="epoch 3 loss 2.7",
    ),
    _row(
        "done", "progress", ("done", "finished", "complete", "stopped"),
        pattern(
            r"\b(?:train|run|job|fit|script|program|epoch)\w{0,8}\b"
            r".{0,40}\b(?:finished|completed?|done|stopped)\b"
            r"|^\W*(?:all )?(?:finished|completed?|done)\b(?:\W*$| in \d)",
            re.I,
        ),
        ranked=True,
        matches=("`Trainer.fit` stopped: `max_epochs=10` reached.",),
        spares="loading done",
    ),
    # What the launcher says.
    _row(
        "exit", "launcher", ("exit", "signal", "退出代码"),
        pattern(
            r"exitcode\s*:\s*-?[1-9]|Signal \d+ \(SIG"
            r"|exited with (?:code|status|signal)(?!\W{0,3}0\b)|Exit code(?!\W{0,3}0\b)"
            r"|exit code -?[1-9]|退出代码为? ?-?[1-9]",
            most=SAYS_SO,
        ),
        kind=FAILURE,
        matches=("  exitcode  : -9 (pid: 12388)",),
        spares="the program exited with code 0",
    ),
    _row(
        "root cause", "launcher", ("root cause (first",),
        pattern(r"Root Cause \(first observed failure\)"),
        matches=("Root Cause (first observed failure):",),
        spares="Root cause: unknown",
    ),
    _row(
        "ended rank", "launcher", ("rank",), start(r"\s*rank\s*:\s*(\d{1,5})\b"),
        matches=("  rank      : 2 (local_rank: 2)",),
        spares="local rank: 2",
    ),
    _row(
        "ended code", "launcher", ("exitcode",),
        start(r"\s*exitcode\s*:\s*(-?\d{1,5})\b(?: \(pid: (\d{1,9})\))?"),
        matches=("  exitcode  : 1 (pid: 12388)",),
        spares="failed (exitcode: 1) local_rank: 2",
    ),
    _row(
        "ended signal", "launcher", ("signal ",), start(r"\s*traceback\s*:\s*Signal (\d{1,3})"),
        matches=("  traceback : Signal 9 (SIGKILL) received by PID 12388",),
        spares="Signal 9 received",
    ),
    _row(
        "forced", "launcher", ("forcefully exiting",),
        pattern(r"Unable to shutdown process (\d{1,9}) via .{1,40} forcefully exiting"),
        matches=(
            "Unable to shutdown process 702 via Signals.SIGTERM, forcefully exiting via SIGKILL",
        ),
        spares="forcefully exiting the queue",
    ),
    _row(
        "wrapper", "launcher",
        ("failed", "childfailed", "calledprocess", "systemexit", "processexited",
         "processraised", "signalexception", "subprocess-exited", "returned non-zero exit"),
        pattern(
            r"FAILED$|ChildFailedError|CalledProcessError|SystemExit|ProcessExitedException"
            r"|ProcessRaisedException|SignalException|subprocess-exited|returned non-zero exit"
        ),
        matches=("train.py FAILED",),
        spares="FAILED to read shard 7",
    ),
    _row(
        "exit code", "launcher", ("exit", "died with"),
        pattern(
            r"failed \(exitcode: ?(-?\d{1,5})\)|exits with return code = (-?\d{1,5})"
            r"|^\s*exitcode\s{0,8}: ?(-?\d{1,5})\b|returned non-zero exit status (\d{1,10})"
            r"|died with <(Signals\.\w{1,20}: \d{1,3})>"
        ),
        matches=("failed (exitcode: -9) local_rank: 2 (pid: 12388) of binary: python",),
        spares="exit code 1",
    ),
    _row(
        "no cause", "launcher",
        ("closing signal sigterm", "childfailederror", "killing subprocess"),
        pattern(
            r"Sending process \d+ closing signal SIGTERM|ChildFailedError"
            r"|\[launch\.py:\d+:sigkill_handler\] Killing subprocess"
        ),
        matches=("Sending process 12386 closing signal SIGTERM",),
        spares="sending process data",
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
        matches=("  time      : 2026-11-23_12:46:12",),
        spares="timeline: 3",
    ),
    _row(
        "rule", "launcher", ("---", "===", "***", "###", "~~~", "^^^", "..."), start(r"\W{5,}$"),
        matches=("============",),
        spares="== end ==",
    ),
    _row(
        "own frame", "launcher", ('file "',), _own_frame,
        matches=(
            'File "/usr/lib/python3/site-packages/torch/distributed/run.py", line 1028, '
            'in main',
        ),
        spares='  File "/root/code/run.py", line 3, in main',
    ),
)  # fmt: skip

_BY_NAME = {detector.name: detector for detector in TABLE}
NAMES = frozenset(_BY_NAME)
KIND_OF = {detector.name: detector.kind for detector in TABLE if detector.kind}
FAILS = frozenset(name for name, kind in KIND_OF.items() if kind == FAILURE)


class Watch:
    """The rows that may fire on the lines of a log, and on each of them.

    Lines that differ in digits only have the same ones, so hints are looked for once a template.
    """

    def __init__(self, texts: Iterable[str]):
        """`texts` are all lines that will be asked about."""
        templates = set(map(without_digits, texts))
        self.rows = _hinted(TABLE, b"\n".join(templates).lower())
        self._of_template: dict[bytes, list[Detector]] = {}

    def signs_of(self, text: str, ranked: bool) -> tuple[Sign, ...]:
        """Return what a line says: the name of each row that fires, with the groups of its match.

        `ranked`: whether the rank of the line is known.
        """
        template = without_digits(text)
        rows = self._of_template.get(template)
        if rows is None:
            if len(self._of_template) > MOST_TEMPLATES:
                self._of_template.clear()
            rows = self._of_template[template] = _hinted(self.rows, template.lower())
        signs: tuple[Sign, ...] = ()
        for row in rows:
            if ranked or not row.ranked:
                groups = row.find(text)
                if groups is not None:
                    signs += ((row.name, groups),)
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
