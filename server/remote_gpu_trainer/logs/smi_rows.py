"""Rows of `nvidia-smi -q`: a healthy value tells no fault, whatever its label says. Python 3.8.

The labels are the words of faults (`Uncorrectable Error : 0`, `Remapping Failure Occurred : No`).
So the words of a row with a healthy value don't count; with another value some rows tell a failure.
"""

from __future__ import annotations

import re

from .kinds import FAILURE, TRACE
from .lines import Line

# Labels that no other program's settings have.
OF_NVIDIA = re.compile(r"Uncorrectable|Remapp|\bECC\b|Memory Current Temp|FB Memory|GPU ")
FEWEST = 3  # such rows in a report from which it holds an output of nvidia-smi
#         Uncorrectable Error               : 0
ROW = re.compile(r"\s{4,}(\w[\w ./()-]{1,48}?)\s* : (\S.{0,60})$")
# GPU 00000000:3B:00.0      Clocks Event Reasons      Driver Version    : 590.48.01
HEAD = re.compile(r"\s*[=A-Z][\w .,:/()=-]{1,60}$|[A-Z][\w ]{2,70}\s: \S")
# Labels of which any other than a healthy value may be a fault.
OF_TROUBLE = re.compile(
    r"Slowdown|Recovery|Fabric|State|Status|Pending|Retire|Remap|Failure|Error|Required"
    r"|ECC(?! Object)"
)
# What error correction repaired, counted: no fault, however often.
REPAIRED = re.compile(r"(?:\w+ )?Correctable|Single Bit")
# A row of the card's memory that a reset of the card replaces by a spare one.
WAITING = re.compile(r"Pending(?: Page Blacklist)?$")
RESET = "a bad row of a card's memory waits to be replaced; reset the card when nothing runs on it"
OF_FAULTS = re.compile(r"Uncorrectable|Double Bit|Remapping Failure|Threshold Exceeded")
HEALTHY = re.compile(
    r"(?:0|No|N/A|None|Not Active|Disabled|Enabled|Default|Success|Completed|Healthy|P\d{1,2})$"
    r"|-?\d+(?:\.\d+)?x? ?(?:C|W|mW|MHz|MiB|KiB|GB/s|KB/s|%|us|bank\(s\))$"
)


def silenced(lines: list[Line]) -> tuple[list[Line], bool | None]:
    """Return the lines, healthy rows without their words, and whether all of them are healthy.

    The second is None where the lines are no output of nvidia-smi.
    """
    rows = [ROW.match(line.text) for line in lines]
    if sum(map(bool, rows)) < FEWEST or not any(OF_NVIDIA.search(row[1]) for row in rows if row):
        return lines, None
    whole = all(row or HEAD.match(line.text) for row, line in zip(rows, lines))
    before: list[re.Match | None] = [None, *rows]
    healthy = [
        _is_healthy(row) or _is_unchanged(row, above) if row else whole
        for row, above in zip(rows, before)
    ]
    kept = [
        line.of_kind(TRACE) if fine else line.of_kind(FAILURE) if _is_faulty(row) else line
        for line, row, fine in zip(lines, rows, healthy)
    ]
    return kept, whole and all(healthy)


def _is_healthy(row: re.Match) -> bool:
    is_no_fault = REPAIRED.match(row[1]) or not OF_TROUBLE.search(row[1])
    return bool(HEALTHY.match(row[2]) or is_no_fault)


def describe_rows(lines: list[Line]) -> str:
    """Return in words what the rows of nvidia-smi ask for, "" for nothing."""
    rows = filter(None, (ROW.match(line.text) for line in lines))
    return RESET if any(WAITING.match(row[1]) and row[2] == "Yes" for row in rows) else ""


def _is_unchanged(row: re.Match, above: re.Match | None) -> bool:
    """Whether a mode that is set for the next start is the one of now, as in the row above."""
    return above is not None and (row[1], above[1], row[2]) == ("Pending", "Current", above[2])


def _is_faulty(row: re.Match | None) -> bool:
    return bool(row and OF_FAULTS.search(row[1]))
