"""Rows of `nvidia-smi -q`: a healthy value tells no fault, whatever its label says. Python 3.8.

The labels are the words of faults (`Uncorrectable Error : 0`, `Remapping Failure Occurred : No`).
So the words of a row with a healthy value don't count; with another value some rows tell a failure.
"""

from __future__ import annotations

import re

from .kinds import FAILURE, TRACE
from .lines import Line

FEWEST = 3  # such rows in a report from which it holds an output of nvidia-smi
#         Uncorrectable Error               : 0
ROW = re.compile(r"\s{4,}([A-Z][\w ./()-]{1,48}?)\s* : (\S.{0,60})$")
OF_FAULTS = re.compile(r"Uncorrectable|Double Bit|Remapping Failure|Threshold Exceeded")
HEALTHY = re.compile(
    r"(?:0|No|N/A|None|Not Active|Disabled|Enabled|Default|Success|Completed|Healthy|P\d{1,2})$"
    r"|-?\d+(?:\.\d+)?x? ?(?:C|W|mW|MHz|MiB|KiB|GB/s|KB/s|%|us|bank\(s\))$"
)


def silenced(lines: list[Line]) -> tuple[list[Line], bool]:
    """Return the lines, those rows without their words, and whether all lines are such rows."""
    values = [ROW.match(line.text) for line in lines]
    if sum(map(bool, values)) < FEWEST:
        return lines, False
    healthy = [bool(value and HEALTHY.match(value[2])) for value in values]
    kept = [
        line.of_kind(TRACE) if fine else line.of_kind(FAILURE) if _is_faulty(value) else line
        for line, value, fine in zip(lines, values, healthy)
    ]
    return kept, all(healthy)


def _is_faulty(row: re.Match | None) -> bool:
    return bool(row and OF_FAULTS.search(row[1]))
