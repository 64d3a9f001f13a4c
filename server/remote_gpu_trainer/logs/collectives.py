"""What ranks say about their collectives: which each is in, in which process group.

Sequence numbers compare only within one group. The rank that PyTorch prints inside its brackets is
a rank of that group; the one before the line is a rank of the job.
"""

from __future__ import annotations

import re
from collections import Counter

from .lines import Line

_RUNS = re.compile(
    r"Rank (\d{1,5}) is running collective: CollectiveFingerPrint\("
    r"((?:SequenceNumber=\d{1,12}, )?OpType=\w{1,40}(?:, TensorShape=\[[^\]]{0,200}\])?)"
)


def place_of(line: Line) -> tuple[str, int | None]:
    """Return (process group, rank of the job) of a watchdog's line; "" is the whole job.

    It says "[PG ID 0 PG GUID 0(default_pg) Rank 3]", before PyTorch 2.4 "[PG 0 Rank 3]" or "[Rank
    3]". The GUID names a group on every rank, the ID only within one.
    """
    found = line.sign("group")
    if not found:
        return "", line.rank
    number, guid, name, rank = found
    whole = number is None or name == "default_pg" or (name is None and number == "0")
    group = "" if whole else guid or number
    return group, line.rank if line.rank is not None or not whole else int(rank)


def who(line: Line) -> int | None:
    """Return the rank of a line, from its prefix or from what PyTorch's watchdog says."""
    return line.rank if line.rank is not None else place_of(line)[1]


def odd_one(lines: list[Line]) -> tuple[Line, int | None] | None:
    """Return the line that tells of a mismatch of collectives, and the rank that differs.

    With TORCH_DISTRIBUTED_DEBUG=DETAIL each rank compares itself with the others in order, and
    says which is the first that differs. The rank is None where no one differs from the many; all
    is None without such a line.
    """
    first, runs = None, {}
    for line in lines:
        told = _RUNS.findall(line.text) if line.says("mismatch") else ()
        for rank, what in told:
            first = first or line
            runs.setdefault(int(rank), what)
        if len(told) == 2:  # all before the one that differs are like the speaker
            for rank in range(min(int(told[1][0]), 100_000)):
                runs.setdefault(rank, told[0][1])
    if first is None:
        return None
    counts = Counter(runs.values())
    alone = [rank for rank, what in runs.items() if counts[what] == 1]
    return first, alone[0] if len(alone) == 1 and len(runs) > 2 else None


def behind(lines: list[Line]) -> tuple[Line, int] | None:
    """Return the rank that had reached fewer collectives of a group than all others, and its line.

    Where groups name different ranks, the group counts whose watchdog gave up first.
    """
    started = next((place_of(line)[0] for line in lines if line.says("initiator")), None)
    for name in ("enqueued", "waits in"):
        reached: dict[str, dict[int, tuple[int, Line]]] = {}
        for line in lines:
            found = line.sign(name)
            group, rank = place_of(line) if found else ("", None)
            if rank is not None:
                reached.setdefault(group, {}).setdefault(rank, (int(found[0]), line))
        fewest = {group: _fewest(counts) for group, counts in reached.items()}
        named = {group: rank for group, rank in fewest.items() if rank is not None}
        if len(set(named.values())) > 1:
            named = {started: named[started]} if started in named else {}
        for group, rank in named.items():
            return reached[group][rank][1], rank
    return None


def _fewest(counts: dict[int, tuple[int, Line]]) -> int | None:
    """The one rank that had reached fewer than every other."""
    numbers = sorted(number for number, _ in counts.values())
    if len(numbers) < 2 or numbers[0] == numbers[1]:
        return None
    return min(counts, key=lambda rank: counts[rank][0])
