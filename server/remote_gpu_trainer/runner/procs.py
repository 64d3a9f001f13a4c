"""Processes: who lives, and what belongs to the program."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress

from ..text.proc import (
    NOTED,
    Stat,
    is_same_process,
    read_noted,
    read_pairs,
    read_stat,
    read_table,
    send_signal,
)
from ..text.proc import read_environment as environ
from ..text.proc import with_descendants as children
from .folder import ATTEMPT, Folder

__all__ = [
    "MARK", "Stat", "alive", "beat_of", "boot_id", "bytes_moved", "children", "cpu_seconds",
    "cpu_ticks", "environ", "forget_pid", "host", "is_same_process", "note_pid",
    "note_program", "noted", "of_program", "protect", "read_table", "seconds_up", "send", "stat",
    "table", "tree", "uptime",
]  # fmt: skip

MARK = "RGT_RUN_DIR"  # in the environment of every process of the program
_usual_score: list[str] = []  # of this process's oom_score_adj, the first one before all changes
OWN = b"RGT_OWN=1"  # in that of every process that works for the run beside it


def stat(pid: int) -> Stat | None:
    """Return a process's stat; None when it is gone or only waits to be reaped."""
    found = read_stat(pid)
    return found if found and found.lives else None


def table() -> dict[int, Stat]:
    """Return all living processes, {} on a system that doesn't tell them."""
    return {pid: process for pid, process in read_table().items() if process.lives}


def note_pid(folder: Folder, name: str, pid: int, *more: object) -> bool:
    """Note pid and start of the run's runner, supervisor or sync, and `more` behind."""
    process = stat(pid)
    if process is None:
        return False
    return folder.fill(NOTED[name], " ".join(map(str, (pid, process.start, *more))))


def beat_of(folder: Folder) -> float | None:
    """Return when the run's runner looked last, in seconds since 1970; None before the first time,
    and after its end."""
    words = folder.read(NOTED["runner"]).split()
    return float(words[2]) if len(words) > 2 and words[2].isdigit() else None


def forget_pid(folder: Folder, name: str) -> None:
    """Note that it goes by itself, and nobody need start another one."""
    folder.fill(NOTED[name], "")


def note_program(folder: Folder, pid: int, **more: object) -> None:
    """Note pid and start of the attempt's program beside what attempt.json says."""
    process = stat(pid)
    found = {**folder.json(ATTEMPT), **more, "pid": pid, "start": process.start if process else 0}
    folder.overwrite(ATTEMPT, json.dumps(found) + "\n")


def noted(folder: Folder, name: str) -> tuple[int, int]:
    """Return pid and start of one of the run's processes, alive or not; (0, 0) for nothing."""
    return read_noted(folder.path, name)


def alive(folder: Folder, name: str) -> int:
    """Return the pid of the run's runner, supervisor, train or sync; 0 when it is gone."""
    pid, start = noted(folder, name)
    return pid if is_same_process(pid, start) else 0


def tree(leader: int) -> set[int]:
    """Return a process with all its descendants that live, and what is in its session."""
    among = table()
    return children([leader], among) | {
        pid for pid, process in among.items() if process.session == leader
    }


def bytes_moved(pid: int) -> int:
    """Return how many bytes a process has read and written, 0 where that is hidden."""
    try:
        with open(f"/proc/{pid}/io") as file:
            return sum(int(file.readline().split()[1]) for _ in range(2))
    except (OSError, IndexError, ValueError):
        return 0


def of_program(folder: Folder, leader: int = 0) -> set[int]:
    """Return every process of the program.

    Found by the run's mark in the environment (workers of torchrun open sessions of their own, and
    orphans lose their parent), by the leader's session, and by descent from it or from the
    supervisor, which inherits orphans: all but those that carry the mark of our own processes.
    """
    among = table()
    mark = f"{MARK}={folder.path}".encode("utf-8", "surrogateescape")
    found = {leader} if leader in among else set()
    found |= {pid for pid in among if mark in read_pairs(pid)}
    if leader:
        found |= {pid for pid, process in among.items() if process.session == leader}
    above = alive(folder, "supervisor")
    orphans = {pid for pid, process in among.items() if above and process.parent == above}
    found |= {pid for pid in orphans if OWN not in read_pairs(pid)}
    ours = {os.getpid(), above, alive(folder, "runner")}
    return children(found - ours, among) - ours


def protect(is_last: bool) -> None:
    """Have the kernel kill this process last where memory runs out, or as it would have before.
    Where that isn't ours to choose, nothing changes."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "r+") as file:
        _usual_score.append(file.read().strip())
        file.seek(0)
        file.write("-500" if is_last else _usual_score[0])


def cpu_ticks(pid: int) -> int:
    """Return the clock ticks that a process has computed, 0 when it is gone."""
    process = stat(pid)
    return process.ticks if process else 0


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU time that these processes have used, with that of their ended children."""
    processes = filter(None, map(stat, pids))
    return sum(one.ticks + one.ended_ticks for one in processes) / os.sysconf("SC_CLK_TCK")


def send(pids: Iterable[int], sign: int) -> None:
    """Signal processes that may be gone."""
    for pid in pids:
        send_signal(pid, sign)


def boot_id() -> str:
    """Return the id of this boot, '' for none. A restarted container keeps the host's."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def uptime() -> float:
    """Return the seconds since this machine's boot."""
    try:
        with open("/proc/uptime") as file:
            return float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return time.monotonic()


def seconds_up() -> float:
    """Return the seconds since the first process here began: a container's start, or the boot."""
    first, up = stat(1), uptime()
    age = up - first.start / os.sysconf("SC_CLK_TCK") if first else up
    return age if age >= 0 else up  # LXC tells the uptime of the container, not of the host


def host() -> str:
    """Return the kernel's name of this machine: a scheduler hands the login node's HOSTNAME on."""
    try:
        with open("/proc/sys/kernel/hostname") as file:
            return file.read().strip()
    except OSError:
        return os.uname().nodename
