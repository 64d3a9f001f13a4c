"""Read torchrun's summary: how each rank ended, and which failure it observed first."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .lines import Line

ROOT_CAUSE = "Root Cause (first observed failure)"
_SUMMARY_RANK = re.compile(r"\s*rank\s*:\s*(\d{1,5})\b")
_SUMMARY_CODE = re.compile(r"\s*exitcode\s*:\s*(-?\d{1,5})\b")
TERM = -15  # by SIGTERM: the launcher ended it
ABORT = -6  # by SIGABRT


@dataclass(frozen=True)
class Summary:
    """`ended`: {rank: (exit code, the line that names it)}; `root`: the rank that failed first."""

    ended: dict[int, tuple[int | None, Line]]
    root: int | None


def summary_of(lines: list[Line]) -> Summary:
    """Return what torchrun's summary says about the ranks; an empty one where there is none."""
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
