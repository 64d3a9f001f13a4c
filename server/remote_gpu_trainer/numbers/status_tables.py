"""Judge a pasted table of nvidia-smi, df, sacct or seff by its cells.

Standard library, Python 3.8.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .entries import (
    BUSY_BUT_IDLE,
    CARD_LOST,
    CARD_MEMORY_FAILS,
    DISK_FULL,
    INODES_FULL,
    MEMORY_IS_TAKEN,
    SHARED_MEMORY_FULL,
    SLURM_LIMIT,
    SLURM_MEMORY,
)
from .finding import NumbersFinding
from .rows import Row

LONGEST, MOST = 400, 2_000  # characters of a row, and rows, that are read
ALONE = 0.8  # share of the lines that must belong to the table
HELD = 1_000  # MiB above which a card without a process is reported
DRAW = 0.4  # share of the power limit below which a card at 100 % utilisation does little
HOT = 90  # degrees Celsius
BUSY = 99  # per cent of utilisation from which a card should draw power
FILLED = 0.95  # share of a card's memory above which it is mentioned
FULL = 99  # per cent of a disk or its inodes from which it is full

# |   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    0 |
_CARD = re.compile(
    r"\|\s*(\d{1,3})\s+\S.{5,60}\|\s*[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d\s+\S{1,3}\s*"
    r"\|\s*(\d{1,9}|N/A|Off)\s*\|"
)
# | N/A   45C    P0            310W /  400W |   61234MiB /  81920MiB |    97%      Default |
_USE = re.compile(
    r"\|\s*\S+\s+(\d{1,3})C\s+P\d{1,2}\s+(\d{1,4})W\s*/\s*(\d{1,4})W\s*"
    r"\|\s*(\d{1,7})MiB\s*/\s*(\d{1,7})MiB\s*\|\s*(\d{1,3})%"
)
# |    0   N/A  N/A            4121      C   python                            61200MiB |
_PROCESS = re.compile(
    r"\|\s*(\d{1,3})\s+(?:\S+\s+\S+\s+)?(\d{1,9})\s+([CGM+]{1,3})\s+(\S.{0,60}?)\s+(\d{1,7})MiB\s*\|"
)
_NO_PROCESS = "No running processes found"
# overlay          20G   20G     0 100% /
_DISK = re.compile(r"(\S+)\s+\S+\s+\S+\s+(\S+)\s+(\d{1,3})%\s+(/\S*)\s*$")
# Read-only file systems are always at 100 %.
_NEVER_FULL = ("/snap/", "/dev/loop", "squashfs", "/cdrom", "/sys/", "/proc/")
# Job ID: 4711          the first or second row of seff
_SEFF = re.compile(r"(?:Job ID|Cluster): \w{1,40}$")
# Of each state its entry, what is said of it, and the name in `runner.failures` of an end that
# decides. sacct cuts a state at the width of its column.
_STATES = {
    "OUT_OF_MEMORY": (SLURM_MEMORY, "Slurm job killed for memory, state OUT_OF_MEMORY", ""),
    "OUT_OF_ME+": (SLURM_MEMORY, "Slurm job killed for memory, state OUT_OF_MEMORY", ""),
    "TIMEOUT": (SLURM_LIMIT, "Slurm job ended at its limit, state TIMEOUT", "time"),
    "PREEMPTED": (SLURM_LIMIT, "Slurm job ended at its limit, state PREEMPTED", "preempted"),
}


def findings(rows: list[Row]) -> list[NumbersFinding] | None:
    """Return what a table in these rows shows, an empty list if it shows no fault.

    None if no table makes up most of the text.
    """
    texts = [
        (number, raw[: LONGEST * 4].decode("utf-8", "replace")[:LONGEST])
        for number, raw in rows[:MOST]
        if raw.strip()
    ]
    for begins, find_faults in _TABLES:
        first = next((at for at, (_, text) in enumerate(texts) if begins(text)), None)
        if first is not None:
            faults, lines = find_faults(texts[first:])
            return faults if lines >= ALONE * len(texts) else None
    return None


@dataclass(frozen=True)
class _Card:
    """One card of nvidia-smi.

    `row` is the line of its use. `heat` is in degrees, `draw` and `limit` in watts, `used` and
    `whole` in MiB, `use` in per cent.
    """

    number: int
    row: int
    heat: int
    draw: int
    limit: int
    used: int
    whole: int
    use: int


def _nvidia_smi(texts: list[tuple[int, str]]) -> tuple[list[NumbersFinding], int]:
    """Return what a table of nvidia-smi shows, in the order of its lines, and how many it has."""
    results: list[NumbersFinding] = []
    cards: dict[int, _Card] = {}
    has_process, number = False, -1
    for row, text in texts:
        if "ERR!" in text:
            message = "nvidia-smi shows ERR! in place of a value, the card is lost"
            results.append(NumbersFinding(row, message, CARD_LOST))
        if head := _CARD.match(text):
            number = int(head[1])
            results += _ecc(row, number, head[2])
        elif use := _USE.match(text):
            cards[number] = _Card(number, row, *map(int, use.groups()))
            results += _of_card(cards[number])
        elif _PROCESS.match(text):
            has_process = True
    if not has_process and any(_NO_PROCESS in text for _, text in texts):
        results += [_unexplained_memory(card) for card in cards.values() if card.used > HELD]
    return results, sum(text.lstrip()[:1] in ("|", "+") for _, text in texts)


def _ecc(row: int, card: int, count: str) -> list[NumbersFinding]:
    """Report the uncorrectable errors on a card. `count` may be N/A or Off."""
    if not count.isdigit() or not int(count):
        return []
    return [
        NumbersFinding(
            row,
            f"nvidia-smi counts {count} uncorrectable ECC errors on GPU {card}",
            CARD_MEMORY_FAILS,
        )
    ]


def _of_card(card: _Card) -> list[NumbersFinding]:
    """Report a card that is busy without drawing power, hot, or full."""
    results = []
    if card.use >= BUSY and card.draw < DRAW * card.limit:
        message = (
            f"nvidia-smi shows {card.use} % utilisation on GPU {card.number}, yet power draw is "
            f"{card.draw} of {card.limit} W"
        )
        results.append(NumbersFinding(card.row, message, BUSY_BUT_IDLE))
    if card.heat >= HOT:
        message = f"GPU {card.number} is at {card.heat} degrees"
        results.append(NumbersFinding(card.row, message, fault=False))
    if card.used > FILLED * card.whole:
        message = f"GPU {card.number} has {card.used} of {card.whole} MiB taken"
        results.append(NumbersFinding(card.row, message, fault=False))
    return results


def _unexplained_memory(card: _Card) -> NumbersFinding:
    """Report memory for which no process is listed: the process is gone, or hidden."""
    message = f"GPU {card.number}: {card.used} MiB of GPU memory taken, nvidia-smi lists no process"
    return NumbersFinding(card.row, message, MEMORY_IS_TAKEN)


def _df(texts: list[tuple[int, str]]) -> tuple[list[NumbersFinding], int]:
    """Return the full file systems that a table of df shows, and how many lines it has."""
    of_inodes = "IUse%" in texts[0][1]
    results, lines = [], 1
    for number, text in texts[1:]:
        disk = _DISK.match(text)
        lines += disk is not None
        if disk and int(disk[3]) >= FULL and not any(name in text for name in _NEVER_FULL):
            results.append(_full(number, disk[4], of_inodes))
    return results, lines


def _full(row: int, place: str, of_inodes: bool) -> NumbersFinding:
    if of_inodes:
        return NumbersFinding(
            row, f"inodes used up on {place}, files can't be created", INODES_FULL
        )
    if place == "/dev/shm":
        return NumbersFinding(row, "shared memory /dev/shm is full", SHARED_MEMORY_FULL)
    return NumbersFinding(row, f"disk full on {place}", DISK_FULL)


def _states(texts: list[tuple[int, str]]) -> tuple[list[NumbersFinding], int]:
    """Return how the first job that didn't complete ended. All lines belong to the table."""
    for number, text in texts:
        words = re.findall(r"[\w+]+", text)
        for state, (entry, message, end) in _STATES.items():
            if state in words:
                return [NumbersFinding(number, message, entry, end=end)], len(texts)
    return [], len(texts)


# How a table begins, and what judges the lines from there: (findings, lines of the table).
_TABLES: tuple[
    tuple[
        Callable[[str], bool],
        Callable[[list[tuple[int, str]]], tuple[list[NumbersFinding], int]],
    ],
    ...,
] = (
    (lambda text: "NVIDIA-SMI" in text and "Driver Version" in text, _nvidia_smi),
    (lambda text: text.startswith("Filesystem") and "Use%" in text and "Mounted on" in text, _df),
    (lambda text: "JobID" in text and "State" in text, _states),
    (lambda text: bool(_SEFF.match(text)), _states),
)
