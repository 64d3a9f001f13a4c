"""What each change of a run would save, and which mild changes together fit a card."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .model_shape import Model
from .solve import need_of, verdict_of
from .training_memory import GIB, NOT_KNOWN, estimate, short_count
from .training_run import Run

LEAST_SAVED = 0.005  # of the peak; a change that saves less isn't named


@dataclass(frozen=True)
class Change:
    """A change of the run: what it is, its options, and the entry that explains it."""

    what: str
    options: str
    entry: str
    run: Run


@dataclass(frozen=True)
class Lever:
    """A change that saves memory: how much, and the peak of the changed run, in bytes."""

    what: str
    options: str
    entry: str
    run: Run
    saves: float
    peak: float


def levers(model: Model, run: Run) -> list[Lever]:
    """Return the changes that save memory, those that save most first."""
    now = estimate(model, run).peak
    saving = []
    for change in _changes(run):
        peak = estimate(model, change.run).peak
        if now - peak > LEAST_SAVED * now:
            saving.append(Lever(**vars(change), saves=now - peak, peak=peak))
    return sorted(saving, key=lambda lever: -lever.saves)


def _changes(run: Run) -> list[Change]:
    """Return the changes that could save memory, whether or not they do for this model."""
    half_batch, half_length = max(1, run.batch // 2), max(1, run.sequence // 2)
    rank, gpus = run.lora or 16, run.gpus if run.gpus > 1 else 8
    changes = [
        Change(
            "half the batch, twice the accumulation",
            f"--batch {half_batch} --accumulation 2",
            "M5",
            replace(run, batch=half_batch, accumulation=max(2, run.accumulation)),
        ),
        Change(
            "half the sequence length",
            f"--sequence {half_length}",
            "M16",
            replace(run, sequence=half_length),
        ),
        Change(
            "activation checkpointing", "--checkpointing", "M7", replace(run, checkpointing=True)
        ),
        Change(
            "sdpa or flash attention", "--attention sdpa", "M11", replace(run, attention="sdpa")
        ),
        Change(
            "loss in pieces, or Liger", "--chunked-loss", "M14", replace(run, chunked_loss=True)
        ),
        Change("all of Liger's kernels", "--liger", "M14", replace(run, liger=True)),
        Change("8-bit AdamW", "--optimizer adamw8bit", "M12", replace(run, optimizer="adamw8bit")),
        Change("optimizer state on the host", "--offload", "M10", replace(run, offload=True)),
        Change("LoRA of rank 16", "--lora 16", "M13", replace(run, lora=rank)),
        Change(
            "QLoRA: a 4-bit base",
            "--precision 4bit --lora 16",
            "M13",
            replace(run, precision="4bit", lora=rank),
        ),
        Change(
            f"FSDP or ZeRO-3 over {gpus} GPUs",
            f"--sharding fsdp --gpus {gpus}",
            "M9",
            replace(run, sharding="fsdp", gpus=gpus),
        ),
        Change(
            f"ZeRO-2 over {gpus} GPUs",
            f"--sharding zero2 --gpus {gpus}",
            "D16",
            replace(run, sharding="zero2", gpus=gpus),
        ),
    ]
    if run.precision == "fp32":
        changes.append(
            Change(
                "16-bit products",
                "--precision bf16-mixed",
                "M6",
                replace(run, precision="bf16-mixed"),
            )
        )
    elif run.full and run.precision != "bf16":
        changes.append(
            Change(
                "all in bf16, which rounds small updates away",
                "--precision bf16",
                "P20",
                replace(run, precision="bf16"),
            )
        )
    return changes


def plan(model: Model, run: Run, gib: float) -> tuple[str, float] | None:
    """Return the options of the mildest changes that together fit a card, and the peak with them.

    What keeps the result comes first: attention, the loss, checkpointing, smaller batches. Then
    8-bit AdamW, LoRA and QLoRA. None if they don't fit either, or the run fits as it is, by the
    estimate alone.
    """
    peak = estimate(model, run).peak
    if need_of(model, run) <= gib:
        return None
    steps: list[tuple[str, dict]] = [
        ("--attention sdpa", {"attention": "sdpa"}),
        ("--chunked-loss", {"chunked_loss": True}),
        ("--checkpointing", {"checkpointing": True}),
        ("--batch 1", {"batch": 1, "accumulation": run.accumulation * run.batch}),
        ("--optimizer adamw8bit", {"optimizer": "adamw8bit"}),
        ("--lora 16", {"lora": run.lora or 16}),
        ("--precision 4bit", {"precision": "4bit"}),
    ]
    taken: list[str] = []
    for options, fields in steps:
        changed = replace(run, **fields)
        changed_peak = estimate(model, changed).peak
        if changed_peak < peak:
            taken, run, peak = [*taken, options], changed, changed_peak
        if need_of(model, run) <= gib:
            return " ".join(taken), peak
    return None


def summary(model: Model, run: Run, gib: float = 0.0) -> str:
    """Return in a few sentences what a run takes, and what would save most.

    `gib` is the memory of the card, 0 if it isn't known.
    """
    needed = estimate(model, run)
    parts = ", ".join(f"{line.what} {line.size / GIB:.1f}" for line in needed.lines)
    text = (
        f"By its config.json the model has {short_count(model.total())} weights; batch {run.batch} "
        f"of {run.sequence} tokens, {run.precision}, {run.optimizer} takes "
        f"{'at least' if model.on_top else 'about'} "
        f"{needed.peak / GIB:.1f} GiB {needed.moment} ({parts})"
    )
    if gib:
        verdict = verdict_of(model, run, needed.peak, ("", gib))
        unknown = f"whether it fits {gib:.1f} GiB isn't known"
        text += f": {unknown if verdict == NOT_KNOWN else f'{verdict} in {gib:.1f} GiB'}"
    if model.guessed:
        text += f"; a guess by the usual layers, with {model.guessed}"
    best = [f"{lever.what} {lever.saves / GIB:.1f} [{lever.entry}]" for lever in levers(model, run)]
    if model.unknown:
        text += f"; not counted: {', '.join(model.unknown)}"
    return f"{text}. Saves, in GiB: {', '.join(best[:3])}."
