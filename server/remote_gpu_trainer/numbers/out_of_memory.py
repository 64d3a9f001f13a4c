"""What an out-of-memory error of PyTorch shows, and the entry that its numbers and calls point to.

`memory_message` takes the numbers of the message, `run_phase` the calls of its traceback.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from .log_line import SomeLine
from .memory_message import memory_of
from .run_phase import run_phase

_GPU = re.compile(r"(?:CUDA|HIP) (?:error: )?out of memory")
FRAGMENTS = "M8"
# By phase: the entry, and whether it overrides the words. In an optimizer's step the cause may be
# ZeRO, and in a backward pass FSDP or an earlier phase.
PLACES = {
    "in an evaluation": ("M15", True),
    "in the optimizer's step": ("M17", False),
    "in the backward pass": ("M14", False),
    "while saving": ("C5", False),
}


@dataclass(frozen=True)
class Shortage(Generic[SomeLine]):
    """What an out-of-memory error shows besides its words.

    `sentence` says who held the memory, "" without numbers. `entry` is the entry that
    the error points to, or "", and `why` the reason. `first`: `entry` overrides the words.
    """

    line: SomeLine
    sentence: str
    entry: str = ""
    why: str = ""
    first: bool = False


def shortage_in(lines: Sequence[SomeLine]) -> Shortage[SomeLine] | None:
    """Return what the last out-of-memory error of these lines shows, None without one."""
    counted = memory_of(lines)
    line = counted[0] if counted else _last_error(lines)
    if line is None:
        return None
    phase = run_phase(lines, line)
    by, sentence = (counted[1].by(), counted[1].sentence(phase)) if counted else ("own", "")
    if by == "fragments":
        return Shortage(line, sentence, FRAGMENTS, "the numbers of the message", True)
    if by == "own" and phase in PLACES:
        entry, first = PLACES[phase]
        return Shortage(line, sentence, entry, f"{phase}, by the calls", first)
    return Shortage(line, sentence)


def _last_error(lines: Sequence[SomeLine]) -> SomeLine | None:
    """The last line that says that a GPU is out of memory, without numbers."""
    for line in reversed(lines):
        if "out of memory" in line.text and _GPU.search(line.text):
            return line
    return None
