"""Where each rank stood when it stopped: the last frame of the user's own code, and its call.

A place comes from the traceback of a rank, from what faulthandler printed, or from the stacks of
py-spy. Where a log holds none of these, NCCL's watchdog or a rank's last words may name the call.
Standard library, Python 3.8.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from .evidence import Failure
from .flight_recorder import LIBRARY, name_ranks
from .kinds import APART, PLAIN
from .lines import Line
from .ranks import place_of, who
from .stacks import MEETING, stacks_of

MOST_TOLD = 4  # places that a sentence names
# The names in a rank's own words that mean such a call and nothing else: "entering all_reduce".
_NAMED = re.compile(
    r"(?<![^\W_])(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|barrier)", re.I
)
# Collectives in which each rank passes the same number of elements, by the end of their names.
_ALIKE = ("ALLGATHER_BASE", "REDUCE_SCATTER_BASE")
_OVER = re.compile(r"\b(?:done|passed|finished|completed?|ended|took)\b", re.I)
# What Python puts between a call and the function that does the work.
_BETWEEN = frozenset((
    "wrapper", "inner", "wrapped", "decorate_context", "_fn", "__call__", "_call_impl",
    "_wrapped_call_impl", "_no_grad_wrapper", "auto_unwrap",
))  # fmt: skip
# Thread 0x00007f5b7e7d1740 (most recent call first):     as faulthandler prints it; "Current
# thread" where a signal came in
_DUMPED = re.compile(
    r"(Current t|T)hread 0x[0-9a-f]{1,16} (?:\[.{0,60}\] )?\(most recent call first"
)
_DUMPED_FRAME = re.compile(r'\s*File "([^"]{1,400})", line (\d{1,7}) in (\S{1,80})')
_NAME, _FILE = re.compile(r"[A-Za-z_]\w{0,59}$"), re.compile(r"[\w.-]{1,60}$")
_Frame = tuple  # (file, line, function)


class Place(NamedTuple):
    """Where a rank stood: `call` is what it called at `line` of the user's `file`.

    `file` is "" where only the call is known. `within`: the user's functions around it. `waits`:
    whether other ranks must make the call too.
    """

    call: str
    file: str
    line: str
    within: tuple[str, ...]
    waits: bool

    def describe(self) -> str:
        """Return the place in words, as in "barrier, train.py:193"."""
        return f"{self.call}, {self.file}:{self.line}" if self.file else self.call


def places_of(failures: list[Failure], lines: list[Line]) -> dict[int, Place]:
    """Return {rank: its place} for the ranks of which a traceback or a stack tells it.

    The first traceback of a rank counts, otherwise the last stack. Where at most one rank left
    either, the calls that ranks waited in count, if these have different names.
    """
    found: dict[int, Place] = {}
    for rank, frames in [*_pyspy_stacks(lines), *_dumped_stacks(lines)]:
        place = _place(frames)
        if place and rank is not None:
            found[rank] = place
    raised: dict[int, Place] = {}
    for failure in failures:
        rank = who(failure.line)
        if rank is None or rank in raised or not failure.frames:
            continue
        signs = [frame.sign("frame") for frame in failure.frames]
        place = _place([(file, line, name or "") for file, line, name in filter(None, signs)])
        if place:
            raised[rank] = place
    found = {**found, **raised}
    return found if len(found) > 1 else _different_calls(failures, lines) or found


def place_of_dump(lines: list[Line]) -> str:
    """Return in words where the one process stood that faulthandler printed, "" without one."""
    stacks = _dumped_stacks(lines)
    place = _place(stacks[0][1]) if len(stacks) == 1 else None
    return place.describe() if place else ""


def _different_calls(failures: list[Failure], lines: list[Line]) -> dict[int, Place]:
    """{rank: the call that it waited in}, where ranks waited in calls of different names."""
    calls = _watched_calls(lines) or _named_calls(failures, lines)
    if len({call.lower().replace("_", "") for call in calls.values()}) < 2:
        return {}
    return {rank: Place(call, "", "", (), True) for rank, call in calls.items()}


def _watched_calls(lines: list[Line]) -> dict[int, str]:
    """{rank: the call in which it waited first}.

    By the watchdog's "WorkNCCL(SeqNum=412, OpType=ALLREDUCE". A rank whose call has a higher number
    ended the call before it, which it made with all others: so where the calls differ too, the
    ranks don't make the same ones. That names no group, so nothing is known where other lines tell
    of a group that isn't the whole job.
    """
    made: dict[int, str] = {}
    sizes: dict[int, tuple[str, int, int]] = {}  # (number, elements of a rank, of all)
    for line in lines:
        if line.says("group") and place_of(line)[0]:
            return {}
        waits, rank = line.sign("waits in"), who(line)
        if not (waits and waits[1]) or rank is None or rank in made:
            continue
        made[rank] = waits[1]
        if waits[1].endswith(_ALIKE) and waits[2]:
            few, many = sorted((int(waits[2]), int(waits[3])))
            sizes[rank] = waits[0], few, many
    return _with_sizes(made, sizes) or made


def _with_sizes(
    made: dict[int, str], sizes: dict[int, tuple[str, int, int]]
) -> dict[int, str] | None:
    """The calls with their sizes, where all ranks of the job wait in the call of one number.

    What a call has of all ranks tells how many there are. None where some rank is missing.
    """
    if set(sizes) != set(made) or len({number for number, _, _ in sizes.values()}) != 1:
        return None
    if any(few * len(made) != many for _, few, many in sizes.values()):
        return None
    return {rank: f"{made[rank]} of {few} elements" for rank, (_, few, _) in sizes.items()}


def _named_calls(failures: list[Failure], lines: list[Line]) -> dict[int, str]:
    """{rank: the one call that its last line names} of the ranks that waited or lost another."""
    waited = {who(f.line) for f in failures if f.secondary} - {None}
    last = {
        line.rank: line.text
        for line in lines
        if line.rank is not None and line.rank in waited and line.kind in (PLAIN, *APART)
    }
    named = {rank: _NAMED.findall(text) for rank, text in last.items() if not _OVER.search(text)}
    return {rank: calls[0] for rank, calls in named.items() if len(calls) == 1}


def _pyspy_stacks(lines: list[Line]) -> list[tuple[int, list[_Frame]]]:
    """(rank, frames, outermost first) of each process in what py-spy printed."""
    if not any(line.text.startswith("Process ") for line in lines):
        return []
    return [
        (stack.rank, [(file, line, name) for name, file, line in reversed(stack.frames)])
        for stack in stacks_of(lines)
        if stack.rank is not None
    ]


def _dumped_stacks(lines: list[Line]) -> list[tuple[int | None, list[_Frame]]]:
    """(rank, frames, outermost first) of each main thread that faulthandler printed.

    It is the thread that a signal met, otherwise the last one. A rank that trained on in the same
    log stood there no longer.
    """
    threads: dict[int | None, list[tuple[bool, list[_Frame]]]] = {}
    sources: dict[int | None, str] = {}
    inside = False
    for line in lines:
        head = _DUMPED.match(line.text)
        frame = _DUMPED_FRAME.match(line.text)
        if line.source == sources.get(line.rank) and line.says("step"):
            threads.pop(line.rank, None)
        if head:
            threads.setdefault(line.rank, []).append((head[1] == "Current t", []))
            sources[line.rank] = line.source
        elif frame and inside:
            threads[line.rank][-1][1].insert(0, (frame[1], frame[2], frame[3]))
        inside = bool(head) or (inside and bool(frame) and line.rank in threads)
    stacks = []
    for rank, dumped in threads.items():
        current = [frames for is_current, frames in dumped if is_current]
        stacks.append((rank, (current or [frames for _, frames in dumped])[-1]))
    return stacks


def _place(frames: list[_Frame]) -> Place | None:
    """The place in these frames, outermost first; None without a frame of the user's own."""
    own = [at for at, (file, _, _) in enumerate(frames) if not _is_foreign(file)]
    if not own:
        return None
    file, line, name = frames[own[-1]]
    inner = [function for _, _, function in frames[own[-1] + 1 :]]
    met = next((function for function in inner if MEETING.fullmatch(function)), "")
    called = met or next((function for function in inner if function not in _BETWEEN), "") or name
    return Place(
        called if _NAME.match(called) else "the program",
        _short(file),
        line,
        tuple(frames[at][2] for at in own),
        bool(met),
    )


def is_own_frame(line: Line) -> bool:
    """Return whether a line of a traceback is a frame of the user's own code."""
    frame = line.sign("frame")
    return frame is not None and not _is_foreign(frame[0])


def _is_foreign(file: str) -> bool:
    return bool(LIBRARY.search(file)) or file.startswith("<")


def _short(path: str) -> str:
    """The name of a file without its folders; it goes into a sentence."""
    name = os.path.basename(path.replace("\\", "/"))
    return name if _FILE.match(name) else "a file"


def camps_of(places: dict[int, Place]) -> list[list[int]]:
    """Return the ranks that stood in one place, for each place, the lowest rank first."""
    camps: dict[tuple[str, str, str], list[int]] = {}
    for rank in sorted(places):
        place = places[rank]
        camps.setdefault((place.call, place.file, place.line), []).append(rank)
    return list(camps.values())


def describe_places(places: dict[int, Place]) -> str:
    """Return in one line where ranks stood, "" for fewer than two.

    As in "rank 0: barrier, train.py:193; ranks 1-3: backward, train.py:88".
    """
    if len(places) < 2:
        return ""
    camps = camps_of(places)
    stands = [f"{name_ranks(camp)}: {places[camp[0]].describe()}" for camp in camps[:MOST_TOLD]]
    more = [f"{len(camps) - MOST_TOLD} other places"] if len(camps) > MOST_TOLD else []
    return "; ".join([*stands, *more])
