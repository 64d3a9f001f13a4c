"""The classes of failure: what shows each, how often it is retried, the entry that explains it, and
what to do about such an end.

The runner retries and decides by this table, `rgt status` and a look-up decide by it, and the
reference shows it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# What somebody who isn't watching does next: start it again as it is, start it on another box,
# change something before that, try later, or start nothing any more.
RESTART, ELSEWHERE, FIX, WAIT, STOP = "restart", "restart_elsewhere", "fix_first", "wait", "stop"
DECISIONS = (RESTART, ELSEWHERE, FIX, WAIT, STOP)


class Decision(NamedTuple):
    """What to do about an end, one of DECISIONS, and why, in a dozen words."""

    do: str
    why: str


class Failure(NamedTuple):
    """One line of the table: a class, how often it is retried, what shows it, what the runner does,
    and what to do about an end of which nothing more is known."""

    name: str
    retries: int
    shown_by: str
    runner: str  # behind the words "the runner"
    decision: Decision


_AGAIN = "doesn't retry: the next start would fail the same way"
_AFTER_PROGRESS = "retries once after an attempt that saved a newer checkpoint: it trains on"
FAILURES = (
    Failure(
        "preempted",
        9,
        "a notice, TERM, USR1, `stop`",
        "goes on from the newest whole checkpoint at the next start",
        Decision(RESTART, "it was ended from outside, not by a fault of its own"),
    ),
    Failure(
        "killed",
        3,
        "signal 9 with no sign of a memory limit; a rank that was killed; an end with 0 that came "
        "too early, by the results, `final_step` or the log",
        "retries 3 times; an early end at the same step once",
        Decision(RESTART, "it was killed from outside, and nothing shows a fault of its own"),
    ),
    Failure(
        "stall",
        2,
        "no line, step, checkpoint or other output, or full utilisation at idle power, for too "
        "long; stacks are recorded first",
        "retries 2 times",
        Decision(RESTART, "it stood still, which may pass with another start"),
    ),
    Failure(
        "hang",
        2,
        "a collective that timed out",
        "retries 2 times",
        Decision(RESTART, "a collective timed out, which may pass with another start"),
    ),
    Failure(
        "network",
        3,
        "a lost connection, a port that is taken",
        "retries 3 times, waiting longer each time",
        Decision(RESTART, "a connection failed, which often passes"),
    ),
    Failure(
        "unknown",
        1,
        "nothing known in the log",
        "retries once",
        Decision(RESTART, "nothing shows why it ended; one more start is worth it"),
    ),
    Failure(
        "setup",
        1,
        "a line of the job's `setup` that failed; a container that docker or podman didn't start",
        "retries once",
        Decision(RESTART, "its preparation failed, which may pass with another start"),
    ),
    Failure(
        "bug",
        1,
        "a traceback",
        "retries once: some tracebacks tell of a moment, such as a file that was locked",
        Decision(FIX, "the same start would most likely fail in the same way"),
    ),
    Failure(
        "oom",
        0,
        "the card's memory ran out",
        _AFTER_PROGRESS,
        Decision(FIX, "it needs less memory, or a larger card"),
    ),
    Failure(
        "host-oom",
        0,
        "the kernel's count of kills for memory; too little /dev/shm",
        _AFTER_PROGRESS,
        Decision(FIX, "it needs less memory of the machine, or a higher limit"),
    ),
    Failure(
        "disk",
        0,
        "no room left, or a disk that can't be written",
        "waits 10 minutes at most for room, and " + _AFTER_PROGRESS,
        Decision(FIX, "the disk needs room, or a folder that can be written"),
    ),
    Failure(
        "gpu",
        0,
        "an Xid that no program causes by itself, a card or driver that failed",
        "doesn't retry on this card",
        Decision(ELSEWHERE, "the card or its driver failed"),
    ),
    Failure(
        "nan",
        0,
        "three losses of nan in a row, if the job ends for them",
        _AGAIN,
        Decision(FIX, "the loss is nan, and would be again"),
    ),
    Failure(
        "deadline",
        0,
        "the deadline",
        "saves and ends; a later deadline goes on from there",
        Decision(STOP, "its deadline ended it; only a later one goes on"),
    ),
    Failure(
        "preflight",
        0,
        "a check before the first attempt",
        "starts nothing",
        Decision(FIX, "a check before the start refused it"),
    ),
)
# Ends that are no failure of the program: of the runner's, and those that a log tells of.
ENDS = {
    "done": Decision(STOP, "it ended with 0 and left all that the job expects"),
    "unsaved": Decision(FIX, "it trained to its end; save what is on the box first"),
    "stopped": Decision(STOP, "its user stopped it"),
    "cancelled": Decision(STOP, "somebody cancelled it; ask before starting it again"),
    "time": Decision(
        RESTART, "its time limit ended it; it must resume a save from before, or get more time"
    ),
    "limit": Decision(FIX, "a limit of its scheduler ended it; it needs less, or more of it"),
    "requeued": Decision(WAIT, "its scheduler has queued it again"),
    "closed": Decision(WAIT, "its queue or host takes no more work for now"),
    "node": Decision(ELSEWHERE, "the node failed, not the program"),
}
# Entries about which the class and the words of Retry say too little. Of any other entry
# `of_entry` decides.
ENTRY_DECISIONS = {
    RESTART: ("SLURM2", "VAST4"),
    ELSEWHERE: ("HW1", "HW2", "HW4", "HW5", "HW6", "HW9", "RP9", "VAST5", "VAST7", "VAST13"),
    FIX: (
        "AD9", "D4", "ENV1", "ENV6", "ENV22", "GEN7", "HW8", "K8S6", "LOC5", "NB3", "PS11", "RP14",
        "U11", "U31",
    ),
    WAIT: (
        "HUB1", "AWS2", "GCP1", "GCP2", "K8S1", "K8S3", "K8S4", "LAM5", "LAM14", "PS8", "RP1",
        "RP7", "SSH8", "U19", "U48", "VAST3",
    ),
}  # fmt: skip
_BY_ENTRY = {entry: do for do, entries in ENTRY_DECISIONS.items() for entry in entries}
_WHY = {
    RESTART: "nothing of the program has to change",
    ELSEWHERE: "the box is at fault, not the program",
    FIX: "something has to change first; see the entry",
    WAIT: "it is up to the platform; the same start works later",
}
FAILED_TWICE = "failed twice at the same step"  # of a run that `start` doesn't begin again
TWICE = "it failed twice at the same step in the same way; find the cause"
CELLS = "cells failed for good; the status of each says what to do"
USED_UP = "its retries are used up; look for the cause first"
UNFINISHED = "it ended with 0, but without all that the job expects"
ANEW = "it begins anew at each attempt, and failed twice; make it resume, or find the cause"
AGAIN = (TWICE, CELLS, USED_UP, ANEW)


def decide(end: str, entry: str = "", again: str = "", code: int | None = None) -> Decision | None:
    """Return what to do about an end, by its class or its name in ENDS; None for an unknown one.

    `entry` is the one that explains it, "" without one. `again` says why another start of the same
    would fail too, such as TWICE, "" where nothing was tried. `code` is the program's exit status.
    """
    rows = {row.name: row.decision for row in FAILURES}
    decision = rows.get(end) or ENDS.get(end)
    if decision is None:
        return None
    if end == "bug" and code == 0:
        return Decision(FIX, UNFINISHED)
    if again and decision.do == RESTART and end != "preempted":
        return Decision(FIX, again)
    do = _BY_ENTRY.get(entry, decision.do)
    return decision if do == decision.do else Decision(do, _WHY[do])


def of_entry(entry: str, domain: str, retry: str) -> str:
    """Return what to do about a failure that this entry of the catalogue explains.

    `domain` and `retry` are the entry's fields. Code that sometimes fails is mended all the same.
    """
    if entry in _BY_ENTRY:
        return _BY_ENTRY[entry]
    return RESTART if retry == "may help" and domain != "code" else FIX


def is_by_stop(reason: str) -> bool:
    """Return whether an end with this reason is its user's own stop; whatever else is to be told,
    such as a copy that isn't verified, stands behind it."""
    return reason.partition(";")[0] == "asked"


def end_of(phase: str, failure: str, reason: str) -> str:
    """Return the class of a run's end or its name in ENDS, "" for a run that goes on."""
    if phase == "preempted":
        return "stopped" if is_by_stop(reason) else failure or phase
    if phase == "failed":
        return failure or "unknown"
    return phase if phase in ENDS else ""


def as_answer(decision: Decision | None, resume_from: str = "") -> dict[str, str] | None:
    """Return a decision as answers give it; `resume_from`, the newest whole checkpoint, is
    left out where none is known."""
    if decision is None:
        return None
    is_over = decision == ENDS["done"]
    place = {"resume_from": resume_from} if resume_from and not is_over else {}
    return {"do": decision.do, **place, "why": decision.why}


def in_words(answer: dict[str, str]) -> str:
    """Return a decision of `as_answer` in one line."""
    place = answer.get("resume_from", "")
    if place and answer["do"] == STOP:
        return f"{answer['do']}: {answer['why']}; its newest good checkpoint is {place}"
    return f"{answer['do']}{f' from {place}' if place else ''}: {answer['why']}"


RETRIES = {row.name: row.retries for row in FAILURES}
# A leak, a longer batch, a disk that somebody fills: another attempt may come further.
MAY_PASS = ("oom", "host-oom", "disk")

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
        "OOMKilled",
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
    "unseen": ("no CUDA-capable device is detected", "No CUDA GPUs are available"),
    "in-use": ("device(s) is/are busy or unavailable",),
    "gpu": (
        "fallen off the bus",
        "uncorrectable ECC error",
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
        "ConnectionResetError",
        "ConnectionRefusedError",
        "ConnectionAbortedError",
        "ConnectionError",
        "ConnectError",
        "gaierror",
        "ReadTimeout",
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
    ("corrupt", "*", "C2"),
    ("lost", "*", "C4"),
    ("oom", "*", "U10"),
    ("no-gpu", "*", "U31"),
    ("kernel", "*", "ENV1"),
    ("driver", "*", "ENV6"),
    ("busy", "*", "GEN7"),
    ("unseen", "*", "ENV22"),
    ("in-use", "*", "HW8"),
    ("held", "*", "U11"),
)
# Kind of text and class, in the order in which a log is judged where nothing else is known of it.
JUDGED = (
    ("read-only", "disk"),
    ("disk", "disk"),
    ("shm", "host-oom"),
    ("oom", "oom"),
    ("host-oom", "host-oom"),
    ("kernel", "gpu"),
    ("driver", "gpu"),
    ("unseen", "gpu"),
    ("in-use", "gpu"),
    ("gpu", "gpu"),
    ("hang", "hang"),
    ("killed", "killed"),
    ("port", "network"),
    ("network", "network"),
    ("bug", "bug"),
)


def entry_of(job: Any, kind: str) -> str:
    """Return the entry that explains a kind of failure on the job's platform, '' for none."""
    places = (job.rendered.profile, job.rendered.target, "*")
    return next((entry for k, place, entry in ENTRIES if k == kind and place in places), "")


def judge_text(text: str) -> tuple[str, str]:
    """Return the class and the entry of a failure by the texts of its log, "" for none.

    As the runner judges a program that ended with an error, without what only the box knows.
    """
    text = text.lower()
    for kind, name in JUDGED:
        if any(sign.lower() in text for sign in SIGNS[kind]):
            return name, next((e for k, place, e in ENTRIES if (k, place) == (kind, "*")), "")
    return "", ""
