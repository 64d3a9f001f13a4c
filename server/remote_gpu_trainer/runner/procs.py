"""Processes: who lives, and what belongs to the program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from .folder import Folder

CONTAINER = "container.json"  # in the run folder: the words that remove the program's container
CONTAINER_LIMIT = 60.0  # seconds for that
MARK = "RGT_RUN_DIR"  # in the environment of every process of the program


class Stat(NamedTuple):
    """What /proc/PID/stat tells. `start`: clock ticks since boot, which tell two owners of a pid
    apart."""

    name: str
    state: str
    parent: int
    session: int
    start: int


def stat(pid: int) -> Stat | None:
    """Return a process's stat; None when it is gone or only waits to be reaped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return None
    head, _, rest = text.rpartition(")")
    words = rest.split()
    if len(words) < 20 or words[0] in "ZX":
        return None
    return Stat(head.partition("(")[2], words[0], int(words[1]), int(words[3]), int(words[19]))


def same(pid: int, start: int) -> bool:
    """Return whether this very process lives; its pid may belong to another one by now."""
    found = stat(pid) if pid else None
    return found is not None and found.start == start


def table() -> dict[int, Stat]:
    """Return all living processes."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            told = stat(int(name))
            if told is not None:
                found[int(name)] = told
    return found


def note_pid(folder: Folder, name: str, pid: int) -> bool:
    """Write NAME.pid: a pid and its start."""
    told = stat(pid)
    return told is not None and folder.write(f"{name}.pid", f"{pid} {told.start}\n")


def noted(folder: Folder, name: str) -> tuple[int, int]:
    """Return what NAME.pid says, alive or not; (0, 0) for nothing."""
    words = folder.read(f"{name}.pid").split()
    if len(words) >= 2 and words[0].isdigit() and words[1].isdigit():
        return int(words[0]), int(words[1])
    return 0, 0


def alive(folder: Folder, name: str) -> int:
    """Return the pid of the run's runner, keeper, holder, train or sync; 0 when it is gone."""
    pid, start = noted(folder, name)
    return pid if same(pid, start) else 0


def environ(pid: int) -> dict[str, str]:
    """Return a process's environment as it began; {} where it can't be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = file.read().split(b"\0")
    except OSError:
        return {}
    split = (pair.decode("utf-8", "surrogateescape").partition("=") for pair in pairs if pair)
    return {name: value for name, _, value in split}


def children(of: Iterable[int], among: dict[int, Stat]) -> set[int]:
    """Return these processes and all their descendants that live."""
    found = {pid for pid in of if pid in among}
    grew = True
    while grew:
        more = {pid for pid, told in among.items() if told.parent in found and pid not in found}
        found |= more
        grew = bool(more)
    return found


def of_program(folder: Folder, leader: int = 0) -> set[int]:
    """Return every process of the program.

    Found by the run's mark in the environment (workers of torchrun open sessions of their own, and
    orphans lose their parent), by the leader's session, and by descent from it or from its holder,
    which inherits orphans whatever their environment. Runner, keeper and holder don't count.
    """
    among = table()
    mark = f"{MARK}={folder.path}".encode("utf-8", "surrogateescape")
    found = {leader} if leader in among else set()
    for pid in among:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.add(pid)
        except OSError:
            continue
    if leader:
        found |= {pid for pid, told in among.items() if told.session == leader}
    holder = alive(folder, "holder")
    found |= {pid for pid, told in among.items() if holder and told.parent == holder}
    ours = {os.getpid(), holder, *(alive(folder, n) for n in ("runner", "keeper", "deadman"))}
    return children(found - ours, among) - ours


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU time that these processes have used, with that of their ended children."""
    ticks = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
            ticks += sum(int(word) for word in words[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def send(pids: Iterable[int], sign: int) -> None:
    """Signal processes that may be gone."""
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, sign)


def kill_program(folder: Folder, tries: int = 20) -> bool:
    """Kill what is left of the program, until nothing is found; True if there was anything.

    A container whose processes can't be seen from here is removed by its engine.
    """
    had = False
    for _ in range(tries):
        left = of_program(folder, alive(folder, "train"))
        if not left:
            break
        had = True
        send(left, signal.SIGKILL)
        time.sleep(0.05)
    end_container(folder)
    return had


def end_container(folder: Folder) -> None:
    """Remove the program's container, where an engine with a daemon runs one."""
    try:
        words = json.loads(folder.read(CONTAINER) or "[]")
        if words:
            subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=CONTAINER_LIMIT,
                check=False,
            )
            folder.remove(CONTAINER)
    except (OSError, ValueError, subprocess.SubprocessError):
        return


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
