"""The estimate of a training as an object of JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..platforms.cards import GPUS
from ..text import BadRequest
from .memory_levers import levers, plan
from .model_shape import Model
from .solve import largest, margins, room_of, smallest, verdict_of
from .training_memory import CONTEXT, GIB, Margins, estimate
from .training_run import Run
from .weight_formulas import formulas


def memory_report(model: Model, run: Run, card: tuple[str, float] | None) -> dict[str, Any]:
    """Return the estimate as `rgt fit --json` prints it, its sizes in GiB.

    `card` is a GPU's name and its memory in GiB.
    """
    peak, off = estimate(model, run), margins(model, run, card[0] if card else "")
    ways = plan(model, run, card[1]) if card else None

    def need(size: float) -> float:
        """What a peak of so many bytes takes of a GPU, in GiB."""
        return round(size / GIB + CONTEXT, 2)

    def verdict_on(size: float, of: Run) -> str | None:
        return verdict_of(model, of, size, card) if card else None

    return {
        "verdict": verdict_on(peak.peak, run),
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
                "verdict": verdict_on(lever.peak, lever.run),
            }
            for lever in levers(model, run)
        ],
        "together": {"options": ways[0], "need_gib": need(ways[1])} if ways else None,
        "weights": model.total(),
        "weights_by": _source(model),
        "uncertain": off.above,
        **span(peak.peak, off),
        "on_top": [] if model.guessed else list(model.on_top),
        "not_counted": list(model.unknown),
        "run": asdict(run),
    }


def span(peak: float, off: Margins) -> dict[str, Any]:
    """Return the least and the most that a peak may need of a GPU, in GiB, and why if it's wide."""
    least, most = off.around(peak / GIB + CONTEXT)
    return {
        "least_gib": round(least, 2),
        "most_gib": None if most is None else round(most, 2),
        "why": off.why,
    }


def _source(model: Model) -> str:
    """What counted the weights."""
    if model.weights:
        return "the number given"
    if model.counted:
        return f"the shapes of transformers {formulas()['transformers']}"
    usual = f"the usual layers' formula, with {model.products} matrices in each MLP"
    return f"{usual}: {model.guessed}" if model.guessed else usual


def solution(model: Model, run: Run, what: str, card: tuple[str, float] | None) -> dict[str, Any]:
    """Return what `--solve` found: by the estimate as it is, and with room for its uncertainty.

    Raises BadRequest without a card where one is needed.
    """
    if what == "gpu":
        ways = {
            "least": smallest(model, run, GPUS),
            "safe": smallest(model, run, GPUS, safe=True),
        }
        return {
            name: {"gpu": way.name, "gib": way.gib, "need_gib": round(way.need, 2)} if way else None
            for name, way in ways.items()
        }
    if card is None:
        raise BadRequest(f"--solve {what} fills a card; add --gpu, such as --gpu H100-80GB")
    return {
        name: {
            "value": found.value,
            "need_gib": round(found.need, 2),
            "capped": found.capped,
        }
        for name, found in (
            ("largest", largest(model, run, what, card[1])),
            ("safe", largest(model, run, what, card[1], room_of(model, run, card[0]))),
        )
    }


def _gib(size: float, digits: int = 2) -> float:
    return round(size / GIB, digits)
