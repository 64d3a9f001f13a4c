"""What is odd in a scene: which rank differs from the others, and how. Pure.

A rank that waits in a collective waits for somebody: it is odd only where another one stands
elsewhere. So those outside a collective come first.
"""

from __future__ import annotations

import os
import re
import signal
from typing import Any, Iterable, NamedTuple

from .frames import Place, main_frames, place_of

BUSY = 0.5  # of a core
OFTEN = 20  # times a second that a thread wakes up; one that hangs does so hardly ever
WAITING = ("collective", "backward", "joining", "cuda")  # in which ranks wait for each other
_WORDS = {
    "futex": "a lock", "poll": "a message", "epoll_wait": "a message", "select": "a message",
    "recv": "a message", "recvmsg": "a message", "accept": "a connection", "nanosleep": "a sleep",
    "wait": "a child process", "flock": "a file lock", "fcntl": "a file lock",
    "pause": "a signal", "sigsuspend": "a signal", "sigtimedwait": "a signal",
}  # fmt: skip

_DOING = {"library": "in", "save": "saving,", "worker": "a data loader's worker,", "data": "in"}
# ValueError: shape mismatch in the head
_RAISED = re.compile(r"(?:[a-zA-Z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b.*")


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
    """One line of what is odd. `ranks`: those it is about."""

    ranks: tuple[int, ...]
    text: str


def standings(scenes: list[dict[str, Any]]) -> list[Standing]:
    """Return where each rank of all boxes stands; those that are gone too."""
    found = []
    for scene in scenes:
        for one in members_of(scene):
            moves = _moves(one) or one.get("wakes", 0) >= OFTEN
            found.append(_standing(one, scene)._replace(moves=moves))
        found += _missing(scene, {one.rank for one in found})
    if len(scenes) > 1:
        world = max((one["world"] or 0 for s in scenes for one in s["ranks"]), default=0)
        seen = {one.rank for one in found}
        for rank in range(min(world, 4096)):
            if rank not in seen:
                said = "on none of these boxes"
                found.append(Standing(rank, f"rank {rank}", "gone", said, ("gone",)))
    return sorted(found, key=lambda one: (one.rank is None, one.rank or 0, one.name))


def members_of(scene: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the processes to compare: the ranks, or what one program without ranks has spawned."""
    ranks = scene["ranks"]
    if len(ranks) == 1 and ranks[0]["rank"] is None and len(ranks[0]["children"]) > 1:
        place = place_of(main_frames(ranks[0]["threads"]))
        spawned = [one for one in ranks[0]["children"] if not _is_worker(one)]
        if place is not None and place.call in ("join", "wait", "spawn", "start_processes"):
            return [{"rank": None, "name": f"process {one['pid']}", "children": [], **one}
                    for one in spawned]  # fmt: skip
    return ranks


def _is_worker(one: dict[str, Any]) -> bool:
    place = place_of(main_frames(one["threads"]))
    return place is not None and place.kind == "worker"


def _standing(one: dict[str, Any], scene: dict[str, Any]) -> Standing:
    rank, name = one["rank"], one["name"]
    place = place_of(main_frames(one["threads"]))
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
        return Standing(rank, name, "stuck", _stuck(one, place), ("stuck", rank))
    if place is None:
        kind = "running" if is_busy(one) else "waiting"
        said = f"{_use(one)}{_wait_said(one)}; no Python stack"
        return Standing(rank, name, kind, said, (kind, _call_name(one)))
    if place.kind == "leaving":
        said = f"at its end, in what runs after the program (atexit, threads): {place.text()}"
        said += f": {_use(one)}{_wait_said(one)}{_last_words(one, scene)}"
        return Standing(rank, name, "leaving", said, ("leaving",))
    if place.kind in WAITING:
        said = f"in {place.text()}"
        if place.kind == "backward":
            said += ", which may hold a collective"
        return Standing(rank, name, place.kind, said, (place.kind, place.call, *place.frame[1:]))
    said = f"{_doing(one, place)}{_workers_said(one)}"
    return Standing(rank, name, place.kind or "own", said, ("own", place.call, *place.frame[1:]))


def _last_words(one: dict[str, Any], scene: dict[str, Any]) -> str:
    """Return the last exception that a rank wrote, '' where none is known to be its own."""
    own = one["output"].get("text", "")
    head = f"[rank{one['rank']}]:" if not own and len(scene["ranks"]) > 1 else ""
    for line in reversed((own or scene["log"].get("text", "")).splitlines()):
        if line.startswith(head):
            found = _RAISED.match(line[len(head) :].strip())
            if found:
                return f"; it wrote: {found[0][:160]}"
    return ""


def _doing(one: dict[str, Any], place: Place) -> str:
    """Return what a rank does outside of a collective."""
    moves = ", the same line a moment later" if one.get("again") else ""
    if _moves(one):
        moves = ", and moves on"
    what = "loading data in own code," if place.loads else "in own code,"
    what = _DOING.get(place.kind, what)
    return f"{what} {place.text()}: {_use(one)}{_wait_said(one)}{moves}"


def _moves(one: dict[str, Any]) -> bool:
    """Return whether a rank's main thread was elsewhere a moment later."""
    return bool(one.get("again")) and one["again"] != main_frames(one["threads"])


def _use(one: dict[str, Any]) -> str:
    """Return how much of a core a process used."""
    cpu = one.get("cpu", 0)
    if is_busy(one):
        short = ", and wants more" if cpu < BUSY else ""
        return f"computes ({cpu:.0%} of a core{short})"
    return "waits" if cpu < 0.05 else f"waits mostly ({cpu:.0%} of a core)"


def is_busy(one: dict[str, Any]) -> bool:
    """Return whether a process computes; on a full machine it may get little of a core."""
    return max(one.get("cpu", 0), one.get("main", 0)) >= BUSY


def _call_name(one: dict[str, Any]) -> str:
    return (one.get("call") or {}).get("name", "") or one.get("wchan", "")


def _wait_said(one: dict[str, Any]) -> str:
    """Return the call in which a waiting process is, as in " for a lock"."""
    if is_busy(one):
        return ""
    call = one.get("call") or {}
    name, file = call.get("name", ""), call.get("file", "")
    if file and name not in ("poll", "epoll_wait", "select"):
        return f" in {name} of {_shown_file(file)}"
    if name in _WORDS:
        return f" for {_WORDS[name]}"
    return f" (kernel: {one['wchan']})" if one.get("wchan") else ""


def _shown_file(path: str) -> str:
    if path.startswith("pipe:"):
        return "a pipe"
    return "a socket" if path.startswith("socket:") else path[-120:]


def _stuck(one: dict[str, Any], place: Place | None) -> str:
    where = f", {place.text()}" if place else ""
    kernel = one.get("kernel") or ([one["wchan"]] if one.get("wchan") else [])
    path = (one.get("call") or {}).get("file", "")
    file = f" of {_shown_file(path)}" if path else ""
    said = f"stuck in the kernel (state D, no signal but a kill reaches it){where}"
    name = (one.get("call") or {}).get("name", "")
    said += f", in {name}{file}" if name else ""
    return said + (f" (kernel: {', '.join(kernel[:3])})" if kernel else "")


def _workers_said(one: dict[str, Any]) -> str:
    """Return what is odd about a rank's children, '' for nothing."""
    told = []
    for child in one.get("children", []):
        state = child.get("state", "")
        place = place_of(main_frames(child["threads"]))
        if state in ("T", "t"):
            told.append(f"its child {child['pid']} is stopped")
        elif state == "D" and child.get("steady", True):
            told.append(f"its child {child['pid']} is {_stuck(child, place)}")
        elif place is not None and place.kind == "worker":
            own = place.frame
            if os.path.basename(str(own[1])) != "worker.py":
                use = f"{_use(child)}{_wait_said(child)}"
                told.append(f"its worker {child['pid']} is in {place.text()}: {use}")
    return "; " + "; ".join(told[:2]) if told else ""


def _missing(scene: dict[str, Any], seen: set[int | None]) -> list[Standing]:
    """Return the ranks of a box that aren't there any more."""
    roll = {int(rank): pid for rank, pid in scene["gone"].items()}
    ranks = sorted({*scene["expected"], *roll} - {rank for rank in seen if rank is not None})
    here = any(one["rank"] is not None for one in scene["ranks"])
    if not here:
        return []  # the run has ended, or never came so far
    dead = {one["pid"]: one for one in scene["zombies"]}
    nameless = [one for pid, one in dead.items() if pid not in roll.values()]
    found = []
    for rank in ranks:
        pid = roll.get(rank, 0)
        one = dead.get(pid) or (nameless[0] if len(ranks) == len(nameless) == 1 else None)
        killed = [line for line in scene["kernel"]["lines"]
                  if "Killed process" in line and pid and f" {pid} " in line]  # fmt: skip
        said = f"dead: {_ended(one['status'])}" if one else "dead: its process is gone"
        said += f" (pid {one['pid'] if one else pid})" if one or pid else ""
        said += "; the kernel killed it for want of memory" if killed else ""
        found.append(Standing(rank, f"rank {rank}", "dead", said, ("dead", rank)))
    return found


def _ended(status: int) -> str:
    """Return a wait status in words."""
    if status & 127:
        try:
            return f"killed by {signal.Signals(status & 127).name}"
        except ValueError:
            return f"killed by signal {status & 127}"
    return f"ended with exit code {status >> 8}" if status else "ended"


_BAD = ("gone", "dead", "stopped", "traced", "stuck", "leaving")


def odd(found: list[Standing]) -> tuple[list[Finding], list[Finding]]:
    """Return who differs, the most telling first, and where the others are.

    Nobody does where all ranks move on: they train, each where it happens to be.
    """
    if found and all(one.moves and one.kind not in _BAD for one in found):
        ranks = tuple(one.rank for one in found if one.rank is not None)
        return [], [Finding(ranks, f"{who(found)}: all move on, so the run trains")]
    bad = [one for one in found if one.kind in _BAD]
    others = [one for one in found if one.kind not in _BAD]
    bad.sort(key=lambda one: _BAD.index(one.kind))
    camps: dict[tuple[Any, ...], list[Standing]] = {}
    for one in others:
        camps.setdefault(one.key, []).append(one)
    ordered = sorted(camps.values(), key=lambda camp: (camp[0].kind in WAITING, len(camp)))
    first = [_finding(camp) for camp in _together(bad)]
    if len(ordered) == 1:
        rest = ordered
    else:
        waiting = [camp for camp in ordered if camp[0].kind in WAITING]
        largest = max(waiting or ordered, key=len, default=[])
        equal = [c for c in (waiting or ordered) if len(c) == len(largest)]
        # Of camps of equal size nobody can say which one strayed: all are told.
        rest = [] if len(equal) > 1 and not first and len(waiting) == len(ordered) else [largest]
        if not waiting and len(equal) > 1:
            rest = []
    first += [_finding(camp) for camp in ordered if camp not in rest]
    return first, [_finding(camp) for camp in rest if camp]


def _together(found: list[Standing]) -> list[list[Standing]]:
    """Return those with the same words together."""
    same: dict[str, list[Standing]] = {}
    for one in found:
        same.setdefault(one.said, []).append(one)
    return list(same.values())


def _finding(camp: list[Standing]) -> Finding:
    ranks = tuple(one.rank for one in camp if one.rank is not None)
    return Finding(ranks, f"{who(camp)}: {camp[0].said}")


def who(camp: list[Standing]) -> str:
    """Return as in "rank 3", "ranks 0-2, 5" or "process 4121"."""
    ranks = sorted(one.rank for one in camp if one.rank is not None)
    if len(ranks) < len(camp):
        return ", ".join(one.name for one in camp[:6])
    return named(ranks)


def named(ranks: list[int]) -> str:
    """Return sorted ranks in words, '' for none."""
    return f"rank{'s' if len(ranks) > 1 else ''} {spans(ranks)}" if ranks else ""


def spans(numbers: Iterable[int]) -> str:
    """Return numbers in short, as in "0-2, 5"."""
    told: list[list[int]] = []
    for number in numbers:
        if told and told[-1][1] == number - 1:
            told[-1][1] = number
        else:
            told.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in told)
