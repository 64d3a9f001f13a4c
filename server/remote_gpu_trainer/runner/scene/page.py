"""A scene as a page: first what is odd, then the rest in short. Pure."""

from __future__ import annotations

import re
import time
from typing import Any, Callable

from ...text.masking import shown
from . import judge

ROOM = 800.0  # tokens
WIDTH = 300  # characters of a line
MOST_ODD, MOST_PIDS = 8, 16
LOG_LINES = 3
FULL, FEW_INODES = 0.02, 10_000  # a share of a disk, and inodes, below which there is little left
_NO_STACKS = (
    "py-spy on the box's PATH reads them (pip install py-spy); ranks that rgt start begins carry "
    "a fault handler"
)


def cost_of(text: str) -> float:
    """About how many tokens a text has, on the high side."""
    return len(text) / 2.6


def page(scenes: list[dict[str, Any]], cost: Callable[[str], float] = cost_of) -> str:
    """Return the page of a run's scenes, one for each box, within ROOM tokens.

    Who is odd may take two thirds of it; what there is no room for is in scene.json.
    """
    found = judge.standings(scenes)
    several = len(scenes) > 1
    paper = _Paper(cost)
    paper.add([_head(scenes, found), ""], ROOM)
    paper.add(_who_is_odd(scenes, found), ROOM * 2 / 3)
    told = [f"  {line}" for scene in scenes for line in _odd_of_box(scene, several)]
    silent = [f"not answered: {', '.join(sorted(scene['silent']))[:160]}"
              for scene in scenes[:2] if scene["silent"]]  # fmt: skip
    paper.add([*told, ""], ROOM * 5 / 6)
    paper.add([*silent, *(line for scene in scenes for line in _rest(scene, several))], ROOM - 8)
    return paper.text()


class _Paper:
    """Lines within a number of tokens."""

    def __init__(self, cost: Callable[[str], float]):
        self._cost, self._used, self._left_out = cost, 0.0, 0
        self._lines: list[str] = []

    def add(self, lines: list[str], room: float) -> None:
        """Add lines as long as all of the page takes no more than `room`."""
        for at, line in enumerate(lines):
            indent = " " * (len(line) - len(line.lstrip(" ")))
            cut = indent + shown(line.strip(), WIDTH)
            price = self._cost(cut) + 1
            if self._used + price > room:
                self._left_out += len(lines) - at
                return
            self._used += price
            self._lines.append(cut)

    def text(self) -> str:
        """Return the page."""
        more = [f"({self._left_out} lines more in scene.json)"] if self._left_out else []
        return "\n".join([*self._lines, *more]).rstrip() + "\n"


def _who_is_odd(scenes: list[dict[str, Any]], found: list[judge.Standing]) -> list[str]:
    """Return who differs from the others, and where the others are."""
    first, rest = judge.odd(found)
    if not found:
        return [_no_process(scenes)]
    if first:
        more = len(first) - MOST_ODD
        lines = [f"  {one.text}" for one in first[:MOST_ODD]]
        lines += [f"  and {more} more groups"] if more > 0 else []
        return ["odd:", *lines, *(f"  the others, {one.text}" for one in rest)]
    told = rest[0].text if rest else ""
    blind = not any(one.get("how") for scene in scenes for one in judge.members_of(scene))
    head = "can't be told without Python stacks" if blind else "no rank differs"
    lines = [f"odd: {head}. {told[:1].upper()}{told[1:]}"]
    return [*lines, f"  {_NO_STACKS}"] if blind else lines


def _head(scenes: list[dict[str, Any]], found: list[judge.Standing]) -> str:
    first = scenes[0]
    run = first["run"]
    what = run.get("name") or (first["folder"] and first["folder"].rpartition("/")[2]) or "no run"
    where = ", ".join(scene["host"] for scene in scenes)
    told = [f"{what} on {where}", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(first["at"]))]
    if first["why"] != "asked":
        told.append(f"taken by the runner at a {first['why']}")
    alive = sum(one.kind not in ("gone", "dead") for one in found)
    if any(one.rank is not None for one in found):
        told.append(f"{alive} of {len(found)} ranks there")
    elif found:
        told.append(f"{alive} process{'es' if alive > 1 else ''}")
    for key, word in (("phase", ""), ("attempt", "attempt "), ("step", "step ")):
        if run.get(key) is not None:
            told.append(f"{word}{run[key]}")
    return ", ".join(told)


def _no_process(scenes: list[dict[str, Any]]) -> str:
    first = scenes[0]
    run, end = first["run"], first["end"]
    if end:
        why = f": {run['class']}, {run['reason']}" if run.get("class") else ""
        return f"no process of it is left; it ended as {end}{why}"
    if first["folder"]:
        return "no Python process of it is here"
    return "nothing trains here: no process has a rank or a card"


def _odd_of_box(scene: dict[str, Any], several: bool) -> list[str]:
    """Return what is odd about one box."""
    told = []
    kernel = scene["kernel"]
    if kernel["xids"]:
        last = [line for line in kernel["lines"] if "Xid" in line][-1]
        told.append(f"Xid {', '.join(map(str, dict.fromkeys(kernel['xids'])))}: {last[:180]}")
    told += [f"kernel: {line[:180]}" for line in kernel["lines"] if _is_of_run(line, scene)][-2:]
    memory = scene["memory"]
    if memory.get("kills"):
        told.append(f"memory: the kernel has killed {memory['kills']} in this cgroup")
    used, limit = memory.get("used_mb"), memory.get("limit_mb")
    if used and limit and used > 0.95 * limit:
        told.append(f"memory: {used} of {limit} MB of the cgroup are used")
    for path, disk in {**scene["disks"], "/dev/shm": scene["shm"]}.items():
        if disk and (why := _little(disk)):
            told.append(f"disk: {path} has {why}")
    for name in sorted(scene["silent"]):
        if name.startswith(("disk ", "checkpoint", "output")):
            told.append(f"{name}: {scene['silent'][name]}: its file system may hang")
    told += _odd_sockets(scene["sockets"])
    return [f"{scene['host']}: {line}" for line in told] if several else told


def _is_of_run(line: str, scene: dict[str, Any]) -> bool:
    """Return whether a line of the kernel is about this run, or about the machine."""
    if "Xid" in line:
        return False
    if "segfault" not in line and "general protection" not in line:
        return True
    pids = {*scene["processes"], *scene["gone"].values(), *(z["pid"] for z in scene["zombies"])}
    return any(f"[{pid}]" in line for pid in pids)


def _little(disk: dict[str, Any]) -> str:
    """Return what a disk lacks, '' for nothing."""
    total, free = disk.get("total_mb") or 0, disk.get("free_mb", 0)
    if disk.get("read_only"):
        return "become read-only"
    if total and (free < FULL * total and free < 20_000):
        return f"{free} of {total} MB free"
    inodes = disk.get("free_inodes")
    return f"{inodes} inodes free" if inodes is not None and inodes < FEW_INODES else ""


def _odd_sockets(sockets: list[dict[str, Any]]) -> list[str]:
    """Return who doesn't read what the others send, and whose peer has closed."""
    unread: dict[str, int] = {}
    closed: dict[str, int] = {}
    for one in sockets:
        unread[one["of"]] = unread.get(one["of"], 0) + one["unread"]
        if one["state"] in ("close-wait", "syn-sent"):
            closed[one["of"]] = closed.get(one["of"], 0) + 1
    told = [f"sockets: {size} bytes wait for {name}, which doesn't read them"
            for name, size in unread.items() if size > 0]  # fmt: skip
    told += [f"sockets: {count} of {name} whose other end has closed or doesn't answer"
             for name, count in closed.items()]  # fmt: skip
    return told[:3]


def _rest(scene: dict[str, Any], several: bool) -> list[str]:
    """Return the rest about one box, the most telling first."""
    told = [f"{scene['host']}:"] if several else []
    told += _log(scene)
    checkpoint = scene["checkpoint"]
    if checkpoint:
        told.append(f"checkpoint: {checkpoint['path']}, {_span(checkpoint['age'])} old, "
                    f"{checkpoint['mb']} MB")  # fmt: skip
    elif scene["run"]:
        told.append(f"checkpoint: {scene['run'].get('checkpoint') or 'none is whole'}")
    told += _rank_lines(judge.members_of(scene))
    told += _cards(scene)
    told.append(_memory(scene["memory"]))
    disks = [f"{path} {disk['free_mb'] // 1024} GB free" for path, disk in scene["disks"].items()]
    told.append(f"disks: {'; '.join(disks)}" if disks else "")
    told.append(_sockets(scene["sockets"]))
    told.append(_recorder(scene))
    told += _software(scene["software"])
    if "why" in scene["kernel"]:
        told.append(f"kernel: {scene['kernel']['why']}")
    if scene["others"]:
        told.append(f"other runs here: {', '.join(scene['others'][:4])}")
    return [line for line in told if line]


def _rank_lines(members: list[dict[str, Any]]) -> list[str]:
    """Return what /proc tells of the members, a line for those that are alike."""
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in members:
        call = (one.get("call") or {}).get("name") or one.get("wchan") or "-"
        alike.setdefault((one.get("state"), call, one.get("how")), []).append(one)
    told = []
    for (state, call, how), ones in alike.items():
        line = [f"state {state or 'gone'}", call, f"cpu {_range([x.get('cpu', 0) for x in ones])}",
                f"{max(one.get('rss_mb', 0) for one in ones)} MB"]  # fmt: skip
        for key, words in (("children", "children"), ("stuck_threads", "threads in state D")):
            counts = [one.get(key) or 0 for one in ones]
            most = max(len(count) if isinstance(count, list) else count for count in counts)
            line += [f"{most} {words}"] if most else []
        line.append(f"stack by {how}" if how else "no stack")
        pids = ", ".join(str(one["pid"]) for one in ones[:MOST_PIDS])
        ranks = sorted(one["rank"] for one in ones if one["rank"] is not None)
        line.append(f"pids {pids}" if ranks else "")
        told.append(f"{judge.named(ranks) or f'pids {pids}'}: {', '.join(filter(None, line))}")
    return told


def _range(shares: list[float]) -> str:
    low, high = min(shares), max(shares)
    return f"{low:.0%}" if round(low, 2) == round(high, 2) else f"{low:.0%}-{high:.0%}"


def _log(scene: dict[str, Any]) -> list[str]:
    told = []
    whole = scene["log"]
    if whole.get("text"):
        lines = _last(whole["text"], LOG_LINES)
        told.append(f"log, last line {_span(whole.get('age') or 0)} ago:")
        told += [f"  {line}" for line in lines]
    for one in scene["ranks"]:
        if one["output"].get("text"):
            last = _last(one["output"]["text"], 1)
            told.append(f"{one['name']} wrote {_span(one['output']['age'])} ago: {''.join(last)}")
    return told


def _last(text: str, count: int) -> list[str]:
    lines = [line for line in re.split(r"[\r\n]+", text) if line.strip()]
    return [shown(line, 150) for line in lines[-count:]]


def _span(seconds: float) -> str:
    """Return seconds in short."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _cards(scene: dict[str, Any]) -> list[str]:
    told = scene["cards"]
    pids = set(scene["processes"]) | {one["pid"] for one in scene["ranks"]}
    lines = []
    for card in told["cards"][:8]:
        mine = [app for app in told.get("apps", []) if app["uuid"] == card["uuid"]]
        ours = sum(app["pid"] in pids for app in mine)
        others = f", {len(mine) - ours} foreign" if len(mine) > ours else ""
        lines.append(
            f"card {card['index']}: {card['name']}, {card['utilization.gpu']} %, "
            f"{card['memory.used']}/{card['memory.total']} MB, {card['power.draw']}/"
            f"{card['power.limit']} W, {card['clocks.sm']}/{card['clocks.max.sm']} MHz, "
            f"{card['temperature.gpu']} C, {ours} processes of this run{others}"
        )
    return lines or [f"cards: {told.get('why', 'none')}"]


def _memory(memory: dict[str, Any]) -> str:
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


def _sockets(sockets: list[dict[str, Any]]) -> str:
    between = sum(bool(one["to"]) for one in sockets) // 2
    away = sum(not one["to"] for one in sockets)
    return f"sockets: {between} between ranks here, {away} elsewhere" if sockets else ""


def _recorder(scene: dict[str, Any]) -> str:
    count, left = len(scene["files"]), len(scene["recorder"]["left_out"])
    more = f", {left} too large to copy" if left else ""
    return f"flight recorder: {count} dumps{more}" if count or left else ""


def _software(told: dict[str, Any]) -> list[str]:
    if not told.get("python"):
        return []
    values = told["variables"]
    wanted = ("NCCL", "TORCH", "PYTORCH", "CUDA", "GLOO", "OMP")
    some = [f"{name}={value}" for name, value in values.items() if name.startswith(wanted)]
    parts = [told["python"], f"driver {told['driver']}" if told["driver"] else ""]
    parts += [f"{name} {version}" for name, version in told["packages"].items()]
    lines = [f"software: {', '.join(filter(None, parts))}"]
    return [*lines, f"variables: {' '.join(some)}"] if some else lines
