"""Read what a launcher says when a rank has failed: its summary, its frames, whom it ended.

torchrun, accelerate and deepspeed say the same under every failure, so their words explain none.
An exit code does, unless it is 1. torchrun's summary tells how each rank ended, and which failure
it observed first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .lines import Line

TERM = -15  # by SIGTERM: the launcher ended it
ABORT = -6  # by SIGABRT
KILL = -9  # by SIGKILL
_CHILD = re.compile(
    r"CalledProcessError: Command '\[?'?\S{0,200}"
    r"(?:python[\d.]*|torchrun|accelerate|deepspeed)'(?!.{0,8}-m', 'pip')"
)
_SAYS = (
    "torch.distributed.elastic",
    "ChildFailedError",
    "torch/distributed/",
    "sigkill_handler",
    "torchrun",
    "exits with return code",
    "CalledProcessError",
    "exitcode",
)
_OF_SUMMARY = ("root cause", "ended rank", "ended code", "ended signal", "forced")
_FIELDS = ("time", "host", "rank", "error_file")


@dataclass(frozen=True)
class Summary:
    """`ended`: {rank: (exit code, the line that names it)}; `root`: the rank that failed first.

    `stuck`: the ranks that SIGTERM didn't end, so that the launcher killed them. `blocks`: {rank:
    the lines about it}.
    """

    ended: dict[int, tuple[int | None, Line]]
    root: int | None
    stuck: frozenset[int]
    blocks: dict[int, list[Line]]


def summary_of(lines: list[Line]) -> Summary:
    """Return what torchrun's summary says about the ranks; an empty one where there is none."""
    ended: dict[int, tuple[int | None, Line]] = {}
    root, rank, in_root = None, None, False
    forced, pids, blocks, block = set(), {}, {}, []
    for line in lines:
        if not line.says(*_OF_SUMMARY):
            continue
        in_root = in_root or line.sign("root cause") is not None
        if found := line.sign("ended rank"):
            rank = int(found[0])
            ended[rank] = (None, line)
            blocks[rank] = block = [line]
            if in_root and root is None:
                root = rank
        elif rank is not None and (found := line.sign("ended code")):
            ended[rank] = (int(found[0]), ended[rank][1])
            pids[rank] = found[1]
            rank = None
            block.append(line)
        elif block and line.sign("ended signal"):
            block.append(line)
        elif found := line.sign("forced"):
            forced.add(found[0])
    stuck = {rank for rank, pid in pids.items() if ended[rank][0] == KILL and pid in forced}
    return Summary(ended, root, frozenset(stuck), blocks)


def launcher_talk(lines: list[Line]) -> dict[tuple[str, int], str]:
    """Return {(source, line number): what the line tells, mostly ""} for each line of a launcher.

    Empty for a report without one.
    """
    if not any(word in line.text for line in lines for word in _SAYS):
        return {}
    found: dict[tuple[str, int], str] = {}
    inside = False  # the last frame was the launcher's, and so is the line of code under it
    summary = False
    for line in lines:
        if line.kind == "frame":
            inside = line.says("own frame") if line.says("frame") else inside
            if inside:
                found[line.source, line.number] = ""
            continue
        inside = False
        code = line.sign("exit code")
        if code and ("CalledProcess" not in line.text or _CHILD.search(line.text)):
            told = next(group for group in code if group)
            found[line.source, line.number] = "" if told == "1" else f"exit code {told}"
        elif line.says("no cause", "field", "rule") and (
            summary or not line.text.lstrip().startswith(_FIELDS)
        ):
            found[line.source, line.number] = ""
        summary = summary or "ChildFailedError" in line.text or "Root Cause" in line.text
    return found
