"""The estimate of a user's own torch model as an object of JSON, as memory_report.py has it."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from ..numbers.memory import CONTEXT
from ..platforms.cards import GPUS
from ..text import BadRequest
from .memory_levers import LEAST_SAVED
from .memory_report import span
from .solve import ABOVE_8_BIT, MOST, UNCERTAIN, last_that_fits
from .traced_model import TracedModel, estimate_traced
from .training_memory import GIB, Margins, verdict
from .training_run import Run

# How far what a run needs may be off where cuDNN's workspace, which isn't counted, adds to it.
# evals/FIT.md says how many of timm's models of convolutions showed more.
UNCERTAIN_CONVOLUTIONS = 0.50
FEW_CONVOLUTIONS = 2
SOLVED = ("batch", "gpu")


def uncertainty(model: TracedModel) -> float:
    """Return how far what a run needs of a GPU may be from its estimate, as a share of it."""
    many = model.convolutions > FEW_CONVOLUTIONS
    return UNCERTAIN_CONVOLUTIONS if many else UNCERTAIN


def margins(model: TracedModel, run: Run) -> Margins:
    """Return how far what a run needs may be from its estimate: no bound where it wasn't run."""
    off = above = uncertainty(model)
    if not model.lines:
        return Margins(off, None, f"nothing says what its activations take: {model.not_run}")
    why = ["cuDNN's workspace isn't counted"] if off > UNCERTAIN else []
    if run.quantized and run.precision == "8bit":
        above = max(above, ABOVE_8_BIT)
        why.append("an 8-bit base needs room that no formula tells")
    if model.beside:
        above += model.beside / GIB / _need(estimate_traced(model, run).peak)
        why.append("text encoders and VAE may be on the card too")
    return Margins(off, above, "; ".join(why))


def traced_report(
    model: TracedModel, run: Run, card: tuple[str, float] | None, name: str
) -> dict[str, Any]:
    """Return the estimate as `rgt fit --json` prints it, its sizes in GiB.

    `card` is a GPU's name and its memory in GiB, `name` that of the model.
    """
    found, off = estimate_traced(model, run), margins(model, run)

    def verdict_of(size: float) -> str | None:
        return verdict(size, card[1], off) if card else None

    return {
        "verdict": verdict_of(found.peak),
        "gpu": {"name": card[0], "gib": card[1]} if card else None,
        "need_gib": round(_need(found.peak), 2),
        "peak_gib": round(found.peak / GIB, 2),
        "context_gib": CONTEXT,
        "moment": found.moment,
        "lines": [
            {"what": line.what, "arithmetic": line.how, "gib": round(line.size / GIB, 3)}
            for line in found.lines
        ],
        "levers": [
            {**lever, "verdict": verdict_of(peak), "need_gib": round(_need(peak), 2)}
            for lever, peak in _levers(model, run)
        ],
        "together": None,
        "weights": model.weights,
        "weights_by": f"{name}, built on torch's meta device",
        "uncertain": off.above,
        **span(found.peak, off),
        "on_top": [] if model.lines else ["activations"],
        "not_counted": _not_counted(model),
        "run": asdict(run),
    }


def _need(peak: float) -> float:
    """What a peak of so many bytes takes of a GPU, in GiB."""
    return peak / GIB + CONTEXT


def _not_counted(model: TracedModel) -> list[str]:
    """What the estimate leaves out."""
    if not model.lines:
        return [f"activations: {model.not_run}"]
    parts = []
    if not model.returns_loss:
        parts.append("your loss (the mean of what the model returns stands for it)")
    if model.convolutions > FEW_CONVOLUTIONS:
        parts.append(f"the workspace of cuDNN for {model.convolutions} convolutions")
    return parts


def _levers(model: TracedModel, run: Run) -> list[tuple[dict[str, Any], float]]:
    """The changes that save memory, each with the peak that it leaves, the best first."""
    changes = [
        ("optimizer state on the host", "--offload", "M10", replace(run, offload=True)),
    ]
    if run.optimizer.startswith("adamw"):
        small = replace(run, optimizer="adamw8bit")
        changes.append(("8-bit AdamW", "--optimizer adamw8bit", "M12", small))
    if run.batch > 1 and model.lines:
        half = replace(run, batch=run.batch // 2, accumulation=max(2, run.accumulation))
        options = f"--batch {half.batch} --accumulation 2"
        changes.append(("half the batch, twice the accumulation", options, "M5", half))
    now, found = estimate_traced(model, run).peak, []
    for what, options, entry, changed in changes:
        peak = estimate_traced(model, changed).peak
        if now - peak > LEAST_SAVED * now:
            saves = round((now - peak) / GIB, 2)
            lever = {"change": what, "options": options, "entry": entry, "saves_gib": saves}
            found.append((lever, peak))
    return sorted(found, key=lambda pair: pair[1])


def traced_solution(
    model: TracedModel, run: Run, what: str, card: tuple[str, float] | None
) -> dict[str, Any]:
    """Return what `--solve` found: by the estimate as it is, and with room for its uncertainty.

    Raises BadRequest for what can't be solved for, or where the model wasn't run.
    """
    if what not in SOLVED:
        raise BadRequest(f"--solve {what} is for a config.json; give one of {', '.join(SOLVED)}")
    if not model.lines:
        raise BadRequest(
            f"--solve {what} needs activations, and {model.not_run}; give --input, or measure "
            "two batches with torch.cuda.max_memory_allocated"
        )
    if what == "batch" and card is None:
        raise BadRequest("--solve batch fills a card; add --gpu, such as --gpu H100-80GB")

    def need(batch: int) -> float:
        return _need(estimate_traced(model, replace(run, batch=batch)).peak)

    rooms = (0.0, margins(model, run).above or 0.0)
    if what == "gpu":
        needed = need(run.batch)
        ways = [_smallest(needed, room) for room in rooms]
        return dict(zip(("least", "safe"), ways, strict=True))
    assert card is not None
    found = []
    for room in rooms:
        value = last_that_fits(lambda n, r=room: need(n) * (1 + r) <= card[1], MOST["batch"])
        size, capped = round(need(value or 1), 2), value == MOST["batch"]
        found.append({"value": value, "need_gib": size, "capped": capped})
    return dict(zip(("largest", "safe"), found, strict=True))


def _smallest(need: float, room: float) -> dict[str, Any] | None:
    able = [(gib, name) for name, gib in GPUS.items() if need * (1 + room) <= gib]
    if not able:
        return None
    gib, name = min(able)
    return {"gpu": name, "gib": gib, "need_gib": round(need, 2)}
