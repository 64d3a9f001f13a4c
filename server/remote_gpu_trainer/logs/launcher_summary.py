"""What torchrun says at the end: how each rank ended, and which one it saw first."""

from __future__ import annotations

import re

from ..text.records import record
from .lines import Line

ROOT_CAUSE = "Root Cause (first observed failure)"
_SUMMARY_RANK = re.compile(r"\s*rank\s*:\s*(\d{1,5})\b")
_SUMMARY_CODE = re.compile(r"\s*exitcode\s*:\s*(-?\d{1,5})\b")
TERM = -15  # the launcher ended it
ABORT = -6


@record
class Summary:
    """What a launcher says at the end: {rank: (exit code, the line that names it)}, and the rank that it saw first."""

    ended: dict[int, tuple[int | None, Line]]
    root: int | None


def summary_of(lines: list[Line]) -> Summary:
    """What torchrun says at the end about the ranks; empty where it says nothing."""
    ended: dict[int, tuple[int | None, Line]] = {}
    root, rank, in_root = None, None, False
    for line in lines:
        if ROOT_CAUSE in line.text:
            in_root = True
        found = _SUMMARY_RANK.match(line.text) if "rank" in line.text else None
        if found:
            rank = int(found[1])
            ended[rank] = (None, line)
            if in_root and root is None:
                root = rank
            continue
        found = _SUMMARY_CODE.match(line.text) if "exitcode" in line.text else None
        if found and rank is not None:
            ended[rank] = (int(found[1]), ended[rank][1])
            rank = None
    return Summary(ended, root)
