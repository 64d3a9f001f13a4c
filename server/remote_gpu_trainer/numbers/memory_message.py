"""The numbers of PyTorch's out-of-memory message: whose memory it is that fills the card.

Known forms: torch 1.0 to 1.3 (`… free; 18.37 MiB cached)`), to 2.0 (`… reserved in total by PyTorch)`), since 2.1 (`… is reserved by PyTorch but unallocated`), for CUDA and HIP.
Source: c10/cuda/CUDACachingAllocator.cpp of these releases. All sizes are in GiB.
"""

from __future__ import annotations

import re

from ..logs.lines import Line
from ..text.records import record

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
_WANTED = re.compile(r"ried to allocate " + _SIZE)
# By the names below: how each number is written, newest first.
_FORMS = {
    "total": (r"total capaci?ty of " + _SIZE, _SIZE + " total capacity"),
    "free": (r"of which " + _SIZE + " is free", _SIZE + " free"),
    "own": (r"this process has " + _SIZE + " memory in use",),
    "allocated": (_SIZE + r" is allocated by PyTorch", _SIZE + " already allocated"),
    "unused": (_SIZE + r" is reserved by PyTorch but unallocated", _SIZE + " cached"),
    "reserved": (_SIZE + r" reserved in total by PyTorch",),
}
_PROCESS = re.compile(r"Process \d{1,10} has " + _SIZE + " memory in use")
WRAPPED = 5  # lines over which a message may be broken
LONG = 1500  # characters of one
CONTEXT = (
    1.0  # GiB that a process holds beside torch's own, at most, where the message doesn't count it
)
OTHERS, GUESSED = (
    0.1,
    0.15,
)  # share of the card from which others count: counted by the driver, or what is left over
UNUSED = 0.2  # share of the card that is held and unused, from which it is fragments: with less the model is too large as well
_TOLD = {
    "size": "one tensor is larger than the card",
    "others": "other processes fill the card",
    "fragments": "enough is left, but in pieces",
    "limit": "more is free than wanted",
    "own": "this process fills the card",
}


@record
class Memory:
    """What one message says, in GiB; -1 where it doesn't say so. `others`: what isn't this process's; `guessed`: by what is left over."""

    wanted: float
    total: float
    free: float
    allocated: float
    unused: float
    others: float
    guessed: bool

    def by(self) -> str:
        """Why there was no room: "size" (one tensor larger than the card), "others", "fragments", "limit" (there was room: something else forbids it), or "own"."""
        if self.wanted > self.total:
            return "size"
        if self.others >= max(
            2.0 if self.guessed else 1.0,
            (GUESSED if self.guessed else OTHERS) * self.total,
            self.unused,
        ):
            return "others"
        if self.free >= self.wanted:
            return "limit"
        return (
            "fragments"
            if self.unused >= max(self.wanted - self.free, UNUSED * self.total)
            else "own"
        )

    def said(self, moment: str = "") -> str:
        """The sum in one sentence. `moment`: where in the run it failed."""
        parts = [f"{_short(self.allocated)} allocated"]
        parts += [f"{_short(self.unused)} held unused"] if self.unused >= 0 else []
        parts += [f"{_short(self.others)} others"] if self.others >= 0 else []
        return f"{_TOLD[self.by()]}{moment and ' ' + moment}: of {_short(self.total)} GiB {', '.join(parts)}, {_short(self.free)} free; {_short(self.wanted)} wanted"


def memory_of(lines: list[Line]) -> tuple[Line, Memory] | None:
    """The last message with all its numbers, and its line."""
    for place in range(len(lines) - 1, -1, -1):
        if "ried to allocate" in lines[place].text:
            told = read(" ".join(line.text.strip(" >") for line in lines[place : place + WRAPPED]))
            if told:
                return lines[place], told
    return None


def read(text: str) -> Memory | None:
    """The numbers of the first message in a text, None where it names no card's size."""
    start = _WANTED.search(text)
    if not start:
        return None
    text = text[start.start() : start.start() + LONG]
    found = {name: _first(forms, text) for name, forms in _FORMS.items()}
    if min(found["total"], found["free"], found["allocated"]) < 0:
        return None
    total, free, allocated = found["total"], found["free"], found["allocated"]
    unused = (
        found["unused"]
        if found["unused"] >= 0
        else found["reserved"] - allocated
        if found["reserved"] >= 0
        else -1.0
    )
    held = allocated + max(unused, 0.0)
    own, guessed = found["own"], False
    if own < 0:  # without its own number: in a container
        own = min(
            (size for size in map(_gib, _PROCESS.findall(text)) if size >= held - 0.01),
            default=-1.0,
        )
    if own < 0:
        own, guessed = held + CONTEXT, True
    others = max(0.0, total - free - own) if unused >= 0 else -1.0
    return Memory(_gib(start.groups()), total, free, allocated, unused, others, guessed)


def _first(forms: tuple[str, ...], text: str) -> float:
    found = next((match for match in (re.search(form, text) for form in forms) if match), None)
    return _gib(found.groups()) if found else -1.0


def _gib(size: tuple[str, str]) -> float:
    return float(size[0]) * _UNITS[size[1]]


def _short(size: float) -> str:
    return f"{size:.0f}" if size >= 100 else f"{size:.1f}" if size >= 0.95 else f"{size:.2g}"
