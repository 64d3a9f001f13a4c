"""What /proc tells of a process that may hang: how busy it is, and what it waits for."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from typing import Any

from ..text.proc import read_stat, read_status

BETWEEN = 1.0  # seconds between two looks at the time on a processor
STEADY = 3  # ticks of a processor's time that one that stands still may use in between
# The numbers of calls in which a process may wait, by machine.
_CALLS_BY_MACHINE = {
    "x86_64": {
        0: "read", 1: "write", 2: "open", 4: "stat", 5: "fstat", 6: "lstat", 7: "poll", 16: "ioctl",
        17: "pread", 18: "pwrite", 19: "readv", 20: "writev", 23: "select", 34: "pause",
        35: "nanosleep", 40: "sendfile", 42: "connect", 43: "accept", 44: "send", 45: "recv",
        46: "sendmsg", 47: "recvmsg", 56: "clone", 57: "fork", 58: "vfork", 59: "execve",
        61: "wait", 72: "fcntl", 73: "flock", 74: "fsync", 75: "fdatasync", 78: "getdents",
        128: "sigtimedwait", 130: "sigsuspend", 202: "futex", 217: "getdents", 219: "restart",
        230: "nanosleep", 232: "epoll_wait", 247: "wait", 257: "open", 262: "stat", 270: "select",
        271: "poll", 281: "epoll_wait", 288: "accept", 295: "preadv", 332: "stat", 435: "clone",
    },
    "aarch64": {
        22: "epoll_wait", 25: "fcntl", 29: "ioctl", 32: "flock", 56: "open", 61: "getdents",
        63: "read", 64: "write", 65: "readv", 66: "writev", 67: "pread", 68: "pwrite",
        71: "sendfile", 72: "select", 73: "poll", 79: "stat", 80: "fstat", 82: "fsync",
        83: "fdatasync", 95: "wait", 98: "futex", 101: "nanosleep", 115: "nanosleep",
        128: "restart", 133: "sigsuspend", 137: "sigtimedwait", 202: "accept", 203: "connect",
        206: "send", 207: "recv", 211: "sendmsg", 212: "recvmsg", 220: "clone", 221: "execve",
        242: "accept", 260: "wait", 291: "stat", 435: "clone",
    },
}  # fmt: skip
_BY_NUMBER = frozenset(  # their first argument is an open file
    ("read", "write", "fstat", "ioctl", "pread", "pwrite", "readv", "writev", "sendfile", "connect",
     "accept", "send", "recv", "sendmsg", "recvmsg", "fcntl", "flock", "fsync", "fdatasync",
     "getdents", "preadv")
)  # fmt: skip
_BY_PATH = {"x86_64": {2: 0, 4: 0, 6: 0, 59: 0, 257: 1, 262: 1, 332: 1},
            "aarch64": {56: 1, 79: 1, 221: 0, 291: 1}}  # fmt: skip


def examine_process(pid: int) -> dict[str, Any]:
    """Return what is known of a process after two looks BETWEEN seconds apart; {} where it is gone.

    `cpu`: the share of one core that all its threads used in between. `main`: the share of the
    time in which the main thread ran, or wanted to on a machine without a free core. `steady`: both
    looks found the same state, and no work in between; whoever reads much is in D now and then.
    `wakes`: how often the main thread waited and went on in between.
    Calls and files need the right to trace it, so they may be missing.
    """
    before, waits, ready, began = read_stat(pid), _waits(pid), _ready(pid), time.monotonic()
    if before is None:
        return {}
    time.sleep(BETWEEN)
    after, seconds = read_stat(pid), time.monotonic() - began
    status = read_status(pid)
    if after is None or not status:
        return {}
    tid = f"/proc/{pid}/task/{pid}"
    state = (status.get("State") or "?")[0]
    worked = after.ticks - before.ticks
    return {
        "state": state,
        "steady": before.state == state and worked <= STEADY,
        "cpu": round(worked / os.sysconf("SC_CLK_TCK") / seconds, 2),
        "main": round(min(max(_ready(pid) - ready, 0) / seconds / 1e9, 1.0), 2),
        "threads": _leading_number(status.get("Threads")),
        "wakes": max(_waits(pid) - waits, 0),
        "rss_mb": _leading_number(status.get("VmRSS")) // 1024,
        "tracer": _leading_number(status.get("TracerPid")),
        "wchan": _first_bytes(f"{tid}/wchan").strip("0"),
        "call": waiting_call(pid) if state in "SD" else {},
        "kernel": _kernel_stack(pid) if state == "D" else [],
        "stuck_threads": _count_stuck_threads(pid),
    }


def waiting_call(pid: int) -> dict[str, str]:
    """Return the call that the main thread waits in: its name and its file, {} if unknown."""
    words = _first_bytes(f"/proc/{pid}/syscall").split()
    if len(words) < 7 or not words[0].isdigit():
        return {}
    machine, number = os.uname().machine, int(words[0])
    name = _CALLS_BY_MACHINE.get(machine, {}).get(number, f"call {number}")
    call = {"name": name}
    if name in _BY_NUMBER:
        with suppress(OSError, ValueError):
            call["file"] = os.readlink(f"/proc/{pid}/fd/{int(words[1], 16)}")
    at = _BY_PATH.get(machine, {}).get(number)
    if at is not None:
        call["file"] = _path_at(pid, int(words[1 + at], 16))
    return call


def _path_at(pid: int, address: int) -> str:
    """Return the path that a call was given, from the process's memory, '' where it is closed."""
    with suppress(OSError, ValueError, OverflowError), open(f"/proc/{pid}/mem", "rb", 0) as file:
        file.seek(address)
        return file.read(512).partition(b"\0")[0].decode("utf-8", "replace")
    return ""


def _ready(pid: int) -> int:
    """Return the nanoseconds that a main thread has run or waited for a core, 0 if unknown."""
    words = _first_bytes(f"/proc/{pid}/task/{pid}/schedstat").split()
    return int(words[0]) + int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _waits(pid: int) -> int:
    """Return how often a main thread has given its core back to wait."""
    return _leading_number(read_status(pid).get("voluntary_ctxt_switches"))


def _leading_number(text: str | None) -> int:
    match = re.match(r"\d+", text or "")
    return int(match[0]) if match else 0


def _first_bytes(path: str) -> str:
    with suppress(OSError), open(path, errors="replace") as file:
        return file.read(4096).strip()
    return ""


def _kernel_stack(pid: int) -> list[str]:
    """Return the kernel's functions that a process is in; root alone may read them."""
    lines = _first_bytes(f"/proc/{pid}/stack").splitlines()
    return [line.partition("] ")[2].partition("+")[0] for line in lines[:6]]


def _count_stuck_threads(pid: int) -> int:
    """Return how many threads are in state D besides the main one."""
    stats = []
    with suppress(OSError):
        names = os.listdir(f"/proc/{pid}/task")
        stats = [read_stat(int(name)) for name in names if name != str(pid)]
    return sum(stat is not None and stat.state == "D" for stat in stats)
