"""Read what torchrun, accelerate and deepspeed say under every failure.

A summary, their frames, whom they ended: so their words explain no failure. An exit code does,
unless it is 1. torchrun's summary tells how each rank ended, and which failure it observed first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .kinds import FRAME
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
    """What torchrun's summary says of the ranks.

    `ended` is {rank: (its exit code, the line that names it)}; the code is None where the summary
    was cut. `root` is the rank that failed first. `stuck` are the ranks that SIGTERM didn't end, so
    that the launcher killed them. `blocks` is {rank: the lines about it}.
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
        if not line.signs or not line.says(*_OF_SUMMARY):
            continue
        in_root = in_root or line.sign("root cause") is not None
        if groups := line.sign("ended rank"):
            rank = int(groups[0])
            ended[rank] = (None, line)
            blocks[rank] = block = [line]
            if in_root and root is None:
                root = rank
        elif rank is not None and (groups := line.sign("ended code")):
            ended[rank] = (int(groups[0]), ended[rank][1])
            pids[rank] = groups[1]
            rank = None
            block.append(line)
        elif block and line.sign("ended signal"):
            block.append(line)
        elif groups := line.sign("forced"):
            forced.add(groups[0])
    if not in_root:  # a dump of arguments may hold a rank too
        ended = {rank: end for rank, end in ended.items() if end[0] is not None}
        blocks = {rank: block for rank, block in blocks.items() if rank in ended}
    killed = {rank for rank, (code, _) in ended.items() if code == KILL}
    stuck = {rank for rank in killed if pids[rank] in forced}
    return Summary(ended, root, frozenset(stuck), blocks)


def launcher_talk(lines: list[Line]) -> dict[tuple[str, int], str]:
    """Return {(source, number): what it tells} for each line that a launcher wrote.

    That is "exit code 137" or the like, and "" for all other lines: torchrun says them under every
    failure. Empty for a report without a launcher.
    """
    whole = "\n".join([line.text for line in lines])
    if not any(word in whole for word in _SAYS):
        return {}
    talk: dict[tuple[str, int], str] = {}
    inside = False  # the last frame was the launcher's, and so is the line of code under it
    summary = False
    for line in lines:
        if line.kind == FRAME:
            inside = line.says("own frame") if line.says("frame") else inside
            if inside:
                talk[line.source, line.number] = ""
            continue
        inside = False
        code = line.sign("exit code")
        if code and ("CalledProcess" not in line.text or _CHILD.search(line.text)):
            number = next(group for group in code if group)
            # Python ends with 1 after any exception.
            talk[line.source, line.number] = "" if number == "1" else f"exit code {number}"
        elif line.says("no cause", "field", "rule") and (
            summary or not line.text.lstrip().startswith(_FIELDS)
        ):
            talk[line.source, line.number] = ""
        summary = summary or "ChildFailedError" in line.text or "Root Cause" in line.text
    return talk
