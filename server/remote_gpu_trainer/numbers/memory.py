"""What an out-of-memory error of PyTorch shows, and the entry that its numbers and calls point to.

The numbers of the message, in GiB, say who held the memory of the card. Known forms: torch 1.0 to
1.3 (`… free; 18.37 MiB cached)`), to 2.0 (`… reserved in total by PyTorch)`), and since 2.1 (`… is
reserved by PyTorch but unallocated`), for CUDA and HIP. Source: c10/cuda/CUDACachingAllocator.cpp
of these releases.

The calls of the traceback say in which phase of a run it ends. A phase is recognized by functions
and files of torch, transformers, accelerate, Lightning, DeepSpeed and similar libraries. Other
calls give no phase.

Standard library, Python 3.8.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from .entries import (
    MEMORY_IN_BACKWARD,
    MEMORY_IN_EVALUATION,
    MEMORY_IN_FRAGMENTS,
    MEMORY_IN_STEP,
    SAVE_OUT_OF_MEMORY,
)


class LogLine(Protocol):
    """The part of `logs.lines.Line` that is used here."""

    @property
    def text(self) -> str:
        """Its text without prefixes."""
        ...

    @property
    def rank(self) -> int | None:
        """The rank that wrote it, None where it isn't known."""
        ...

    @property
    def kind(self) -> str:
        """Its kind: "frame" is a line of a traceback."""
        ...

    def sign(self, name: str) -> tuple | None:
        """What a detector found in it: "frame" is (file, line, function)."""
        ...


SomeLine = TypeVar("SomeLine", bound=LogLine)


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


class _Call(NamedTuple):
    """One call of a traceback. `function` or `code` may be ""."""

    function: str
    file: str
    code: str


class _Phase(NamedTuple):
    """A phase of a run, and patterns of the calls that belong to it.

    The pattern `function` has to match the whole name, `file` and `code` a part. "" is no pattern.
    """

    name: str
    function: str
    file: str
    code: str

    def has(self, call: _Call) -> bool:
        """Return whether a call belongs to the phase."""
        return bool(
            (call.function and re.fullmatch(self.function, call.function))
            or (self.file and re.search(self.file, call.file))
            or re.search(self.code, call.code)
        )


_PASSES = (
    _Phase(
        "while saving",
        r"_?save\w{0,40}|state_dict|get_\w{0,20}state_dict|_?full_\w{0,10}state_dict\w{0,10}"
        r"|_consolidated_16bit_state_dict",
        r"_state_dict_utils|checkpoint/state_dict",
        r"\.save_pretrained\(|torch\.save\(",
    ),
    _Phase(
        "in the backward pass",
        r"\w{0,12}backward\w{0,10}|_engine_run_backward|unpack_hook|_reduce_grad",
        r"torch/autograd/",
        r"\.backward\(",
    ),
    _Phase(
        "in the optimizer's step",
        r"_(?:multi_tensor|single_tensor|fused)_\w{1,40}|step|_init_group|_take_model_step"
        r"|update_step|init_state|initialize_optimizer_states",
        r"torch/optim/(?!lr_scheduler|swa)|bitsandbytes/optim",
        r"\boptim\w{0,10}\.step\(",
    ),
    _Phase(
        "while loading",
        r"to|cuda|_apply|convert|from_pretrained|_ddp_init_helper",
        r"",
        r"_ddp_init_helper\(|\bDDP\(|DistributedDataParallel\(",
    ),
    _Phase(
        "in the forward pass",
        r"forward|training_step|compute_loss|_\w{0,10}call_impl",
        r"nn/modules/|nn/functional\.py",
        r"\bmodel\([^)]",
    ),
)
_LOADING = _Phase(
    "while loading",
    r"_?load\w{0,60}|dispatch_model|_?prepare\w{0,20}|set_module_tensor_to_device",
    r"",
    r"\.to\(|\.cuda\(|from_pretrained\(|\btorch\.load\(",
)
_EVALUATION = _Phase(
    "in an evaluation",
    r"(?!_maybe_log_save)\w{0,20}evaluat\w{1,20}|prediction_(?:loop|step)"
    r"|\w{0,12}validat(?:e|ion)\w{0,20}|_run_sanity_check"
    r"|(?:eval|val|test)_(?:epoch|step|loop|one_epoch)|do_eval|compute_metrics|nested_concat",
    r"evaluation_loop\.py",
    r"\bevaluate\(|\bvalidat(?:e|ion)\(",
)
_SAVING, _BACKWARD, _FORWARD = _PASSES[0], _PASSES[1], _PASSES[-1]


def run_phase(lines: Sequence[SomeLine], failed: SomeLine) -> str:
    """Return the phase of the run in which the traceback beside a line ends, "" if unknown.

    One of "while loading", "in the forward pass", "in the backward pass", "in the optimizer's
    step", "in an evaluation" and "while saving".
    """
    calls = _calls(lines, failed)
    # The innermost call decides: Lightning calls the forward pass inside the optimizer's step.
    phase = next((phase for call in reversed(calls) for phase in _PASSES if phase.has(call)), None)
    if phase is not _SAVING and any(map(_EVALUATION.has, calls)):
        return _EVALUATION.name
    # Checkpointing computes the forward pass again within the backward pass, which functions and
    # files of the calls around it show.
    if phase is _FORWARD and any(_BACKWARD.has(call._replace(code="")) for call in calls):
        return _BACKWARD.name
    if phase:
        return phase.name
    return _LOADING.name if any(map(_LOADING.has, calls)) else ""


def _calls(lines: Sequence[SomeLine], failed: SomeLine) -> list[_Call]:
    """The calls beside a line of the same rank, outermost first.

    People paste the calls above or below the line.
    """
    mine = [line for line in lines if line.rank == failed.rank]
    place = mine.index(failed)
    above = place
    while above and mine[above - 1].kind == "frame":
        above -= 1
    below = place + 1
    while below < len(mine) and mine[below].kind == "frame":
        below += 1
    calls: list[_Call] = []
    for line in (*mine[above:place], *mine[place + 1 : below]):
        frame = line.sign("frame")
        if frame:
            calls.append(_Call(frame[2] or "", frame[0], ""))
        elif calls and not calls[-1].code:
            calls[-1] = calls[-1]._replace(code=line.text.strip())
    return calls


_GPU = re.compile(r"(?:CUDA|HIP) (?:error: )?out of memory")
# By phase: the entry, and whether it overrides the words. In an optimizer's step the cause may be
# ZeRO, and in a backward pass FSDP or an earlier phase.
PLACES = {
    "in an evaluation": (MEMORY_IN_EVALUATION, True),
    "in the optimizer's step": (MEMORY_IN_STEP, False),
    "in the backward pass": (MEMORY_IN_BACKWARD, False),
    "while saving": (SAVE_OUT_OF_MEMORY, False),
}


@dataclass(frozen=True)
class Shortage(Generic[SomeLine]):
    """What an out-of-memory error shows besides its words.

    `sentence` says who held the memory, "" without numbers. `entry` is the entry that
    the error points to, or "", and `why` the reason. `first`: `entry` overrides the words.
    `shows_need`: a size is named, or no call is known, or one that takes memory. Without it the
    driver alone says that the card is full, which it also says of a card that is broken.
    """

    line: SomeLine
    sentence: str
    entry: str = ""
    why: str = ""
    first: bool = False
    shows_need: bool = True


def shortage_in(lines: Sequence[SomeLine]) -> Shortage[SomeLine] | None:
    """Return what the last out-of-memory error of these lines shows, None without one."""
    counted = memory_of(lines)
    line = counted[0] if counted else _last_error(lines)
    if line is None:
        return None
    phase = run_phase(lines, line)
    by, sentence = (counted[1].by(), counted[1].sentence(phase)) if counted else ("own", "")
    if by == "fragments":
        return Shortage(line, sentence, MEMORY_IN_FRAGMENTS, "the numbers of the message", True)
    if by == "own" and phase in PLACES:
        entry, first = PLACES[phase]
        return Shortage(line, sentence, entry, f"{phase}, by the calls", first)
    names_size = _REQUESTED.search(line.text)
    return Shortage(line, sentence, shows_need=bool(names_size or phase or not _calls(lines, line)))


def _last_error(lines: Sequence[SomeLine]) -> SomeLine | None:
    """The last line that says that a GPU is out of memory, without numbers."""
    for line in reversed(lines):
        if "out of memory" in line.text and _GPU.search(line.text):
            return line
    return None
