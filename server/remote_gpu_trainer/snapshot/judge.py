"""Which rank of a snapshot differs from the others, and how. Pure.

A rank that waits in a collective waits for somebody: it differs only where another one stands
elsewhere. So those outside a collective come first.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable
from typing import Any, NamedTuple

from .frames import Place, find_place, main_frames

BUSY_SHARE = 0.5  # of a core
WAKES_OFTEN = 20  # times a second that a thread wakes up; one that hangs does so hardly ever
WAITING = ("collective", "backward", "joining", "cuda")  # in which ranks wait for each other
_WAITS_FOR = {
    "futex": "a lock", "poll": "a message", "epoll_wait": "a message", "select": "a message",
    "recv": "a message", "recvmsg": "a message", "accept": "a connection", "nanosleep": "a sleep",
    "wait": "a child process", "flock": "a file lock", "fcntl": "a file lock",
    "pause": "a signal", "sigsuspend": "a signal", "sigtimedwait": "a signal",
}  # fmt: skip

_DOING = {"library": "in", "save": "saving,", "worker": "a data loader's worker,", "data": "in"}
# ValueError: shape mismatch in the head
_EXCEPTION = re.compile(r"(?:[a-zA-Z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b.*")


class Standing(NamedTuple):
    """Where one rank stands.

    `kind`: gone, dead, stopped, traced, stuck, leaving, one of frames' kinds, "running" or
    "waiting" where only /proc tells. `said`: the same in words. `key`: what equal ranks share.
    `moves`: a moment later it was elsewhere, or its main thread wakes up often.
    """

    rank: int | None
    name: str
    kind: str
    said: str
    key: tuple[Any, ...]
    moves: bool = False


class Finding(NamedTuple):
    """One line about ranks that stand in the same place. `ranks`: those it is about."""

    ranks: tuple[int, ...]
    text: str


def find_standings(snapshots: list[dict[str, Any]]) -> list[Standing]:
    """Return where each rank of all boxes stands; those that are gone too."""
    standings = []
    for snapshot in snapshots:
        for one in compared_members(snapshot):
            moves = _moves(one) or one.get("wakes", 0) >= WAKES_OFTEN
            standings.append(_describe_member(one, snapshot)._replace(moves=moves))
        standings += _missing_ranks(snapshot, {one.rank for one in standings})
    if len(snapshots) > 1:
        world = max((one["world"] or 0 for s in snapshots for one in s["ranks"]), default=0)
        seen = {one.rank for one in standings}
        for rank in range(min(world, 4096)):
            if rank not in seen:
                said = "on none of these boxes"
                standings.append(Standing(rank, f"rank {rank}", "gone", said, ("gone",)))
    return sorted(standings, key=lambda one: (one.rank is None, one.rank or 0, one.name))


def compared_members(snapshot: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the processes to compare: the ranks, or what one program without ranks has spawned."""
    ranks = snapshot["ranks"]
    if len(ranks) == 1 and ranks[0]["rank"] is None and len(ranks[0]["children"]) > 1:
        place = find_place(main_frames(ranks[0]["threads"]))
        spawned = [one for one in ranks[0]["children"] if not _is_worker(one)]
        if place is not None and place.call in ("join", "wait", "spawn", "start_processes"):
            return [{"rank": None, "name": f"process {one['pid']}", "children": [], **one}
                    for one in spawned]  # fmt: skip
    return ranks


def _is_worker(one: dict[str, Any]) -> bool:
    place = find_place(main_frames(one["threads"]))
    return place is not None and place.kind == "worker"


def _describe_member(one: dict[str, Any], snapshot: dict[str, Any]) -> Standing:
    rank, name = one["rank"], one["name"]
    place = find_place(main_frames(one["threads"]))
    state, where = one.get("state", ""), f" in {place.text()}" if place else ""
    if not state or state in "ZX":
        return Standing(rank, name, "dead", "dead: it ended while it was looked at", ("dead",))
    if one.get("tracer"):
        said = f"held by process {one['tracer']}, a debugger or tracer{where}"
        return Standing(rank, name, "traced", said, ("traced", rank))
    if state in "Tt":
        said = f"stopped by a signal (state T, as SIGSTOP does){where}"
        said += f"; kill -CONT {one['pid']} lets it go on"
        return Standing(rank, name, "stopped", said, ("stopped", rank))
    if state == "D" and one.get("steady", True):
        return Standing(rank, name, "stuck", _describe_stuck(one, place), ("stuck", rank))
    if place is None:
        kind = "running" if is_busy(one) else "waiting"
        said = f"{_describe_use(one)}{_describe_wait(one)}; no Python stack"
        return Standing(rank, name, kind, said, (kind, _call_name(one)))
    if place.kind == "leaving":
        said = f"at its end, in what runs after the program (atexit, threads): {place.text()}"
        said += f": {_describe_use(one)}{_describe_wait(one)}{_last_exception(one, snapshot)}"
        return Standing(rank, name, "leaving", said, ("leaving",))
    if place.kind in WAITING:
        said = f"in {place.text()}"
        if place.kind == "backward":
            said += ", which may hold a collective"
        return Standing(rank, name, place.kind, said, (place.kind, place.call, *place.frame[1:]))
    said = f"{_describe_own_code(one, place)}{_describe_children(one)}"
    return Standing(rank, name, place.kind or "own", said, ("own", place.call, *place.frame[1:]))


def _last_exception(one: dict[str, Any], snapshot: dict[str, Any]) -> str:
    """Return the last exception that a rank wrote, '' where none is known to be its own."""
    own = one["output"].get("text", "")
    head = f"[rank{one['rank']}]:" if not own and len(snapshot["ranks"]) > 1 else ""
    for line in reversed((own or snapshot["log"].get("text", "")).splitlines()):
        if line.startswith(head):
            match = _EXCEPTION.match(line[len(head) :].strip())
            if match:
                return f"; it wrote: {match[0][:160]}"
    return ""


def _describe_own_code(one: dict[str, Any], place: Place) -> str:
    """Return what a rank does outside of a collective."""
    moves = ", the same line a moment later" if one.get("again") else ""
    if _moves(one):
        moves = ", and moves on"
    what = "loading data in own code," if place.loads else "in own code,"
    what = _DOING.get(place.kind, what)
    return f"{what} {place.text()}: {_describe_use(one)}{_describe_wait(one)}{moves}"


def _moves(one: dict[str, Any]) -> bool:
    """Return whether a rank's main thread was elsewhere a moment later."""
    return bool(one.get("again")) and one["again"] != main_frames(one["threads"])


def _describe_use(one: dict[str, Any]) -> str:
    """Return how much of a core a process used."""
    cpu = one.get("cpu", 0)
    if is_busy(one):
        short = ", and wants more" if cpu < BUSY_SHARE else ""
        return f"computes ({cpu:.0%} of a core{short})"
    return "waits" if cpu < 0.05 else f"waits mostly ({cpu:.0%} of a core)"


def is_busy(one: dict[str, Any]) -> bool:
    """Return whether a process computes; on a full machine it may get little of a core."""
    return max(one.get("cpu", 0), one.get("main", 0)) >= BUSY_SHARE


def _call_name(one: dict[str, Any]) -> str:
    return (one.get("call") or {}).get("name", "") or one.get("wchan", "")


def _describe_wait(one: dict[str, Any]) -> str:
    """Return the call in which a waiting process is, as in " for a lock"."""
    if is_busy(one):
        return ""
    call = one.get("call") or {}
    name, file = call.get("name", ""), call.get("file", "")
    if file and name not in ("poll", "epoll_wait", "select"):
        return f" in {name} of {_describe_file(file)}"
    if name in _WAITS_FOR:
        return f" for {_WAITS_FOR[name]}"
    return f" (kernel: {one['wchan']})" if one.get("wchan") else ""


def _describe_file(path: str) -> str:
    if path.startswith("pipe:"):
        return "a pipe"
    return "a socket" if path.startswith("socket:") else path[-120:]


def _describe_stuck(one: dict[str, Any], place: Place | None) -> str:
    where = f", {place.text()}" if place else ""
    kernel = one.get("kernel") or ([one["wchan"]] if one.get("wchan") else [])
    path = (one.get("call") or {}).get("file", "")
    file = f" of {_describe_file(path)}" if path else ""
    said = f"stuck in the kernel (state D, no signal but a kill reaches it){where}"
    name = (one.get("call") or {}).get("name", "")
    said += f", in {name}{file}" if name else ""
    return said + (f" (kernel: {', '.join(kernel[:3])})" if kernel else "")


def _describe_children(one: dict[str, Any]) -> str:
    """Return what differs about a rank's children, '' for nothing."""
    lines = []
    for child in one.get("children", []):
        state = child.get("state", "")
        place = find_place(main_frames(child["threads"]))
        if state in ("T", "t"):
            lines.append(f"its child {child['pid']} is stopped")
        elif state == "D" and child.get("steady", True):
            lines.append(f"its child {child['pid']} is {_describe_stuck(child, place)}")
        elif place is not None and place.kind == "worker":
            own = place.frame
            if os.path.basename(str(own[1])) != "worker.py":
                use = f"{_describe_use(child)}{_describe_wait(child)}"
                lines.append(f"its worker {child['pid']} is in {place.text()}: {use}")
    return "; " + "; ".join(lines[:2]) if lines else ""


def _missing_ranks(snapshot: dict[str, Any], seen: set[int | None]) -> list[Standing]:
    """Return the ranks of a box that aren't there any more."""
    roll = {int(rank): pid for rank, pid in snapshot["gone"].items()}
    ranks = sorted({*snapshot["expected"], *roll} - {rank for rank in seen if rank is not None})
    here = any(one["rank"] is not None for one in snapshot["ranks"])
    if not here:
        return []  # the run has ended, or never came so far
    dead = {one["pid"]: one for one in snapshot["zombies"]}
    nameless = [one for pid, one in dead.items() if pid not in roll.values()]
    standings = []
    for rank in ranks:
        pid = roll.get(rank, 0)
        is_only = not pid and len(ranks) == len(nameless) == 1
        one = dead.get(pid) or (nameless[0] if is_only else None)
        killed = [line for line in snapshot["kernel"]["lines"]
                  if "Killed process" in line and pid and f" {pid} " in line]  # fmt: skip
        said = f"dead: {_describe_end(one['status'])}" if one else "dead: its process is gone"
        said += f" (pid {one['pid'] if one else pid})" if one or pid else ""
        said += "; the kernel killed it for want of memory" if killed else ""
        standings.append(Standing(rank, f"rank {rank}", "dead", said, ("dead", rank)))
    return standings


def _describe_end(status: int) -> str:
    """Return a wait status in words."""
    if status & 127:
        try:
            return f"killed by {signal.Signals(status & 127).name}"
        except ValueError:
            return f"killed by signal {status & 127}"
    return f"ended with exit code {status >> 8}" if status else "ended"


_WORST_FIRST = ("gone", "dead", "stopped", "traced", "stuck", "leaving")


def compare_ranks(standings: list[Standing]) -> tuple[list[Finding], list[Finding]]:
    """Return who differs, the most telling first, and where the others are.

    Nobody does where all ranks move on: they train, each where it happens to be.
    """
    if standings and all(one.moves and one.kind not in _WORST_FIRST for one in standings):
        ranks = tuple(one.rank for one in standings if one.rank is not None)
        return [], [Finding(ranks, f"{name_group(standings)}: all move on, so the run trains")]
    bad = [one for one in standings if one.kind in _WORST_FIRST]
    others = [one for one in standings if one.kind not in _WORST_FIRST]
    bad.sort(key=lambda one: _WORST_FIRST.index(one.kind))
    groups: dict[tuple[Any, ...], list[Standing]] = {}
    for one in others:
        groups.setdefault(one.key, []).append(one)
    ordered = sorted(groups.values(), key=lambda group: (group[0].kind in WAITING, len(group)))
    first = [_describe_group(group) for group in _group_by_words(bad)]
    if len(ordered) == 1:
        rest = ordered
    else:
        waiting = [group for group in ordered if group[0].kind in WAITING]
        largest = max(waiting or ordered, key=len, default=[])
        equal = [c for c in (waiting or ordered) if len(c) == len(largest)]
        # Of groups of equal size nobody can say which one strayed: all are told.
        rest = [] if len(equal) > 1 and not first and len(waiting) == len(ordered) else [largest]
        if not waiting and len(equal) > 1:
            rest = []
    first += [_describe_group(group) for group in ordered if group not in rest]
    return first, [_describe_group(group) for group in rest if group]


def _group_by_words(standings: list[Standing]) -> list[list[Standing]]:
    """Return those with the same words together."""
    same: dict[str, list[Standing]] = {}
    for one in standings:
        same.setdefault(one.said, []).append(one)
    return list(same.values())


def _describe_group(group: list[Standing]) -> Finding:
    ranks = tuple(one.rank for one in group if one.rank is not None)
    return Finding(ranks, f"{name_group(group)}: {group[0].said}")


def name_group(group: list[Standing]) -> str:
    """Return as in "rank 3", "ranks 0-2, 5" or "process 4121"."""
    ranks = sorted(one.rank for one in group if one.rank is not None)
    if len(ranks) < len(group):
        return ", ".join(one.name for one in group[:6])
    return name_ranks(ranks)


def name_ranks(ranks: list[int]) -> str:
    """Return sorted ranks in words, '' for none."""
    return f"rank{'s' if len(ranks) > 1 else ''} {join_numbers(ranks)}" if ranks else ""


def join_numbers(numbers: Iterable[int]) -> str:
    """Return numbers in short, as in "0-2, 5"."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)
