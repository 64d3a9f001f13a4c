"""What /proc tells of processes. Runs on the box too: Python 3.8, standard library only."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

# Who notes its pid and start in a run's folder, and where. An older version had a file NAME.pid for
# each of them, and what it started may live on.
NOTED = {
    "train": "attempt.json",
    "runner": "lock",
    "supervisor": "own/supervisor.lock",
    "sync": "own/sync.lock",
}
_PAIR = re.compile(r'(?:.*"pid": )?(\d+),? (?:"start": )?(\d+)')


class Stat(NamedTuple):
    """What /proc/PID/stat tells. `start`: clock ticks since boot, which tell two owners of a pid
    apart. `ticks`: those that it has computed; `ended_ticks`: those of its children that it reaped.
    `ended`: the wait status of one that is dead.
    """

    name: str
    state: str
    parent: int
    session: int
    start: int
    ticks: int
    ended_ticks: int
    ended: int = 0

    @property
    def lives(self) -> bool:
        """Whether it is more than an entry that its parent hasn't waited for."""
        return self.state not in "ZX"


def read_stat(pid: int) -> Stat | None:
    """Return a process's stat, of a dead one too until it is reaped; None where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            head, _, rest = file.read().decode("utf-8", "replace").rpartition(")")
    except OSError:
        return None
    words = rest.split()
    if len(words) < 20:
        return None
    return Stat(
        name=head.partition("(")[2],
        state=words[0],
        parent=int(words[1]),
        session=int(words[3]),
        start=int(words[19]),
        ticks=int(words[11]) + int(words[12]),
        ended_ticks=int(words[13]) + int(words[14]),
        ended=int(words[49]) if len(words) > 49 else 0,
    )


def read_table() -> dict[int, Stat]:
    """Return all processes, the dead among them; {} on a system that doesn't tell them."""
    rows = {}
    with suppress(OSError):
        rows = {int(name): read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    return {pid: row for pid, row in rows.items() if row is not None}


def is_same_process(pid: int, start: int) -> bool:
    """Return whether this very process lives; its pid may belong to another one by now."""
    stat = read_stat(pid) if pid else None
    return stat is not None and stat.lives and stat.start == start


def read_noted(folder: str, name: str) -> tuple[int, int]:
    """Return pid and start of a run's `train`, `runner`, `supervisor` or `sync`, alive or
    not; (0, 0) where none is noted."""
    for file in (NOTED[name], f"{name}.pid"):
        with suppress(OSError), open(os.path.join(folder, file), errors="replace") as text:
            told = text.read(1 << 16)
            if found := _PAIR.match(told):
                return int(found[1]), int(found[2])
            if told.isspace():  # blank, where an older version's is empty
                break
    return 0, 0


def read_environment(pid: int) -> dict[str, str]:
    """Return a process's environment as it began; {} where it can't be read."""
    pairs = read_pairs(pid)
    split = (pair.decode("utf-8", "surrogateescape").partition("=") for pair in pairs if pair)
    return {name: value for name, _, value in split}


def read_pairs(pid: int) -> list[bytes]:
    """Return a process's environment as it began, each NAME=VALUE; [] where it can't be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def read_words(pid: int) -> bytes:
    """Return the words that a process was started with, each with a zero byte behind it; b"" where
    they can't be read."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def with_descendants(pids: Iterable[int], table: Mapping[int, Stat]) -> set[int]:
    """Return those of the processes that live, and all that lives below them."""
    among = {pid: stat.parent for pid, stat in table.items() if stat.lives}
    family = {pid for pid in pids if pid in among}
    grew = True
    while grew:
        more = {pid for pid, parent in among.items() if parent in family} - family
        family |= more
        grew = bool(more)
    return family


def send_signal(pid: int, number: int) -> None:
    """Signal a process that may be gone."""
    with suppress(OSError):
        os.kill(pid, number)


def read_executable(pid: int) -> str:
    """Return the path of the program that a process runs, '' where it can't be read."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def read_open_files(pid: int) -> dict[str, str]:
    """Return {number: path} of what a process has open, by the kernel's names; {} where that can't
    be read."""
    found = {}
    with suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found[number] = os.readlink(f"/proc/{pid}/fd/{number}")
    return found


def read_status(pid: int) -> dict[str, str]:
    """Return {name: value} of /proc/PID/status; {} where it can't be read."""
    with suppress(OSError), open(f"/proc/{pid}/status", errors="replace") as file:
        pairs = (line.partition(":") for line in file)
        return {name: value.strip() for name, _, value in pairs}
    return {}


def has_signal(pid: int, mask: str, number: int) -> bool | None:
    """Return whether a signal is in a process's mask, SigCgt of those that it catches or SigIgn of
    those that it ignores; None where that can't be read."""
    value = read_status(pid).get(mask)
    return int(value, 16) >> (number - 1) & 1 == 1 if value else None
