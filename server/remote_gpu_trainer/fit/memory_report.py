"""The estimate of a training as an object of JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .memory_levers import levers, plan
from .model_shape import Model
from .training_memory import CONTEXT, GIB, estimate, verdict
from .training_run import Run


def memory_report(model: Model, run: Run, card: tuple[str, float] | None) -> dict[str, Any]:
    """Return the estimate as `rgt fit --json` prints it, its sizes in GiB.

    `card` is a GPU's name and its memory in GiB.
    """
    peak = estimate(model, run)
    ways = plan(model, run, card[1]) if card else None

    def need(size: float) -> float:
        """What a peak of so many bytes takes of a GPU, in GiB."""
        return round(size / GIB + CONTEXT, 2)

    def verdict_of(size: float) -> str | None:
        return verdict(size, card[1]) or None if card else None

    return {
        "verdict": verdict_of(peak.peak),
        "gpu": {"name": card[0], "gib": card[1]} if card else None,
        "need_gib": need(peak.peak),
        "peak_gib": _gib(peak.peak),
        "context_gib": CONTEXT,
        "moment": peak.moment,
        "lines": [
            {"what": line.what, "arithmetic": line.how, "gib": _gib(line.size, 3)}
            for line in peak.lines
        ],
        "levers": [
            {
                "change": lever.what,
                "options": lever.options,
                "entry": lever.entry,
                "saves_gib": _gib(lever.saves),
                "need_gib": need(lever.peak),
                "verdict": verdict_of(lever.peak),
            }
            for lever in levers(model, run)
        ],
        "together": {"options": ways[0], "need_gib": need(ways[1])} if ways else None,
        "weights": model.total(),
        "not_counted": list(model.unknown),
        "run": asdict(run),
    }


def _gib(size: float, digits: int = 2) -> float:
    return round(size / GIB, digits)
