"""The rows of a run's series as CSV or JSON lines, for programs that track experiments. Pure."""

from __future__ import annotations

import csv
import io
import json
import math
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..text import BadRequest
from ..text.replacing import write_over
from .run_series import Row, RunSeries
from .status_facts import NAMES

FIRST = ("timestamp", "step")  # the columns with which a file begins
_PLACES = ("attempt", "phase", "total", "epoch")
_LAST = ("disk_free", "disk_total")
_CARD = ("use", "memory_mb", "temperature_c")


def write(series: RunSeries, to: Path) -> None:
    """Write the rows into a file, as its ending says: .csv or .jsonl.

    Raises BadRequest for another ending, and for a place that can't be written or holds anything
    but an earlier file of ours.
    """
    made = {".csv": as_csv, ".jsonl": as_jsonl}.get(to.suffix.lower())
    if made is None:
        raise BadRequest(f"--series: {to.name[:80]} must end in .csv or .jsonl")
    begin = ",".join(FIRST) if made is as_csv else json.dumps({FIRST[0]: ""})[:14]
    write_over(to, made(series), begin, "an earlier series of a run", "--series")


def as_csv(series: RunSeries) -> str:
    """Return a line a row below the names of all columns. What isn't known is empty."""
    records = [flat(row) for row in series.rows]
    names = list(dict.fromkeys(name for record in records for name in record))
    cards = sorted({name for name in names if name.startswith("gpu")}, key=_card_order)
    kept = [*FIRST, *_PLACES, *NAMES, "steps_per_second", *cards, *_LAST, "saved"]
    text = io.StringIO()
    writer = csv.DictWriter(text, [name for name in kept if name in names], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def as_jsonl(series: RunSeries) -> str:
    """Return a JSON object a row, without what isn't known."""
    return "".join(f"{json.dumps(flat(row), ensure_ascii=False)}\n" for row in series.rows)


def flat(row: Row) -> dict[str, Any]:
    """Return a row as names and values: a time in UTC, and numbers; a card's are gpu0_use and so
    on. A number that isn't finite is the text "nan"."""
    columns: dict[str, Any] = {
        "timestamp": datetime.fromtimestamp(row.t, timezone.utc).isoformat(timespec="seconds"),
        "step": row.step,
        **{name: getattr(row, name) for name in _PLACES},
        **row.numbers,
        "steps_per_second": None if row.rate is None else float(f"{row.rate:.6g}"),
    }
    for number, card in enumerate(row.gpus):
        columns.update({f"gpu{number}_{name}": card.get(name) for name in _CARD})
    columns.update({name: getattr(row, name) for name in _LAST})
    columns["saved"] = row.saved[-1][0] if row.saved else None
    return {name: _plain(value) for name, value in columns.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if not math.isfinite(value) else int(value) if value == int(value) else value
    return value


def _card_order(name: str) -> tuple[int, int]:
    number, _, field = name.removeprefix("gpu").partition("_")
    return int(number), _CARD.index(field)
