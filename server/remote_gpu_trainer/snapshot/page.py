"""A snapshot as a page: first what is odd, then the rest in short. Pure."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from ..text.masking import shown
from .frames import format_as_py_spy
from .judge import Standing, compare_ranks, compared_members, find_standings, name_ranks

PAGE_TOKENS = 800.0  # tokens
LINE_WIDTH = 300  # characters of a line
MOST_ODD, MOST_PIDS = 8, 16
LAST_LOG_LINES = 3
FULL_DISK, FEW_INODES = (
    0.02,
    10_000,
)  # a share of a disk, and inodes, below which there is little left
_NO_STACKS = (
    "py-spy on the box's PATH reads them (pip install py-spy); ranks that rgt start begins carry "
    "a fault handler"
)


def estimate_tokens(text: str) -> float:
    """About how many tokens a text has, on the high side."""
    return len(text) / 2.6


def format_page(
    snapshots: list[dict[str, Any]], cost: Callable[[str], float] = estimate_tokens
) -> str:
    """Return the page of a run's snapshots, one for each box, within PAGE_TOKENS tokens.

    Who is odd may take two thirds of it; what there is no room for is in snapshot.json.
    """
    found = find_standings(snapshots)
    several = len(snapshots) > 1
    paper = _Paper(cost)
    paper.add([_headline(snapshots, found), ""], PAGE_TOKENS)
    paper.add(_difference_lines(snapshots, found), PAGE_TOKENS * 2 / 3)
    faults = [f"  {line}" for snapshot in snapshots for line in _faults_of_box(snapshot, several)]
    missing = [f"not answered: {', '.join(sorted(snapshot['missing']))[:160]}"
              for snapshot in snapshots[:2] if snapshot["missing"]]  # fmt: skip
    paper.add([*faults, ""], PAGE_TOKENS * 5 / 6)
    paper.add(
        [*missing, *(line for snapshot in snapshots for line in _rest_of_box(snapshot, several))],
        PAGE_TOKENS - 8,
    )
    return paper.text()


def format_stacks(snapshot: dict[str, Any]) -> str:
    """Return all stacks as py-spy prints them, each under its rank: what a look-up reads."""
    parts = []
    for one in compared_members(snapshot):
        if one["threads"]:
            command = shown(one.get("command") or "python", 200)
            rank = f"rank {one['rank']}\n" if isinstance(one["rank"], int) else ""
            parts.append(rank + format_as_py_spy(one["pid"], command, one["threads"]))
    return "\n".join(parts)


class _Paper:
    """Lines within a number of tokens."""

    def __init__(self, cost: Callable[[str], float]):
        self._cost, self._used, self._left_out = cost, 0.0, 0
        self._lines: list[str] = []

    def add(self, lines: list[str], room: float) -> None:
        """Add lines as long as all of the page takes no more than `room`."""
        for at, line in enumerate(lines):
            indent = " " * (len(line) - len(line.lstrip(" ")))
            cut = indent + shown(line.strip(), LINE_WIDTH)
            price = self._cost(cut) + 1
            if self._used + price > room:
                self._left_out += len(lines) - at
                return
            self._used += price
            self._lines.append(cut)

    def text(self) -> str:
        """Return the page."""
        more = [f"({self._left_out} lines more in snapshot.json)"] if self._left_out else []
        return "\n".join([*self._lines, *more]).rstrip() + "\n"


def _difference_lines(snapshots: list[dict[str, Any]], found: list[Standing]) -> list[str]:
    """Return who differs from the others, and where the others are."""
    first, rest = compare_ranks(found)
    if not found:
        return [_why_no_process(snapshots)]
    if first:
        more = len(first) - MOST_ODD
        lines = [f"  {one.text}" for one in first[:MOST_ODD]]
        lines += [f"  and {more} more groups"] if more > 0 else []
        return ["odd:", *lines, *(f"  the others, {one.text}" for one in rest)]
    where = rest[0].text if rest else ""
    blind = not any(one.get("how") for snapshot in snapshots for one in compared_members(snapshot))
    head = "can't be told without Python stacks" if blind else "no rank differs"
    lines = [f"odd: {head}. {where[:1].upper()}{where[1:]}"]
    return [*lines, f"  {_NO_STACKS}"] if blind else lines


def _headline(snapshots: list[dict[str, Any]], found: list[Standing]) -> str:
    first = snapshots[0]
    run = first["run"]
    what = run.get("name") or (first["folder"] and first["folder"].rpartition("/")[2]) or "no run"
    where = ", ".join(snapshot["host"] for snapshot in snapshots)
    parts = [f"{what} on {where}", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(first["at"]))]
    if first["why"] != "asked":
        parts.append(f"taken by the runner at a {first['why']}")
    alive = sum(one.kind not in ("gone", "dead") for one in found)
    if any(one.rank is not None for one in found):
        parts.append(f"{alive} of {len(found)} ranks there")
    elif found:
        parts.append(f"{alive} process{'es' if alive > 1 else ''}")
    for key, word in (("phase", ""), ("attempt", "attempt "), ("step", "step ")):
        if run.get(key) is not None:
            parts.append(f"{word}{run[key]}")
    return ", ".join(parts)


def _why_no_process(snapshots: list[dict[str, Any]]) -> str:
    first = snapshots[0]
    run, end = first["run"], first["end"]
    if end:
        why = f": {run['class']}, {run['reason']}" if run.get("class") else ""
        return f"no process of it is left; it ended as {end}{why}"
    if first["folder"]:
        return "no Python process of it is here"
    return "nothing trains here: no process has a rank or a card"


def _faults_of_box(snapshot: dict[str, Any], several: bool) -> list[str]:
    """Return what is odd about one box."""
    faults = []
    kernel = snapshot["kernel"]
    if kernel["xids"]:
        last = [line for line in kernel["lines"] if "Xid" in line][-1]
        faults.append(f"Xid {', '.join(map(str, dict.fromkeys(kernel['xids'])))}: {last[:180]}")
    faults += [
        f"kernel: {line[:180]}" for line in kernel["lines"] if _is_about_run(line, snapshot)
    ][-2:]
    memory = snapshot["memory"]
    if memory.get("kills"):
        faults.append(f"memory: the kernel has killed {memory['kills']} in this cgroup")
    used, limit = memory.get("used_mb"), memory.get("limit_mb")
    if used and limit and used > 0.95 * limit:
        faults.append(f"memory: {used} of {limit} MB of the cgroup are used")
    for path, disk in {**snapshot["disks"], "/dev/shm": snapshot["shm"]}.items():
        if disk and (why := _why_little_room(disk)):
            faults.append(f"disk: {path} has {why}")
    for name in sorted(snapshot["missing"]):
        if name.startswith(("disk ", "checkpoint", "output")):
            faults.append(f"{name}: {snapshot['missing'][name]}: its file system may hang")
    faults += _socket_faults(snapshot["sockets"])
    return [f"{snapshot['host']}: {line}" for line in faults] if several else faults


def _is_about_run(line: str, snapshot: dict[str, Any]) -> bool:
    """Return whether a line of the kernel is about this run, or about the machine."""
    if "Xid" in line:
        return False
    if "segfault" not in line and "general protection" not in line:
        return True
    pids = {
        *snapshot["processes"],
        *snapshot["gone"].values(),
        *(z["pid"] for z in snapshot["zombies"]),
    }
    return any(f"[{pid}]" in line for pid in pids)


def _why_little_room(disk: dict[str, Any]) -> str:
    """Return what a disk lacks, '' for nothing."""
    total, free = disk.get("total_mb") or 0, disk.get("free_mb", 0)
    if disk.get("read_only"):
        return "become read-only"
    if total and (free < FULL_DISK * total and free < 20_000):
        return f"{free} of {total} MB free"
    inodes = disk.get("free_inodes")
    return f"{inodes} inodes free" if inodes is not None and inodes < FEW_INODES else ""


def _socket_faults(sockets: list[dict[str, Any]]) -> list[str]:
    """Return who doesn't read what the others send, and whose peer has closed."""
    unread: dict[str, int] = {}
    closed: dict[str, int] = {}
    for one in sockets:
        unread[one["of"]] = unread.get(one["of"], 0) + one["unread"]
        if one["state"] in ("close-wait", "syn-sent"):
            closed[one["of"]] = closed.get(one["of"], 0) + 1
    faults = [f"sockets: {size} bytes wait for {name}, which doesn't read them"
            for name, size in unread.items() if size > 0]  # fmt: skip
    faults += [f"sockets: {count} of {name} whose other end has closed or doesn't answer"
             for name, count in closed.items()]  # fmt: skip
    return faults[:3]


def _rest_of_box(snapshot: dict[str, Any], several: bool) -> list[str]:
    """Return the rest about one box, the most telling first."""
    lines = [f"{snapshot['host']}:"] if several else []
    lines += _log_lines(snapshot)
    checkpoint = snapshot["checkpoint"]
    if checkpoint:
        lines.append(f"checkpoint: {checkpoint['path']}, {_format_span(checkpoint['age'])} old, "
                    f"{checkpoint['mb']} MB")  # fmt: skip
    elif snapshot["run"]:
        lines.append(f"checkpoint: {snapshot['run'].get('checkpoint') or 'none is whole'}")
    lines += _rank_lines(compared_members(snapshot))
    lines += _card_lines(snapshot)
    lines.append(_memory_line(snapshot["memory"]))
    disks = [
        f"{path} {disk['free_mb'] // 1024} GB free" for path, disk in snapshot["disks"].items()
    ]
    lines.append(f"disks: {'; '.join(disks)}" if disks else "")
    lines.append(_socket_line(snapshot["sockets"]))
    lines.append(_recorder_line(snapshot))
    lines += _software_lines(snapshot["software"])
    if "why" in snapshot["kernel"]:
        lines.append(f"kernel: {snapshot['kernel']['why']}")
    if snapshot["others"]:
        lines.append(f"other runs here: {', '.join(snapshot['others'][:4])}")
    return [line for line in lines if line]


def _rank_lines(members: list[dict[str, Any]]) -> list[str]:
    """Return what /proc tells of the members, a line for those that are alike."""
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in members:
        call = (one.get("call") or {}).get("name") or one.get("wchan") or "-"
        alike.setdefault((one.get("state"), call, one.get("how")), []).append(one)
    lines = []
    for (state, call, how), ones in alike.items():
        cpu = _format_range([one.get("cpu", 0) for one in ones])
        memory = max(one.get("rss_mb", 0) for one in ones)
        line = [f"state {state or 'gone'}", call, f"cpu {cpu}", f"{memory} MB"]
        for key, words in (("children", "children"), ("stuck_threads", "threads in state D")):
            counts = [one.get(key) or 0 for one in ones]
            most = max(len(count) if isinstance(count, list) else count for count in counts)
            line += [f"{most} {words}"] if most else []
        line.append(f"stack by {how}" if how else "no stack")
        pids = ", ".join(str(one["pid"]) for one in ones[:MOST_PIDS])
        ranks = sorted(one["rank"] for one in ones if one["rank"] is not None)
        line.append(f"pids {pids}" if ranks else "")
        lines.append(f"{name_ranks(ranks) or f'pids {pids}'}: {', '.join(filter(None, line))}")
    return lines


def _format_range(shares: list[float]) -> str:
    low, high = min(shares), max(shares)
    return f"{low:.0%}" if round(low, 2) == round(high, 2) else f"{low:.0%}-{high:.0%}"


def _log_lines(snapshot: dict[str, Any]) -> list[str]:
    lines = []
    whole = snapshot["log"]
    if whole.get("text"):
        last = _last_lines(whole["text"], LAST_LOG_LINES)
        lines.append(f"log, last line {_format_span(whole.get('age') or 0)} ago:")
        lines += [f"  {line}" for line in last]
    for one in snapshot["ranks"]:
        if one["output"].get("text"):
            last = _last_lines(one["output"]["text"], 1)
            lines.append(
                f"{one['name']} wrote {_format_span(one['output']['age'])} ago: {''.join(last)}"
            )
    return lines


def _last_lines(text: str, count: int) -> list[str]:
    lines = [line for line in re.split(r"[\r\n]+", text) if line.strip()]
    return [shown(line, 150) for line in lines[-count:]]


def _format_span(seconds: float) -> str:
    """Return seconds in short."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _card_lines(snapshot: dict[str, Any]) -> list[str]:
    cards = snapshot["cards"]
    pids = set(snapshot["processes"]) | {one["pid"] for one in snapshot["ranks"]}
    lines = []
    for card in cards["cards"][:8]:
        mine = [app for app in cards.get("apps", []) if app["uuid"] == card["uuid"]]
        ours = sum(app["pid"] in pids for app in mine)
        others = f", {len(mine) - ours} foreign" if len(mine) > ours else ""
        lines.append(
            f"card {card['index']}: {card['name']}, {card['utilization.gpu']} %, "
            f"{card['memory.used']}/{card['memory.total']} MB, {card['power.draw']}/"
            f"{card['power.limit']} W, {card['clocks.sm']}/{card['clocks.max.sm']} MHz, "
            f"{card['temperature.gpu']} C, {ours} processes of this run{others}"
        )
    return lines or [f"cards: {cards.get('why', 'none')}"]


def _memory_line(memory: dict[str, Any]) -> str:
    if not memory:
        return ""
    limit = memory.get("limit_mb")
    own = (
        f", cgroup {memory.get('used_mb')} of {limit or 'unlimited'} MB"
        if "used_mb" in memory
        else ""
    )
    kills = f", {memory['kills']} kills" if "kills" in memory else ""
    free, total = memory.get("MemAvailable", 0), memory.get("MemTotal", 0)
    return f"memory: {free} of {total} MB free{own}{kills}"


def _socket_line(sockets: list[dict[str, Any]]) -> str:
    between = sum(bool(one["to"]) for one in sockets) // 2
    away = sum(not one["to"] for one in sockets)
    return f"sockets: {between} between ranks here, {away} elsewhere" if sockets else ""


def _recorder_line(snapshot: dict[str, Any]) -> str:
    count, left = len(snapshot["files"]), len(snapshot["recorder"]["left_out"])
    more = f", {left} too large to copy" if left else ""
    return f"flight recorder: {count} dumps{more}" if count or left else ""


def _software_lines(software: dict[str, Any]) -> list[str]:
    if not software.get("python"):
        return []
    values = software["variables"]
    wanted = ("NCCL", "TORCH", "PYTORCH", "CUDA", "GLOO", "OMP")
    some = [f"{name}={value}" for name, value in values.items() if name.startswith(wanted)]
    parts = [software["python"], f"driver {software['driver']}" if software["driver"] else ""]
    parts += [f"{name} {version}" for name, version in software["packages"].items()]
    lines = [f"software: {', '.join(filter(None, parts))}"]
    return [*lines, f"variables: {' '.join(some)}"] if some else lines
