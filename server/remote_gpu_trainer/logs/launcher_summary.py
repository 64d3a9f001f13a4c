"""Read torchrun's summary: how each rank ended, and which failure it observed first."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .lines import Line

ROOT_CAUSE = "Root Cause (first observed failure)"
_SUMMARY_RANK = re.compile(r"\s*rank\s*:\s*(\d{1,5})\b")
_SUMMARY_CODE = re.compile(r"\s*exitcode\s*:\s*(-?\d{1,5})\b(?: \(pid: (\d{1,9})\))?")
_SIGNAL = re.compile(r"\s*traceback\s*:\s*Signal \d")
_FORCED = re.compile(r"Unable to shutdown process (\d{1,9}) via .{1,40} forcefully exiting")
TERM = -15  # by SIGTERM: the launcher ended it
ABORT = -6  # by SIGABRT
KILL = -9  # by SIGKILL


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
        if ROOT_CAUSE in line.text:
            in_root = True
        found = _SUMMARY_RANK.match(line.text) if "rank" in line.text else None
        if found:
            rank = int(found[1])
            ended[rank] = (None, line)
            blocks[rank] = block = [line]
            if in_root and root is None:
                root = rank
            continue
        found = _SUMMARY_CODE.match(line.text) if "exitcode" in line.text else None
        if found and rank is not None:
            ended[rank] = (int(found[1]), ended[rank][1])
            pids[rank] = found[2]
            rank = None
            block.append(line)
        elif "Signal" in line.text and block and _SIGNAL.match(line.text):
            block.append(line)
        elif "forcefully" in line.text and (found := _FORCED.search(line.text)):
            forced.add(found[1])
    stuck = {rank for rank, pid in pids.items() if ended[rank][0] == KILL and pid in forced}
    return Summary(ended, root, frozenset(stuck), blocks)
