"""The numbers of an out-of-memory message of PyTorch, in GiB: who held the memory of the card.

Known forms of the message: torch 1.0 to 1.3 (`… free; 18.37 MiB cached)`), to 2.0 (`… reserved in
total by PyTorch)`), and since 2.1 (`… is reserved by PyTorch but unallocated`), for CUDA and HIP.
Source: c10/cuda/CUDACachingAllocator.cpp of these releases.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .log_line import SomeLine

_UNITS = {
    "bytes": 1 / 2**30,
    "KiB": 1 / 2**20,
    "MiB": 1 / 2**10,
    "GiB": 1.0,
    "TiB": 2.0**10,
    "PiB": 2.0**20,
    "EiB": 2.0**30,
}
_SIZE = r"(\d{1,6}(?:\.\d{1,3})?) ?(bytes|[KMGTPE]iB)"
_REQUESTED = re.compile(r"ried to allocate " + _SIZE)
# The forms of each number, newest first.
_FORMS = {
    "total": (r"total capaci?ty of " + _SIZE, _SIZE + " total capacity"),
    "free": (r"of which " + _SIZE + " is free", _SIZE + " free"),
    "own": (r"this process has " + _SIZE + " memory in use",),
    "allocated": (_SIZE + r" is allocated by PyTorch", _SIZE + " already allocated"),
    "unused": (_SIZE + r" is reserved by PyTorch but unallocated", _SIZE + " cached"),
    "reserved": (_SIZE + r" reserved in total by PyTorch",),
    # Since 2.4, after torch.cuda.set_per_process_memory_fraction:
    #   62.22 GiB memory in use. 60.25 GiB allowed; Of the allocated memory
    "allowed": (_SIZE + r" allowed;",),
}
_PROCESS = re.compile(r"Process \d{1,10} has " + _SIZE + " memory in use")
WRAPPED = 5  # lines over which a message may be broken
LONG = 1500  # characters of a message
# The most GiB that a process holds besides torch's memory, if the message doesn't say.
CONTEXT = 1.0
OTHERS = 0.1  # share of the card from which other processes count, by the driver's numbers
GUESSED = 0.15  # the same if `others` is only what is left over
# Memory counts as fragmented if more than this share of the card is held but unused. With less, the
# model is too large as well.
UNUSED = 0.2
_CAUSES = {
    "size": "one tensor is larger than the card",
    "others": "other processes fill the card",
    "fragments": "enough is left, but in pieces",
    "limit": "more is free than wanted",
    "cap": "this process is at its cap",
    "virtual": "more is allocated than the card has",
    "own": "this process fills the card",
}


@dataclass(frozen=True)
class Memory:
    """The numbers of one message, in GiB; -1 if it doesn't have them.

    `requested` is the size of the failed allocation, `total` and `free` describe the card,
    `allocated` and `unused` what PyTorch uses and what it only holds, and `others` what other
    processes hold. `guessed`: `others` is only what is left over. `allowed` is the most that this
    process may hold.
    """

    requested: float
    total: float
    free: float
    allocated: float
    unused: float
    others: float
    guessed: bool
    allowed: float = -1.0

    def by(self) -> str:
        """Return why there was no room.

        "size": one tensor is larger than the card. "cap": this process may hold no more. "virtual":
        the count isn't of the card's memory alone. "others": other processes fill it. "limit": more
        is free than requested. "fragments": enough is left, but in pieces. "own": this process
        fills it.
        """
        if self.requested > self.total:
            return "size"
        if 0 <= self.allowed < self.allocated + max(self.unused, 0.0) + self.requested:
            return "cap"
        if self.allocated > self.total:
            return "virtual"
        least, share = (2.0, GUESSED) if self.guessed else (1.0, OTHERS)
        if self.others >= max(least, share * self.total, self.unused):
            return "others"
        if self.free >= self.requested:
            return "limit"
        if self.unused >= max(self.requested - self.free, UNUSED * self.total):
            return "fragments"
        return "own"

    def sentence(self, phase: str = "") -> str:
        """Return a sentence about who held the memory. `phase`: the phase that failed."""
        parts = [f"{_short(self.allowed)} allowed"] if self.allowed >= 0 else []
        parts += [f"{_short(self.allocated)} allocated"]
        parts += [f"{_short(self.unused)} held unused"] if self.unused >= 0 else []
        parts += [f"{_short(self.others)} others"] if self.others >= 0 else []
        return (
            f"{_CAUSES[self.by()]}{phase and ' ' + phase}: of {_short(self.total)} GiB "
            f"{', '.join(parts)}, {_short(self.free)} free; {_short(self.requested)} wanted"
        )


def memory_of(lines: Sequence[SomeLine]) -> tuple[SomeLine, Memory] | None:
    """Return the line and the numbers of the last message that has all of them, or None."""
    for place in range(len(lines) - 1, -1, -1):
        if "ried to allocate" in lines[place].text:
            memory = memory_in(
                " ".join(line.text.strip(" >") for line in lines[place : place + WRAPPED])
            )
            if memory:
                return lines[place], memory
    return None


def memory_in(text: str) -> Memory | None:
    """Return the numbers of the first message in a text, None if it lacks the card's size."""
    start = _REQUESTED.search(text)
    if not start:
        return None
    text = text[start.start() : start.start() + LONG]
    sizes = {name: _first(forms, text) for name, forms in _FORMS.items()}
    total, free, allocated = sizes["total"], sizes["free"], sizes["allocated"]
    if min(total, free, allocated) < 0:
        return None
    unused = sizes["unused"]
    if unused < 0 and sizes["reserved"] >= 0:  # until torch 2.0 the message has the sum of both
        unused = sizes["reserved"] - allocated
    own, guessed = _own(text, sizes["own"], allocated + max(unused, 0.0))
    others = max(0.0, total - free - own) if unused >= 0 else -1.0
    return Memory(
        _gib(start[1], start[2]),
        total,
        free,
        allocated,
        unused,
        others,
        guessed,
        sizes["allowed"],
    )


def _own(text: str, stated: float, pytorch: float) -> tuple[float, bool]:
    """(GiB that this process holds by the driver's count, whether that is a guess).

    `stated` is what the message says, -1 if it doesn't. `pytorch` is what PyTorch holds.
    """
    if stated >= 0:
        return stated, False
    # In a container the message doesn't know which process it is: then it is the smallest of those
    # that hold as much as PyTorch does.
    of_processes = [_gib(*size) for size in _PROCESS.findall(text)]
    own = min((size for size in of_processes if size >= pytorch - 0.01), default=-1.0)
    return (own, False) if own >= 0 else (pytorch + CONTEXT, True)


def _first(forms: tuple[str, ...], text: str) -> float:
    """The size by the first of these forms that matches, -1 if none does."""
    matches = (re.search(form, text) for form in forms)
    match = next(filter(None, matches), None)
    return _gib(match[1], match[2]) if match else -1.0


def _gib(number: str, unit: str) -> float:
    return float(number) * _UNITS[unit]


def _short(size: float) -> str:
    return f"{size:.0f}" if size >= 100 else f"{size:.1f}" if size >= 0.95 else f"{size:.2g}"
