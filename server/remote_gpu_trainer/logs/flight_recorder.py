"""Read dumps of PyTorch's Flight Recorder: which collective hangs, and who isn't in it.

A dump lists the last collectives of one rank: a pickle or JSON, known by its content. Its name ends
with the rank. Nothing that a pickle names is ever looked up or called.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from ..text.masking import shown
from .files import KEY_NAME

MOST_BYTES, MOST_IN_ALL = 32 << 20, 256 << 20  # of a dump, and of all
MOST_PARTS = 2_000_000  # lists, tuples and dictionaries of a dump
MOST_NAMES, MOST_DUMPS = 20_000, 2_048  # files that are looked at, and dumps that are read
HEAD = 1 << 14  # bytes within which a dump says that it is one

NAME = re.compile(r"(.*?)(\d{1,6})(?:\.(?:json|pickle|pkl|bin|dump|trace))?$", re.S)
_SIGN = re.compile(rb"collective_seq_id|pg_config|nccl_comm_state")
LIBRARY = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|lib/python3\.\d+)/"
    r"|^(?:torch|torchvision|accelerate|transformers|trl|deepspeed|lightning|pytorch_lightning"
    r"|lightning_fabric|multiprocessing|concurrent|asyncio|importlib|contextlib\.py|runpy\.py"
    r"|threading\.py|queue\.py|selectors\.py|socket\.py|ssl\.py)"
)
_OP = re.compile(r"[\w.]{1,60}(?: \d{1,6}(?:->|<-)\d{1,6})?\Z")
# Calls whose ranks may give tensors of different sizes: all of them, or on one side.
_FREE, _FREE_IN, _FREE_OUT = re.compile(r"all_?to_?all|_v\b|_v_"), ("scatter",), ("gather",)


# Calls that no rank can end before all have made them.
_OF_ALL = re.compile(r"_?all_?|_?reduce_scatter|barrier")


@dataclass
class Call:
    """What a rank did at one number of a group: `op`, `sizes` that must agree, whether it ended.

    `place`: where the program called it, '' if that isn't known.
    """

    op: str
    sizes: tuple[str, ...]
    ended: bool
    place: str


@dataclass
class Dump:
    """One rank's dump. `calls` by group and number; `whole`: nothing has been overwritten."""

    name: str
    calls: dict[tuple, dict[int, Call]] = field(default_factory=dict)
    whole: bool = True
    since: int = 0
    until: int = 0


@dataclass(frozen=True)
class Verdict:
    """What is wrong in one group.

    `kind`: "missing" where some never entered the call, "alone" where only rank 0 did, "op" and
    "sizes" for calls that differ, "crossed" for groups that wait for each other, "" where all
    entered alike and only the end is missing. `number`: of the call in its group. `ranks`: those
    that never entered, or entered another call than most; of equal camps all. `odd`: the one rank
    that did so alone, else None.
    """

    group: tuple
    kind: str
    number: int
    op: str
    ranks: frozenset[int]
    waiting: frozenset[int]
    odd: int | None
    said: tuple[str, ...]


class _Plain(pickle.Unpickler):
    """An unpickler of plain containers."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError("a dump names no class")

    def persistent_load(self, pid):
        raise pickle.UnpicklingError("a dump refers to nothing outside")


def dumps_in(folder: str) -> tuple[dict[str, Dump | None], dict[str, int]]:
    """Return ({name: dump}, {name: rank}) of a folder's dumps; None for one that can't be read."""
    dumps: dict[str, Dump | None] = {}
    ranks: dict[str, int] = {}
    room = MOST_IN_ALL
    for files in _numbered_files(folder):
        for name, rank in files:
            data = _data(os.path.join(folder, name), min(MOST_BYTES, room))
            if data is not None:
                room -= len(data)
                dumps[name], ranks[name] = dump_of(data, name), rank
        if len(dumps) > MOST_DUMPS:
            break
    return dumps, ranks


def dump_at(path: str) -> dict[str, Dump | None]:
    """Return {name: dump} of a file, None for one that can't be read; {} for any other file."""
    name, data = os.path.basename(path), _data(path, MOST_BYTES)
    dump = dump_of(data, name) if data else None
    is_dump = dump or (data and _SIGN.search(data.partition(b"\n")[0]))
    return {name: dump} if is_dump else {}


def first_open(dump: Dump, who: str) -> str:
    """Return in words the first call that hasn't ended, of the first group with one, else ""."""
    for group, calls in dump.calls.items():
        number = min((n for n, call in calls.items() if not call.ended), default=None)
        if number is not None:
            return f"{who} waits in {_named(calls[number].op, number, group)}"
    return ""


def _numbered_files(folder: str) -> Iterator[list[tuple[str, int]]]:
    """For a folder and each below, (name, number at its end) of the files that may be dumps."""
    seen = 0
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "node_modules")
        files = []
        for name in sorted(names):
            numbered = NAME.match(name)
            if numbered and not KEY_NAME.search(name):
                path = os.path.relpath(os.path.join(base, name), folder)
                files.append((path.replace(os.sep, "/"), int(numbered[2])))
        yield files
        seen += len(names)
        if seen > MOST_NAMES:
            return


def _data(path: str, most: int) -> bytes | None:
    """The bytes of a file that begins like a dump, b"" of one that is too large, else None."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as stream:
            head = stream.read(HEAD)
            if not (head[:1] == b"\x80" or head.lstrip()[:1] == b"{") or not _SIGN.search(head):
                return None
            data = head + stream.read(most + 1 - len(head)) if len(head) == HEAD else head
    except (OSError, ValueError):
        return None
    return data if len(data) <= most else b""


def dump_of(data: bytes, name: str = "") -> Dump | None:
    """Return a dump from its bytes, None where they can't be read as one."""
    if sum(map(data.count, b"]}()l")) > MOST_PARTS and data[:1] == b"\x80":
        return None  # a few bytes of a pickle can stand for gigabytes
    try:
        is_pickle = data[:1] == b"\x80"
        return _read(_Plain(io.BytesIO(data)).load() if is_pickle else json.loads(data), name)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError, MemoryError):
        return None
    except (pickle.UnpicklingError, ImportError, RecursionError, OverflowError):
        return None


def _read(data: dict, name: str) -> Dump:
    dump = Dump(name)
    groups = {}
    for key, config in data.get("pg_config", {}).items():
        ranks = config["ranks"]
        ranks = json.loads(ranks) if isinstance(ranks, str) else ranks
        groups[str(key)] = frozenset(int(rank) for rank in ranks)
    for entry in data["entries"]:
        name, described = map(str, entry["process_group"])
        # Several groups of one name may differ in their ranks.
        group = (shown(name, 40), shown(described, 40), groups.get(name, frozenset()))
        created = int(entry["time_created_ns"])
        dump.since, dump.until = min(dump.since or created, created), max(dump.until, created)
        if not entry.get("is_p2p"):
            _add(dump.calls.setdefault(group, {}), int(entry["collective_seq_id"]), _call(entry))
    dump.whole = not data["entries"] or int(data["entries"][0]["record_id"]) == 0
    return dump


def _add(calls: dict[int, Call], number: int, call: Call) -> None:
    before = calls.get(number)
    if before:  # one of several that go together
        call = Call(
            f"{before.op}+{call.op}",
            before.sizes + call.sizes,
            before.ended and call.ended,
            before.place,
        )
    calls[number] = call


def _call(entry: dict) -> Call:
    """A call from an entry of a dump."""
    library, _, op = str(entry["profiling_name"]).partition(":")
    op = op if _OP.match(op) else shown(op or library, 40)
    sizes = []
    if not _FREE.search(op):
        sizes += [] if op in _FREE_IN else [entry["input_sizes"], entry.get("input_dtypes")]
        sizes += [] if op in _FREE_OUT else [entry["output_sizes"], entry.get("output_dtypes")]
    ended = entry["state"] == "completed" or (library == "gloo" and entry.get("retired") is True)
    own = [f for f in entry.get("frames") or () if not LIBRARY.search(str(f["filename"]))]
    place = f"{os.path.basename(str(own[0]['filename']))}:{own[0]['line']}" if own else ""
    return Call(op, tuple(shown(size, 200) for size in sizes), ended, shown(place, 60))


def verdicts(dumps: dict[int, Dump]) -> list[Verdict]:
    """Return what {rank: dump} shows of each group with a fault, the likeliest cause first.

    A rank that is missing in one group may stand in another one and wait there for somebody else.
    Then the other group comes first.
    """
    dumps = _of_one_run(dumps)
    groups = sorted({group for dump in dumps.values() for group in dump.calls}, key=str)
    judged = [verdict for verdict in (_of_group(group, dumps) for group in groups) if verdict]
    stuck = {rank: verdict.group for verdict in judged for rank in verdict.waiting}

    def excused(verdict: Verdict) -> bool:
        return any(stuck.get(rank, verdict.group) != verdict.group for rank in verdict.ranks)

    faulty = sorted([verdict for verdict in judged if verdict.kind], key=excused)
    if len(faulty) > 1 and all(map(excused, faulty)):
        said = "these groups wait for each other: their calls come in another order on some ranks"
        faulty[0] = replace(faulty[0], kind="crossed", odd=None, said=(*faulty[0].said, said))
    return [*faulty, *[verdict for verdict in judged if not verdict.kind]]


def _of_one_run(dumps: dict[int, Dump]) -> dict[int, Dump]:
    """Without dumps of an earlier run: they end before most of the others begin."""
    begun = sorted(dump.since for dump in dumps.values() if dump.since)
    middle = begun[len(begun) // 2] if begun else 0
    return {
        rank: dump for rank, dump in dumps.items() if not dump.until or dump.until >= middle
    } or dumps


@dataclass(frozen=True)
class _Group:
    """What the dumps show of one group: `calls` of each rank by number, from what all still know.

    `members`: the ranks of the group. `waiting`: those of which a call hasn't ended. `undumped`:
    those that left no dump.
    """

    key: tuple
    members: frozenset[int]
    calls: dict[int, dict[int, Call]]
    waiting: frozenset[int]
    undumped: frozenset[int]

    def numbers(self, dumps: dict[int, Dump]) -> list[int]:
        """Return the numbers of its calls. What a full buffer has overwritten can't be compared."""
        begun = [min(calls) for rank, calls in self.calls.items() if not dumps[rank].whole]
        start = max(begun, default=0)
        return sorted({n for calls in self.calls.values() for n in calls if n >= start})

    def at(self, number: int) -> dict[int, Call]:
        """Return {rank: its call} of one number."""
        return {rank: calls[number] for rank, calls in self.calls.items() if number in calls}

    def absent(self, number: int) -> frozenset[int]:
        """Return the ranks that never came as far as this number."""
        return frozenset(
            rank for rank, calls in self.calls.items() if max(calls, default=-1) < number
        )


def _group_of(key: tuple, dumps: dict[int, Dump]) -> _Group:
    members = key[-1] or frozenset(dumps)
    calls = {
        rank: dumps[rank].calls.get(key, {})
        for rank in sorted(members & set(dumps))
        if dumps[rank].whole or key in dumps[rank].calls
    }
    waiting = {rank for rank, c in calls.items() if any(not call.ended for call in c.values())}
    return _Group(key, members, calls, frozenset(waiting), frozenset(members - set(dumps)))


def _of_group(key: tuple, dumps: dict[int, Dump]) -> Verdict | None:
    """The first fault in one group; None where all calls ended alike."""
    group = _group_of(key, dumps)
    numbers = group.numbers(dumps)
    for number in numbers if len(group.members) > 1 else ():
        absent = group.absent(number)
        if absent and group.waiting - absent:
            return _missing(group, number, absent)
        for kind, trait in (("op", _op_of), ("sizes", _sizes_of)):
            if len(set(map(trait, group.at(number).values()))) > 1:
                return _mismatch(group, kind, number, trait)
    return _hanging(group) if group.waiting and numbers else None


def _op_of(call: Call) -> str:
    return call.op


def _sizes_of(call: Call) -> tuple[str, ...]:
    return call.sizes


def _hanging(group: _Group) -> Verdict:
    """The verdict where all that left a dump entered alike, and the first open call doesn't end."""
    number = min(
        number
        for rank in group.waiting
        for number, call in group.calls[rank].items()
        if not call.ended
    )
    here = group.at(number)
    if group.undumped and len(group.undumped) <= len(here):
        return _no_dump(group, number)
    op = next(iter(here.values())).op
    said = f"{name_ranks(here)} entered {_named(op, number, group.key)} alike, and it doesn't end"
    return Verdict(group.key, "", number, op, frozenset(), group.waiting, None, (said,))


def _no_dump(group: _Group, number: int) -> Verdict:
    """The verdict where the ranks that left no dump are those that the others wait for."""
    here, absent = group.at(number), group.undumped
    op = next(iter(here.values())).op
    odd = min(absent) if len(absent) == 1 else None
    said = f"{name_ranks(absent)} left no dump; {_waiting_in(here)} {_named(op, number, group.key)}"
    return Verdict(group.key, "missing", number, op, absent, group.waiting, odd, (said,))


def _missing(group: _Group, number: int, absent: frozenset[int]) -> Verdict:
    """The verdict where some ranks never entered a call in which others wait.

    One rank that waits there while several don't come is itself the odd one.
    """
    here = group.at(number)
    op = next(iter(here.values())).op
    is_alone = len(here) == 1 and len(absent) > 1
    odd = min(here) if is_alone else min(absent) if len(absent) == 1 else None
    call = _named(op, number, group.key)
    said = [f"{name_ranks(absent)} never entered {call}; {_waiting_in(here)} it"]
    said += _last_place(group, absent)
    kind = "alone" if is_alone and odd == 0 else "missing"
    return Verdict(group.key, kind, number, op, absent, group.waiting, odd, tuple(said))


def _waiting_in(ranks: Iterable[int]) -> str:
    ranks = list(ranks)
    return f"{name_ranks(ranks)} {'waits' if len(ranks) == 1 else 'wait'} in"


def _last_place(group: _Group, absent: frozenset[int]) -> list[str]:
    """Where the lowest of the absent ranks was last, of those whose dump tells it."""
    for rank in sorted(absent):
        calls = group.calls[rank]
        last = max(calls, default=None)
        if last is not None and calls[last].place:
            call = calls[last]
            return [f"rank {rank} was last in {call.op} #{last}, called at {call.place}"]
    return []


def _mismatch(
    group: _Group, kind: str, number: int, trait: Callable[[Call], str | tuple[str, ...]]
) -> Verdict:
    """The verdict where ranks made different calls of one number: the smaller camps are odd."""
    here = group.at(number)
    by_trait: dict[str | tuple[str, ...], list[int]] = {}
    for rank, call in here.items():
        by_trait.setdefault(trait(call), []).append(rank)
    camps = sorted(by_trait.values(), key=lambda ranks: (len(ranks), ranks))
    is_even = len(camps[0]) == len(camps[-1])
    odd = frozenset(here) if is_even else frozenset(here) - frozenset(camps[-1])
    words = _words([here[ranks[0]] for ranks in camps[:3]], kind)
    made = ", ".join(f"{name_ranks(ranks)} made {word}" for ranks, word in zip(camps, words))
    said = [f"as call #{number} of {_group_name(group.key)} {made}"]
    place = here[min(odd)].place
    said += [f"rank {min(odd)} made its call at {place}"] if place else []
    op = here[camps[-1][0]].op
    only = min(odd) if len(odd) == 1 else None
    return Verdict(group.key, kind, number, op, odd, group.waiting, only, tuple(said))


def _words(calls: list[Call], kind: str) -> list[str]:
    """What tells these calls apart: the operation, or the first size that differs."""
    if kind != "sizes":
        return [call.op for call in calls]
    differs = [len(set(sizes)) > 1 for sizes in zip(*[call.sizes for call in calls])]
    at = differs.index(True) if True in differs else 0
    return [f"{call.op} {''.join(call.sizes[at : at + 1])[:40]}" for call in calls]


def _named(op: str, number: int, group: tuple) -> str:
    return f"{op} #{number} of {_group_name(group)}"


def _group_name(group: tuple) -> str:
    name, described = group[:2]
    return described if described not in ("", "undefined") else f"group {name}"


def never_ended(dumps: dict[int, Dump]) -> dict[int, str]:
    """Return {rank: what shows it} of ranks in which calls are open that another rank ended.

    Such a rank made the calls, but its GPU didn't: it hangs or failed.
    """
    found: dict[int, str] = {}
    dumps = _of_one_run(dumps)
    for key in sorted({key for dump in dumps.values() for key in dump.calls}, key=str):
        group = _group_of(key, dumps)
        for rank in sorted(group.waiting - set(found)):
            number = min(n for n, c in group.calls[rank].items() if not c.ended)
            call = group.calls[rank][number]
            passed = [other for other in group.calls if _ended(other, number, group, dumps)]
            if passed and _OF_ALL.match(call.op):
                found[rank] = (
                    f"rank {rank} never ended {_named(call.op, number, key)}; "
                    f"{name_ranks(passed)} did"
                )
    return found


def _ended(rank: int, number: int, group: _Group, dumps: dict[int, Dump]) -> bool:
    """Whether a rank has ended a call: its dump says so, or holds later calls alone."""
    calls = group.calls[rank]
    if number in calls:
        return calls[number].ended
    return bool(calls) and not dumps[rank].whole and min(calls) > number


def name_ranks(ranks: Iterable[int]) -> str:
    """Return ranks in words, as in "rank 3" and "ranks 0-2, 5"."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"rank{'s' if sum(map(len, runs)) > 1 else ''} {', '.join(parts[:8])}"
