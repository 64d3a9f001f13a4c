"""Reckon the memory of a user's own torch model from what trace_module.py counted of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..text import BadRequest
from .training_memory import OPTIMIZERS, Estimate, MemoryLine, short_count
from .training_run import Run

PRECISIONS = ("fp32", "bf16-mixed", "fp16-mixed", "bf16")
UNKNOWN_OPTIMIZERS = ("muon",)  # which weights it takes is up to the program
# Options that say how a model of transformers is trained. A user's own code does it, or doesn't.
OWN = {
    "chunked_loss": "compute the loss in your model",
    "liger": "call Liger's kernels in your model",
    "dpo": "give a model that holds both, and --batch of pairs",
}


@dataclass(frozen=True)
class TracedModel:
    """What a step of a model takes.

    `weights`, `trained` and `convolutions` are numbers; all else is in bytes. `lines` are [bytes,
    bytes for each sample] whose largest is the peak of forward and backward pass beside weights and
    buffers, and `kept` is one such line, of the end of the forward pass. `lines` is empty where the
    model wasn't run, and `not_run` says why. `factored_bytes` is what Adafactor keeps, `largest` is
    how many numbers the largest trained weight has. `returns_loss`: the model returned its loss.
    `beside`: bytes of frozen models that may be on the card too.
    """

    weights: int
    trained: int
    weight_bytes: int
    gradient_bytes: int
    buffer_bytes: int
    factored_bytes: int = 0
    largest: int = 0
    convolutions: int = 0
    lines: tuple[tuple[float, float], ...] = ()
    kept: tuple[float, float] = (0.0, 0.0)
    returns_loss: bool = False
    not_run: str = ""
    beside: int = 0


def traced_model(answer: dict[str, Any]) -> TracedModel:
    """Return the model of the answer of trace_module.py."""
    ran = "lines" in answer
    return TracedModel(
        weights=int(answer["weights"]),
        trained=int(answer["trained"]),
        weight_bytes=int(answer["weight_bytes"]),
        gradient_bytes=int(answer["gradient_bytes"]),
        buffer_bytes=int(answer["buffer_bytes"]),
        factored_bytes=int(answer["factored_bytes"]),
        largest=int(answer["largest"]),
        convolutions=int(answer["convolutions"]),
        lines=tuple((fixed, each) for fixed, each in answer["lines"]) if ran else (),
        kept=(answer["kept"][0][0], answer["kept"][0][1]) if ran else (0.0, 0.0),
        returns_loss=bool(answer["returns_loss"]) if ran else False,
        not_run="" if ran else answer.get("not_run", "no --input was given"),
    )


def check_run(run: Run) -> Run:
    """Return the run. Raises BadRequest for options that say nothing of a user's own model."""
    for option, instead in OWN.items():
        if getattr(run, option):
            name = option.replace("_", "-")
            raise BadRequest(f"--{name} is for a config.json; for a model of your own {instead}")
    if run.lora and run.targets != "all-linear":
        raise BadRequest(f"--targets {run.targets} is for a config.json; give all-linear")
    if run.precision not in PRECISIONS:
        raise BadRequest(
            f"--precision {run.precision} is for a config.json; give one of {', '.join(PRECISIONS)}"
        )
    if run.sharding not in ("none", "ddp"):
        raise BadRequest(f"--sharding {run.sharding} is for a config.json; give none or ddp")
    if run.optimizer in UNKNOWN_OPTIMIZERS:
        able = [name for name in OPTIMIZERS if name not in UNKNOWN_OPTIMIZERS]
        raise BadRequest(
            f"--optimizer {run.optimizer} is for a config.json; give one of {', '.join(able)}"
        )
    return run


def estimate_traced(model: TracedModel, run: Run) -> Estimate:
    """Return what one GPU needs: a lower bound where the model wasn't run."""
    in_16_bit = run.precision == "bf16"
    width = 2 if in_16_bit else 4
    each = OPTIMIZERS[run.optimizer][1 if in_16_bit else 0]
    factored = run.optimizer == "adafactor"
    gradients = MemoryLine(
        "gradients", f"{short_count(model.trained)} of them", float(model.gradient_bytes)
    )
    always = [
        MemoryLine("weights", f"{short_count(model.weights)} of them", float(model.weight_bytes)),
        MemoryLine("buffers", "as the model registers them", float(model.buffer_bytes)),
        MemoryLine("optimizer state", "on the host", 0.0)
        if run.offload
        else MemoryLine(
            "optimizer state",
            "rows and columns" if factored else f"{short_count(model.trained)} × {each:g} B",
            float(model.factored_bytes) if factored else each * model.trained,
        ),
    ]
    if run.sharding == "ddp" and run.gpus > 1:
        always.append(MemoryLine("buckets of DDP", "as the gradients", gradients.size))
    update = []
    if run.optimizer == "adamw-foreach" and not run.offload:
        how = f"{short_count(model.trained)} × {width} B"
        update = [MemoryLine("update of all weights", how, float(width * model.trained))]
    if factored:
        how = f"{short_count(model.largest)} × 3 × 4 B"
        update = [MemoryLine("update of the largest matrix", how, 12.0 * model.largest)]
    step = [*always, gradients, *update]
    passes = [*always, *([gradients] if run.accumulation > 1 else []), *_passes(model, run)]
    moments = {
        "in the forward and backward passes": passes,
        "in the optimizer's step": step,
    }
    moment = max(moments, key=lambda name: sum(line.size for line in moments[name]))
    lines = tuple(line for line in moments[moment] if line.size)
    states = sum(line.size for line in always) + gradients.size
    kept = model.kept[0] + model.kept[1] * run.batch
    return Estimate(sum(line.size for line in lines), moment, lines, states, kept)


def _passes(model: TracedModel, run: Run) -> list[MemoryLine]:
    """What the forward and backward passes hold at their peak, beside what is always there."""
    if not model.lines:
        return []
    kept = model.kept[0] + model.kept[1] * run.batch
    peak = max(fixed + each * run.batch for fixed, each in model.lines)
    how = f"{run.batch} × {model.kept[1]:,.0f} B, as it ran on torch's meta device"
    more = MemoryLine(
        "more at the peak", "gradients, and what operations need", max(0, peak - kept)
    )
    return [MemoryLine("kept for the backward pass", how, min(kept, peak)), more]
