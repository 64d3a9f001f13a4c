"""The classes of failure: what shows each, how often it is retried, and the entry that explains it.

The runner decides by this table, `rgt status` tells its decisions, and the reference shows it.
"""

from __future__ import annotations

from typing import NamedTuple


class Failure(NamedTuple):
    """One line of the table: a class, how often it is retried, what shows it, what is decided."""

    name: str
    retries: int
    shown_by: str
    decision: str  # behind the words "the runner"


_AGAIN = "doesn't retry: the next start would fail the same way"
FAILURES = (
    Failure(
        "preempted",
        9,
        "a notice, TERM, USR1, `stop`",
        "goes on from the newest whole checkpoint at the next start",
    ),
    Failure(
        "killed",
        3,
        "signal 9 with no sign of a memory limit; a rank that was killed; an end with 0 that came "
        "too early, by the results, `final_step` or the log",
        "retries 3 times; an early end at the same step once",
    ),
    Failure(
        "stall",
        2,
        "no log, no step, or full utilisation at idle power for too long; stacks are recorded "
        "first",
        "retries 2 times",
    ),
    Failure("hang", 2, "a collective that timed out", "retries 2 times"),
    Failure(
        "network",
        3,
        "a lost connection, a port that is taken",
        "retries 3 times, waiting longer each time",
    ),
    Failure("unknown", 1, "nothing known in the log", "retries once"),
    Failure(
        "setup",
        1,
        "a line of the job's `setup` that failed; a container that docker or podman didn't start",
        "retries once",
    ),
    Failure("bug", 0, "a traceback", _AGAIN),
    Failure("oom", 0, "the card's memory ran out", _AGAIN),
    Failure("host-oom", 0, "the kernel's count of kills for memory; too little /dev/shm", _AGAIN),
    Failure("disk", 0, "no room left, or a disk that can't be written", _AGAIN),
    Failure(
        "gpu",
        0,
        "an Xid that no program causes by itself, a card or driver that failed",
        "doesn't retry on this card",
    ),
    Failure("nan", 0, "three losses of nan in a row, if the job ends for them", _AGAIN),
    Failure("deadline", 0, "the deadline", "saves and ends; a later deadline goes on from there"),
    Failure("preflight", 0, "a check before the first attempt", "starts nothing"),
)
RETRIES = {row.name: row.retries for row in FAILURES}

# Texts of a program's log, by what they are a sign of.
SIGNS: dict[str, tuple[str, ...]] = {
    "timelimit": ("DUE TO TIME LIMIT", "DUE TO PREEMPTION"),
    "disk": (
        "No space left on device",
        "Disk quota exceeded",
        "PytorchStreamWriter failed writing file",
    ),
    "read-only": ("Read-only file system",),
    "shm": (
        "unable to allocate shared memory",
        "insufficient shared memory",
        "is killed by signal: Bus error",
    ),
    "oom": (
        "CUDA out of memory",
        "OutOfMemoryError: CUDA",
        "CUDA error: out of memory",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "HIP out of memory",
        "CUBLAS_STATUS_ALLOC_FAILED",
        "RESOURCE_EXHAUSTED: Out of memory",
    ),
    "host-oom": (
        "oom_kill event",
        "Out of memory: Killed process",
        "is killed by signal: Killed",
        "Cannot allocate memory",
        "MemoryError",
        "RESOURCE_EXHAUSTED: Out of memory",
        "DefaultCPUAllocator: not enough memory",
        "DefaultCPUAllocator: can't allocate memory",
    ),
    "kernel": ("no kernel image is available",),
    "driver": (
        "driver version is insufficient",
        "NVIDIA driver on your system is too old",
        "Driver/library version mismatch",
    ),
    "gpu": (
        "no CUDA-capable device is detected",
        "No CUDA GPUs are available",
        "fallen off the bus",
        "uncorrectable ECC error",
        "device(s) is/are busy or unavailable",
        "Unable to determine the device handle",
    ),
    "hang": (
        "Watchdog caught collective operation timeout",
        "Some NCCL operations have failed or timed out",
        "Timed out waiting",
        "collective operation timeout",
    ),
    "killed": ("exitcode  : -9", "exits with return code = -9", "Signal 9 (SIGKILL)"),
    "port": ("EADDRINUSE", "Address already in use"),
    "network": (
        "Temporary failure in name resolution",
        "Name or service not known",
        "Connection reset by peer",
        "Connection refused",
        "Connection timed out",
        "Connection closed by peer",
        "Network is unreachable",
        "Max retries exceeded with url",
        "Read timed out",
        "RemoteDisconnected",
        "ConnectTimeout",
        "IncompleteRead",
        "502 Bad Gateway",
        "503 Service",
        "504 Gateway",
    ),
    "bug": ("Traceback (most recent call last)",),
    "signal": ("SIGTERM", "SIGINT", "signal 15", "death signal"),
}
# Xids that a program causes by its own fault, or by its end; the card is well (NVIDIA's catalogue).
OWN_XIDS = (13, 31, 43, 45)
# Kind, platform (profile or target; * for all), entry. The first line that fits counts.
ENTRIES = (
    ("disk", "runpod", "RP11"),
    ("disk", "autodl", "AD5"),
    ("disk", "vastai", "VAST10"),
    ("disk", "paperspace", "PS10"),
    ("disk", "kubernetes", "K8S5"),
    ("inodes", "autodl", "AD4"),
    ("host-oom", "slurm", "SLURM4"),
    ("host-oom", "autodl", "AD8"),
    ("timelimit", "slurm", "SLURM2"),
    ("preempted", "vastai", "VAST4"),
    ("secret", "runpod", "RP12"),
    ("python", "autodl", "AD6"),
    ("oom", "local", "LOC3"),
    ("no-gpu", "kubernetes", "K8S6"),
    ("no-gpu", "notebooks", "NB3"),
    ("no-gpu", "runpod", "RP1"),
    ("kernel", "autodl", "AD9"),
    ("driver", "paperspace", "PS11"),
    ("driver", "runpod", "RP9"),
    ("driver", "vastai", "VAST5"),
    ("busy", "local", "LOC5"),
    ("disk", "*", "U6"),
    ("inodes", "*", "U7"),
    ("unwritable", "*", "U47"),
    ("read-only", "*", "U47"),
    ("clock", "*", "U46"),
    ("crlf", "*", "GEN4"),
    ("stall", "*", "D19"),
    ("hang", "*", "D20"),
    ("shm", "*", "DP15"),
    ("port", "*", "D4"),
    ("host-oom", "*", "DP9"),
    ("torn", "*", "C2"),
    ("lost", "*", "C4"),
    ("oom", "*", "U10"),
    ("no-gpu", "*", "U31"),
    ("kernel", "*", "ENV1"),
    ("driver", "*", "ENV6"),
    ("busy", "*", "GEN7"),
    ("held", "*", "U11"),
)
