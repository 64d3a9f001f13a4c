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
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from ..text.masking import shown
from .files import KEY_NAME

MOST_BYTES, MOST_IN_ALL = 32 << 20, 256 << 20  # of a dump, and of all
MOST_PARTS = 2_000_000  # lists, tuples and dictionaries of a dump
MOSTNAMES, MOST_DUMPS = 20_000, 2_048
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

    `kind`: missing, op, sizes, or "" where all entered alike and only the end is missing. `number`:
    of the call in its group. `ranks`: those that never entered, or entered another call than most;
    of equal camps all. `odd`: the one rank that did so alone, else None.
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
    found: dict[str, Dump | None] = {}
    ranks: dict[str, int] = {}
    left, seen = MOST_IN_ALL, 0
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "node_modules")
        for name in sorted(names):
            seen += 1
            numbered = NAME.match(name)
            if not numbered or KEY_NAME.search(name):
                continue
            data = _data(os.path.join(base, name), min(MOST_BYTES, left))
            if data is None:
                continue
            left -= len(data)
            path = os.path.relpath(os.path.join(base, name), folder).replace(os.sep, "/")
            found[path], ranks[path] = dump_of(data, path), int(numbered[2])
        if seen > MOSTNAMES or len(found) > MOST_DUMPS:
            break
    return found, ranks


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
        told = _Plain(io.BytesIO(data)).load() if data[:1] == b"\x80" else json.loads(data)
        return _read(told, name)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError, MemoryError):
        return None
    except (pickle.UnpicklingError, ImportError, RecursionError, OverflowError):
        return None


def _read(told: dict, name: str) -> Dump:
    dump = Dump(name)
    groups = {}
    for key, config in told.get("pg_config", {}).items():
        ranks = config["ranks"]
        ranks = json.loads(ranks) if isinstance(ranks, str) else ranks
        groups[str(key)] = frozenset(int(rank) for rank in ranks)
    for entry in told["entries"]:
        name, described = map(str, entry["process_group"])
        # Several groups of one name may differ in their ranks.
        group = (shown(name, 40), shown(described, 40), groups.get(name, frozenset()))
        created = int(entry["time_created_ns"])
        dump.since, dump.until = min(dump.since or created, created), max(dump.until, created)
        if not entry.get("is_p2p"):
            _add(dump.calls.setdefault(group, {}), int(entry["collective_seq_id"]), _call(entry))
    dump.whole = not told["entries"] or int(told["entries"][0]["record_id"]) == 0
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
    found = [verdict for verdict in (_of_group(group, dumps) for group in groups) if verdict]
    stuck = {rank: v.group for v in found for rank in v.waiting}

    def excused(verdict: Verdict) -> bool:
        return any(stuck.get(rank, verdict.group) != verdict.group for rank in verdict.ranks)

    faulty = sorted([v for v in found if v.kind], key=excused)
    if len(faulty) > 1 and all(map(excused, faulty)):
        said = "these groups wait for each other: their calls come in another order on some ranks"
        faulty[0] = replace(faulty[0], kind="crossed", odd=None, said=(*faulty[0].said, said))
    return [*faulty, *[v for v in found if not v.kind]]


def _of_one_run(dumps: dict[int, Dump]) -> dict[int, Dump]:
    """Without dumps of an earlier run: they end before most of the others begin."""
    begun = sorted(dump.since for dump in dumps.values() if dump.since)
    middle = begun[len(begun) // 2] if begun else 0
    return {
        rank: dump for rank, dump in dumps.items() if not dump.until or dump.until >= middle
    } or dumps


def _of_group(group: tuple, dumps: dict[int, Dump]) -> Verdict | None:
    members = group[-1] or frozenset(dumps)
    calls = {
        rank: dumps[rank].calls.get(group, {})
        for rank in sorted(members & set(dumps))
        if dumps[rank].whole or group in dumps[rank].calls
    }
    # What a full buffer has overwritten can't be compared.
    start = max([min(c) for rank, c in calls.items() if not dumps[rank].whole], default=0)
    numbers = sorted({number for c in calls.values() for number in c if number >= start})
    waiting = {rank for rank, c in calls.items() if any(not call.ended for call in c.values())}
    for number in numbers if len(members) > 1 else ():
        here = {rank: c[number] for rank, c in calls.items() if number in c}
        absent = {rank for rank, c in calls.items() if max(c, default=-1) < number}
        if absent and waiting - absent:
            return _missing(group, number, here, absent, calls, waiting)
        for kind, key in (("op", lambda call: call.op), ("sizes", lambda call: call.sizes)):
            if len(set(map(key, here.values()))) > 1:
                return _mismatch(group, kind, number, here, key, waiting)
    if not waiting or not numbers:
        return None
    # All that left a dump entered alike.
    number = min(n for r in waiting for n, call in calls[r].items() if not call.ended)
    here = {rank: c[number] for rank, c in calls.items() if number in c}
    undumped = frozenset(members - set(dumps))
    if undumped and len(undumped) <= len(here):
        return _missing(group, number, here, undumped, {}, waiting)
    op = next(iter(here.values())).op
    said = (f"{told_ranks(here)} entered {_named(op, number, group)} alike, and it doesn't end",)
    return Verdict(group, "", number, op, frozenset(), frozenset(waiting), None, said)


def _missing(
    group: tuple,
    number: int,
    here: dict[int, Call],
    absent: Iterable[int],
    calls: dict[int, dict[int, Call]],
    waiting: set[int],
) -> Verdict:
    absent = frozenset(absent)
    op = next(iter(here.values())).op
    alone = len(here) == 1 and len(absent) > 1 and bool(calls)
    odd = min(here) if alone else min(absent) if len(absent) == 1 else None
    wait = f"{told_ranks(here)} {'waits' if len(here) == 1 else 'wait'} in"
    call = _named(op, number, group)
    if calls:
        said = [f"{told_ranks(absent)} never entered {call}; {wait} it"]
    else:
        said = [f"{told_ranks(absent)} left no dump; {wait} {call}"]
    for rank in sorted(absent):
        last = max(calls.get(rank, {}), default=None)
        if last is not None and calls[rank][last].place:
            call = calls[rank][last]
            said.append(f"rank {rank} was last in {call.op} #{last}, called at {call.place}")
            break
    return Verdict(
        group,
        "alone" if alone and odd == 0 else "missing",
        number,
        op,
        absent,
        frozenset(waiting),
        odd,
        tuple(said),
    )


def _mismatch(
    group: tuple,
    kind: str,
    number: int,
    here: dict[int, Call],
    key: Callable[[Call], str],
    waiting: set[int],
) -> Verdict:
    camps: dict[str, list[int]] = {}
    for rank, call in here.items():
        camps.setdefault(key(call), []).append(rank)
    ordered = sorted(camps.values(), key=lambda ranks: (len(ranks), ranks))
    even = len(ordered[0]) == len(ordered[-1])
    odd = frozenset(here) if even else frozenset(here) - frozenset(ordered[-1])
    calls = [here[ranks[0]] for ranks in ordered[:3]]
    words = [call.op for call in calls]
    if kind == "sizes":
        apart = [len(set(part)) > 1 for part in zip(*[call.sizes for call in calls])]
        at = apart.index(True) if True in apart else 0
        words = [f"{call.op} {''.join(call.sizes[at : at + 1])[:40]}" for call in calls]
    said = ", ".join(f"{told_ranks(ranks)} made {word}" for ranks, word in zip(ordered, words))
    place = here[min(odd)].place
    told = [f"as call #{number} of {_group(group)} {said}"]
    told += [f"rank {min(odd)} made its call at {place}"] if place else []
    one = min(odd) if len(odd) == 1 else None
    op = here[ordered[-1][0]].op
    return Verdict(group, kind, number, op, odd, frozenset(waiting), one, tuple(told))


def _named(op: str, number: int, group: tuple) -> str:
    return f"{op} #{number} of {_group(group)}"


def _group(group: tuple) -> str:
    name, described = group[:2]
    return described if described not in ("", "undefined") else f"group {name}"


def told_ranks(ranks: Iterable[int]) -> str:
    """As in "rank 3" and "ranks 0-2, 5"."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    told = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"rank{'s' if sum(map(len, runs)) > 1 else ''} {', '.join(told[:8])}"
