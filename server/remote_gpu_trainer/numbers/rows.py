"""Recognize the rows of a log that hold numbers. Standard library, Python 3.8.

`hold_numbers` and `hold_table` are cheap. They run on every log without a failure, before the
modules that read numbers are imported.
"""

from __future__ import annotations

import re
from typing import Tuple

Row = Tuple[int, bytes]  # (line number from 1, bytes without the line end)

NUMBERS = 5  # lines with a loss or a score from which a log's numbers are read
ROW = 600  # bytes of a row in which numbers are looked for
TABLE_HEAD = 12  # rows within which a pasted table begins

# Parts of names of a loss or a score. `metric_series.kind_of` decides; a log with none of these
# isn't read for numbers.
_NUMBERED = (
    b"oss",
    b"LOSS",
    b"acc",
    b"Acc",
    b"mse",
    b"MSE",
    b"L=",
    b"recon",
    b"kl",
    b"KL",
    b"reward",
    b"rdida",
    b"erlust",
    b"perte",
    b"perda",
    *(word.encode() for word in ("损失", "損失", "손실", "потер")),
)
_NAN = re.compile(rb"\bnan\b", re.I)
_OF_NUMBERS = b"0123456789.+-eE"
_TABLES = (b"NVIDIA-SMI", b"Use%", b"JobID", b"Job ID")


def hold_numbers(rows: list[Row]) -> bool:
    """Return whether at least NUMBERS rows may hold a loss or a score, by words or by a header.

    Two are enough where one may be nan: that needs no course to be seen.
    """
    whole = b"\n".join([raw for _, raw in rows])
    named = sum(map(whole.count, _NUMBERED))
    if named >= 2 and _NAN.search(whole):
        return True
    return named >= NUMBERS or (
        named > 0 and sum(any(48 <= byte < 58 for byte in raw[:40]) for _, raw in rows) >= NUMBERS
    )


def shape_of(raw: bytes) -> bytes:
    """Return a row without its numbers. Rows of one shape differ in numbers only."""
    return raw[:ROW].translate(None, _OF_NUMBERS)


def alike(rows: list[Row]) -> bool:
    """Return whether every row has another that differs from it in numbers only (nan counts)."""
    shapes: dict[bytes, int] = {}
    for _, raw in rows:
        shape = shape_of(raw).lower().replace(b"nan", b"").replace(b"inf", b"")
        shapes[shape] = shapes.get(shape, 0) + 1
    return min(shapes.values()) > 1


def hold_table(rows: list[Row]) -> bool:
    """Return whether a table of nvidia-smi, df, sacct or seff may begin in the first rows."""
    return any(word in raw for _, raw in rows[:TABLE_HEAD] for word in _TABLES)
