"""Add to a log's evidence where its ranks hang: by dumps of collectives, and by saved stacks.

`flight_recorder` reads the dumps and says which rank strayed. Stacks are what `py-spy dump` prints
of several processes; they stand in the log itself. Standard library, Python 3.8.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..numbers.entries import (
    DESYNC,
    RANK_0_ALONE,
    RANK_MISSING,
)
from . import flight_recorder
from .evidence import MOST_DECISIVE, Evidence
from .flight_recorder import LIBRARY, Dump, Verdict, name_ranks, never_ended, verdicts
from .kinds import CONSEQUENCE, FAILURE, PLAIN
from .lines import Line

MOST_VERDICTS = 2  # groups of ranks whose verdict is told
MOST_CULPRITS, MOST_MISSING = 4, 4  # ranks that are told alone, and those that one call may miss
MOST_CAMPS = 4  # places in which processes stand that are told
MISSING = "missing"  # the kind of a verdict on ranks that didn't come
READ_DUMPS, READ_STACKS = "read from the dumps: ", "read from the stacks: "
ONE_DUMP = (
    "Partial: the dump of one rank; pass the folder with those of all, which tell who is late."
)
ONE_STACK = "Partial: the stack of one process; those of all ranks tell which one is late."
# Kinds of verdicts, see `flight_recorder.Verdict`, and the entries about them.
ENTRIES = {
    MISSING: RANK_MISSING,
    "op": DESYNC,
    "sizes": DESYNC,
    "crossed": DESYNC,
    "alone": RANK_0_ALONE,
}

# Calls that every rank of a group must make. `backward` is one under DDP and FSDP.
MEETING = re.compile(
    r"(?:monitored_)?barrier|(?:_?all_?)?(?:reduce|gather)\w*|broadcast\w*|_?reduce_scatter\w*"
    r"|scatter\w*|all_?to_?all\w*|backward|new_group|wait_for_everyone|synchronize|send|recv"
)
# Process 4121: python train.py
_PROCESS = re.compile(r"Process (\d{1,9}): ?(.*)")
# Thread 0x7F2A (active): "MainThread"
_THREAD = re.compile(r'Thread ((?:0x)?[0-9A-Fa-f]+) \([\w+]{1,40}\)(?:: "(.{0,80})")?')
#     all_reduce (torch/distributed/distributed_c10d.py:2501)
_FRAME = re.compile(r"\s+(\S.{0,200}?) \(([^()]{1,300}?)(?::(\d{1,7}))?\)\s*$")
_SAYS_RANK = re.compile(r"\brank\W{0,3}(\d{1,6})", re.I)


@dataclass(frozen=True)
class Dumps:
    """The dumps in a folder, by name: None for one that can't be read; and the rank of each."""

    by_name: dict[str, Dump | None]
    ranks: dict[str, int]

    def attempts(self) -> list[dict[int, Dump]]:
        """Return {rank: dump} of each of the launcher's attempts, in the order of their names."""
        attempts: dict[str, dict[int, Dump]] = {}
        for name, dump in sorted(self.by_name.items()):
            if dump is not None:
                attempts.setdefault(self._attempt(name), {})[self.ranks[name]] = dump
        return [attempts[name] for name in sorted(attempts, key=_in_order)]

    def _attempt(self, path: str) -> str:
        """What the names of one attempt's dumps share: the folder only where names recur."""
        name = path.rpartition("/")[2]
        recurs = sum(other.rpartition("/")[2] == name for other in self.by_name) > 1
        prefix = flight_recorder.NAME.match(path if recurs else name)
        return prefix[1] if prefix else path


def dumps_in(folder: str) -> Dumps:
    """Return the dumps of the Flight Recorder in a folder and below."""
    return Dumps(*flight_recorder.dumps_in(folder))


def of_one_dump(path: str) -> Evidence | None:
    """Return what a file shows that is the dump of one rank, None for any other file.

    Alone it accuses nobody, and excuses nobody either.
    """
    by_name = flight_recorder.dump_at(path)
    if not by_name:
        return None
    name, dump = by_name.popitem()
    if dump is None:
        unread = Evidence([], [], [], None, (), True, seen="fault")
        return _with_unread(unread, Dumps({name: None}, {}))
    numbered = flight_recorder.NAME.match(name)
    who = f"rank {int(numbered[2])}" if numbered else "this rank"
    said = flight_recorder.first_open(dump, who) or f"{who} has ended all its calls"
    line = Line(name, 1, None, READ_DUMPS + said)
    return Evidence([line], [], [line], None, (), True, left_out=ONE_DUMP, places=said)


def _in_order(name: str) -> list[tuple[int, str]]:
    """What sorts names with numbers by these: attempt_2 before attempt_10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def with_dumps(evidence: Evidence, dumps: Dumps) -> Evidence:
    """Return a folder's evidence together with what its dumps show.

    Of several attempts the first with a fault counts, else the last.
    """
    evidence = _with_unread(evidence, dumps)
    judged = [(attempt, verdicts(attempt)) for attempt in dumps.attempts()]
    if not judged:
        return evidence
    faulty = [item for item in judged if any(verdict.kind for verdict in item[1])]
    return _with_verdicts(evidence, *(faulty[0] if faulty else judged[-1]))


def _with_unread(evidence: Evidence, dumps: Dumps) -> Evidence:
    unread = sum(dump is None for dump in dumps.by_name.values())
    if not unread:
        return evidence
    said = f"{unread} of {len(dumps.by_name)} dumps of the Flight Recorder can't be read."
    return replace(evidence, left_out=" ".join(filter(None, (evidence.left_out, said))))


def _with_verdicts(evidence: Evidence, dumps: dict[int, Dump], verdicts: list[Verdict]) -> Evidence:
    """The evidence with the verdicts over one attempt's dumps."""
    evidence = replace(evidence, ranks=tuple(sorted({*evidence.ranks, *dumps})))
    if verdicts:
        entry = ENTRIES.get(verdicts[0].kind, "")
        lines = [line for verdict in verdicts[:MOST_VERDICTS] for line in _lines(verdict, dumps)]
        culprits = _culprits(verdicts, dumps) if entry else []
        found = _with_hang(evidence, lines, entry, bool(entry) and verdicts[0].odd is not None)
        if found.seen == entry and entry:
            calls = _describe_calls(verdicts[0], dumps)
            found = replace(
                found,
                culprits=tuple(culprits) if len(culprits) > 1 else (),
                quoted=tuple(culprits) if len(culprits) > 1 else (),
                how="",
                places=calls or found.places,
                calls_differ=verdicts[0].kind != MISSING,
            )
        return found
    lines = _alike(dumps) if len(dumps) > 1 else []
    if not evidence.lines:
        return replace(evidence, lines=lines, decisive=lines, seen="sound")
    return _with_hang(evidence, lines, "", False)


def _culprits(verdicts: list[Verdict], dumps: dict[int, Dump]) -> list[Line]:
    """One line for each rank that didn't come, or whose calls never ended; the odd one first."""
    said: dict[int, str] = {}
    for verdict in verdicts:
        if verdict.kind == MISSING and verdict.odd is not None:
            said.setdefault(verdict.odd, verdict.said[0])
    for verdict in verdicts:
        if verdict.kind == MISSING and verdict.odd is None and len(verdict.ranks) <= MOST_MISSING:
            said.update((rank, verdict.said[0]) for rank in sorted(verdict.ranks - set(said)))
    if said:
        open_calls = never_ended(dumps)
        said = {**said, **{rank: open_calls[rank] for rank in open_calls if rank not in said}}
    return [
        Line(dumps[rank].name if rank in dumps else "", 1, rank, READ_DUMPS + text, FAILURE)
        for rank, text in list(said.items())[:MOST_CULPRITS]
    ]


def _describe_calls(verdict: Verdict, dumps: dict[int, Dump]) -> str:
    """Where ranks stood, by the last call of each in a verdict's group; "" if no dump tells it."""
    last: dict[str, list[int]] = {}
    for rank, dump in sorted(dumps.items()):
        calls = dump.calls.get(verdict.group, {})
        call = calls.get(verdict.number) or (calls[max(calls)] if calls else None)
        if call and call.place:
            last.setdefault(f"{call.op}, {call.place}", []).append(rank)
    camps = [f"{name_ranks(ranks)}: {place}" for place, ranks in last.items()]
    return "; ".join(camps[:MOST_CAMPS]) if len(camps) > 1 else ""


def _lines(verdict: Verdict, dumps: dict[int, Dump]) -> list[Line]:
    """A verdict as lines of the dump of the rank that strayed, else of the lowest one."""
    odd = verdict.odd
    rank = odd if odd is not None and odd in dumps else min([*verdict.waiting, *dumps])
    kind = FAILURE if verdict.kind else PLAIN
    return [Line(dumps[rank].name, 1, odd, READ_DUMPS + text, kind) for text in verdict.said]


def _alike(dumps: dict[int, Dump]) -> list[Line]:
    said = f"{READ_DUMPS}{name_ranks(dumps)} entered the same calls and ended them"
    return [Line(dumps[min(dumps)].name, 1, None, said)]


def _with_hang(evidence: Evidence, lines: list[Line], entry: str, is_named: bool) -> Evidence:
    """The evidence with these lines, which show the hang that `entry` explains.

    They decide unless a rank reports a failure of its own: that is the cause of the hang.
    `is_named`: they name the rank at fault.
    """
    if not entry or _has_own_failure(evidence):
        lines = [line.of_kind(PLAIN) for line in lines]
        decisive = [*evidence.decisive[:1], *lines, *evidence.decisive[1:]]
        return replace(
            evidence,
            lines=[*evidence.lines, *lines],
            decisive=decisive[:MOST_DECISIVE],
            is_log=True,
            seen=evidence.seen.replace("sound", ""),
        )
    # A time-out's own words name the entry about an absent rank.
    rest = evidence.lines if entry == RANK_MISSING else [_outlived(line) for line in evidence.lines]
    kept = set(rest)
    decisive = [*lines, *[line for line in evidence.decisive if line in kept]]
    return replace(
        evidence,
        lines=[*lines, *rest],
        decisive=decisive[:MOST_DECISIVE],
        first=lines[0] if is_named else None,
        is_log=True,
        seen=entry,
    )


def _has_own_failure(evidence: Evidence) -> bool:
    first = evidence.first
    return (
        first is not None
        and first.kind in ("exception", FAILURE)
        and not first.says("secondary", "lost peer")
    )


def _outlived(line: Line) -> Line:
    """The line; as a consequence where it only tells that a rank waited for another in vain."""
    waited = line.kind in ("exception", FAILURE) and line.says("secondary")
    return line.of_kind(CONSEQUENCE) if waited else line


@dataclass(frozen=True)
class Stack:
    """Where one process stands: its rank, if known, and the frames of its main thread.

    `frames` are (function, file, line), innermost first.
    """

    line: Line
    rank: int | None
    process: str
    frames: tuple[tuple[str, str, str], ...]

    def shape(self) -> tuple:
        """Return the frames to compare.

        A library's line may differ between ranks that wait in one place.
        """
        return tuple(
            (function, file, "" if LIBRARY.search(file) else line)
            for function, file, line in self.frames
        )

    def waits(self) -> bool:
        """Return whether it stands in a call that other ranks must make too."""
        return any(
            MEETING.fullmatch(function) and LIBRARY.search(file)
            for function, file, _ in self.frames
        )

    def place(self) -> str:
        """Return the innermost call, and where the program itself came to it."""
        inner = self.frames[0]
        own = next((frame for frame in self.frames if not LIBRARY.search(frame[1])), inner)
        function, file, line = own
        place = f"{function} ({os.path.basename(file)}:{line})"
        return place if own is inner else f"{inner[0]}, from {place}"


def with_stacks(evidence: Evidence) -> Evidence:
    """Return the evidence with the places where several processes stand, the odd ones first.

    Where most wait in a call of all ranks, the others are the ones that they wait for; else those
    that stand elsewhere than most. One stack alone accuses nobody. Unchanged where there is none.
    """
    stacks = stacks_of(evidence.lines)
    if len(stacks) < 2:
        return _with_one_stack(evidence, stacks[0]) if stacks else evidence
    by_shape: dict[tuple, list[Stack]] = {}
    for stack in stacks:
        by_shape.setdefault(stack.shape(), []).append(stack)
    camps = sorted(by_shape.values(), key=len, reverse=True)
    late = [camp for camp in camps if not camp[0].waits()]
    if len(camps) > 1 and not late and not _has_own_failure(evidence):
        evidence = replace(evidence, calls_differ=True)
    odd = late if 0 < 2 * sum(map(len, late)) < len(stacks) else camps[1:]
    if odd is not late and 2 * len(camps[0]) <= len(stacks):
        odd = []
    usual = [camp for camp in camps if camp not in odd]
    lines = [_line_of(camp) for camp in (*odd[: MOST_CAMPS - 1], *usual)][:MOST_CAMPS]
    if not odd:
        places = "; ".join(line.text[len(READ_STACKS) :] for line in lines)
        return replace(_with_hang(evidence, lines, "", False), places=places)
    return _with_hang(evidence, lines, DESYNC, len(odd) == len(odd[0]) == 1)


def _with_one_stack(evidence: Evidence, stack: Stack) -> Evidence:
    return with_one_place(evidence, f"{_who([stack])} in {stack.place()}")


def with_one_place(evidence: Evidence, place: str) -> Evidence:
    """Return the evidence with where one process stands; it accuses and excuses nobody."""
    return replace(
        evidence,
        left_out=" ".join(filter(None, (evidence.left_out, ONE_STACK))),
        seen=evidence.seen.replace("sound", ""),
        places=place,
    )


def _line_of(camp: list[Stack]) -> Line:
    """Where the processes of one camp stand, as a line of the first one's stack."""
    first = camp[0]
    rank = first.rank if len(camp) == 1 else None
    said = f"{READ_STACKS}{_who(camp)} in {first.place()}"
    return Line(first.line.source, first.line.number, rank, said, FAILURE)


def _who(camp: list[Stack]) -> str:
    ranks = [stack.rank for stack in camp if stack.rank is not None]
    if len(ranks) == len(camp):
        return name_ranks(ranks)
    return f"process{'es' if len(camp) > 1 else ''} {', '.join(s.process for s in camp[:8])}"


def stacks_of(lines: Iterable[Line]) -> list[Stack]:
    """Return the stacks in these lines, one for each process."""
    reader = _StackReader()
    for line in lines:
        reader.take(line)
    reader.end()
    return reader.stacks


class _StackReader:
    """Takes the lines of a log one after another and gathers the stacks in them.

    Without a line of its own a process begins with its main thread. Several heads of main threads
    in a row share the frames below them, as people put equal stacks together.
    """

    def __init__(self) -> None:
        self.stacks: list[Stack] = []
        self.heads: list[Stack] = []  # the processes whose stack is being read
        self.frames: list[tuple[str, str, str]] = []
        self.in_main = self.has_main = False
        self.said: int | None = None  # the rank that a line between two stacks named

    def take(self, line: Line) -> None:
        process = _PROCESS.match(line.text)
        if process or (self.heads and line.source != self.heads[0].line.source):
            self.end()
        if process:
            self._begin(line, process[1], process[2])
            return
        thread = _THREAD.match(line.text)
        if thread and thread[2] == "MainThread":
            self._begin_main(line, thread[1])
        elif self.heads:
            self._continue(line, is_head=thread is not None)
        if named := _SAYS_RANK.search(line.text):
            self.said = int(named[1])

    def _begin(self, line: Line, process: str, command: str = "") -> None:
        """Begin a process. Its rank: by the line's prefix, the line above, or its command."""
        rank = line.rank if line.rank is not None else self.said
        named = _SAYS_RANK.search(command)
        rank = int(named[1]) if named and rank is None else rank
        self.heads.append(Stack(line, rank, process, ()))
        self.in_main, self.said = True, None

    def _begin_main(self, line: Line, number: str) -> None:
        """Take the head of a main thread, which counts rather than any thread before it."""
        if self.has_main and self.frames:
            self.end()
        if not self.heads or self.has_main:
            self._begin(line, number)
        self.in_main, self.has_main, self.frames = True, True, []

    def _continue(self, line: Line, is_head: bool) -> None:
        """Take another thread's head or a frame. The first thread counts if none is the main."""
        frame = _FRAME.match(line.text) if self.in_main else None
        if is_head:
            self.in_main = not self.frames
        elif frame:
            self.frames.append((frame[1], frame[2], frame[3] or ""))

    def end(self) -> None:
        """End the processes that are being read."""
        if self.frames:
            self.stacks += [replace(head, frames=tuple(self.frames)) for head in self.heads]
        self.heads, self.frames, self.has_main = [], [], False
