"""Read the numbers that a library writes beside the log: HF's trainer_state.json, Lightning's CSV.

Python 3.8.
"""

from __future__ import annotations

import csv
import json
import math
from typing import Any, Iterable

from .course import NAMES
from .line import name_role


def read_trainer_state(text: str) -> dict[str, Any]:
    """Return `step`, `total`, `epoch` and the newest of each number; {} for what isn't one."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    history = told.get("log_history") if isinstance(told, dict) else None
    if not isinstance(history, list):
        return {}
    found = _newest(row for row in history if isinstance(row, dict) and "train_runtime" not in row)
    for name, key in (("step", "global_step"), ("total", "max_steps"), ("epoch", "epoch")):
        value = _number(told.get(key))
        if value is not None and value > 0:
            found[name] = value if name == "epoch" else int(value)
    return found


def read_metrics_csv(text: str) -> dict[str, Any]:
    """Return `step`, `epoch` and the newest of each number; {} for what isn't such a file.

    A row holds what was logged at once, and its other cells are empty.
    """
    try:
        rows = list(csv.DictReader(text.splitlines()))
    except csv.Error:
        return {}
    if not rows or not {"step", "epoch"} & set(rows[0]):
        return {}
    found = _newest(rows)
    for name in ("step", "epoch"):
        values = [value for value in (_number(row.get(name)) for row in rows) if value is not None]
        if values:
            found[name] = int(values[-1])
    return found


def _newest(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    newest: dict[str, Any] = {}
    for row in rows:
        step = _number(row.get("step"))
        for name, cell in row.items():
            value = _number(cell, finite=False)
            role = name_role(name, value) if isinstance(name, str) and value is not None else ""
            if role in NAMES:
                shown = value if math.isfinite(value or 0.0) else str(value)
                newest[role] = {"value": shown, "step": None if step is None else int(step)}
    return {"newest": newest}


def _number(value: Any, finite: bool = True) -> float | None:
    """Return a number, also one that is written as text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if not finite or (math.isfinite(number) and abs(number) < 1e15) else None
