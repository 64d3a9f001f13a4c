"""What a box measured of its run: read from `status --json`. Pure.

Nothing in an answer is trusted: types are checked, texts are cut, cleaned and masked. What isn't
known is left out.
"""

from __future__ import annotations

from typing import Any

from ..numbers import finite
from ..text.masking import shown

NAMES = {"loss": "loss", "val_loss": "validation", "lr": "lr", "grad_norm": "grad norm"}
BEST = "best_val_loss"
NOT_FINITE = ("nan", "inf", "-inf")
_PROGRESS = (
    "step", "total", "percent", "steps_per_second",
    "seconds_left", "seconds_left_low", "seconds_left_high",
)  # fmt: skip
_CARD = ("use", "memory_mb", "total_mb", "temperature_c")
MOST_GPUS, MOST_POINTS, MOST_ATTEMPTS, MOST_SAVED = 64, 40, 20, 50


def numbers_of(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return {name: {"value", "step", "t"}} of the newest numbers; named as in series.jsonl. And
    best_val_loss, the lowest one.

    A value that isn't finite is the text "nan", "inf" or "-inf".
    """
    given, found = data.get("numbers"), {}
    for name in (*NAMES, BEST, "epoch"):
        row = given.get(name) if isinstance(given, dict) else None
        if not isinstance(row, dict):
            continue
        value = row.get("value")
        value = value if value in NOT_FINITE else finite(value)
        if value is not None:
            step, t = _plain(row.get("step")), _plain(row.get("t"))
            found[name] = {"value": value, "step": step, "t": t}
    return found


def progress_of(data: dict[str, Any]) -> dict[str, float]:
    """Return step, total, percent, steps_per_second, seconds_left with its _low and _high."""
    given = data.get("progress")
    given = given if isinstance(given, dict) else {}
    read = {name: _plain(given.get(name)) for name in _PROGRESS}
    return {name: value for name, value in read.items() if value is not None and value >= 0}


def course_of(data: dict[str, Any]) -> list[float]:
    """Return up to 40 losses in the order of their steps."""
    given = data.get("course")
    found = [finite(value) for value in given[-MOST_POINTS:]] if isinstance(given, list) else []
    return [value for value in found if value is not None]


def gpus_of(data: dict[str, Any]) -> list[dict[str, float]]:
    """Return what each card tells of use (percent), memory_mb, total_mb and temperature_c."""
    given, found = data.get("gpus"), []
    for card in given[:MOST_GPUS] if isinstance(given, list) else []:
        read = {name: _plain(card.get(name)) for name in _CARD} if isinstance(card, dict) else {}
        found.append({name: value for name, value in read.items() if value is not None})
    return found


def attempts_of(data: dict[str, Any]) -> list[str]:
    """Return a sentence for each attempt that ended."""
    given = data.get("attempts")
    return [shown(line, 400) for line in given[-MOST_ATTEMPTS:]] if isinstance(given, list) else []


def saved_of(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return {"path", "bytes"} of what the log says was saved outside of the run."""
    given, found = data.get("saved_elsewhere"), []
    for row in given[:MOST_SAVED] if isinstance(given, list) else []:
        if isinstance(row, list) and len(row) == 2 and isinstance(row[0], str):
            found.append({"path": shown(row[0], 300), "bytes": int(finite(row[1]) or 0)})
    return found


def _plain(value: object) -> float | int | None:
    """Return a number, a whole one as such."""
    number = finite(value)
    return int(number) if number is not None and number == int(number) else number
