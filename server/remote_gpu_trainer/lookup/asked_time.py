"""Answers to questions of time: how long a training takes, and how often to save."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ..platforms.cards import PEAK_TFLOPS
from .asked_numbers import Numbers

USUAL_SAVE, USUAL_KILL = 30, 6  # seconds and hours of the example where a question says none
USUAL_LENGTH = 500  # tokens of a sample where a question says none
USUAL_PARAMETERS = "7B"
USUAL_SAMPLES = 10_000
# Of the peak: large runs in bf16 publish 38 to 46 % (Llama 3, arXiv 2407.21783; PaLM, 2204.02311),
# and small ones reach less.
USUAL_SHARE = 0.35
FORWARD_AND_BACKWARD = 6  # products for each weight and token
LORA = 4  # the same without the gradients of frozen weights
_LORA = re.compile(r"lora", re.I)
_DISK = re.compile(r"\bdisks?\b|\bfill\w*|\bspace\b|\bstorage\b|硬盘|磁盘|盘满|空间", re.I)
MEASURE = (
    "Time 50 steps after the first 10, or let `rgt rehearse job.yaml` do it, here or with "
    "`--on BOX`; of a run that trains, `rgt status BOX` says the time to its end."
)


@dataclass(frozen=True)
class Work:
    """What is to be trained, and what of it was assumed."""

    weights: int
    tokens: float
    told: str
    assumed: str


def duration(line: str, numbers: Numbers) -> list[str]:
    """How long a training takes: by its steps and their time, or by its products and the card.

    Without the data neither is known, so how to find it out comes first.
    """
    if numbers.step_seconds and (steps := _steps(numbers)):
        seconds = steps * numbers.step_seconds
        return [
            f"About {_long(seconds)}: {steps:,} steps × {numbers.step_seconds:g} s. Evaluation, "
            "saves and the start come on top.",
            MEASURE,
        ]
    work = _work(numbers) if numbers.gpu in PEAK_TFLOPS else None
    if not work:
        return [_formula(numbers), MEASURE]
    reckoned = _by_products(numbers, work, is_lora=bool(_LORA.search(line)))
    if numbers.samples or numbers.tokens:
        return [*reckoned, MEASURE]
    return [_formula(numbers), MEASURE, f"As an example: {reckoned[0]}", *reckoned[1:]]


def _formula(numbers: Numbers) -> str:
    """How the time follows from its parts, with those that the question says as numbers."""
    if steps := _steps(numbers):
        return f"Time is steps × seconds a step: {steps:,} × the seconds of one."
    epochs = f"{numbers.epochs} epochs" if numbers.epochs > 1 else "epochs"
    if numbers.tokens:
        parts = f"{numbers.tokens:,} tokens × {epochs} / tokens that all GPUs take in a step"
    else:
        samples = f"{numbers.samples:,} samples" if numbers.samples else "samples"
        batch = f"batch of {numbers.batch}" if numbers.batch else "batch"
        gpus = f"{numbers.gpus} GPUs" if numbers.gpus > 1 else "GPUs"
        parts = f"{samples} × {epochs} / ({batch} × {gpus} × accumulation)"
    text = f"Time is steps × seconds a step; steps = {parts}."
    if hours := numbers.kill_hours:
        text += f" In {hours} h there is time for {hours * 3600:,} / (seconds a step) of them."
    return text


def _steps(numbers: Numbers) -> int:
    """The steps that a question says, or that follow from its samples and batch; 0 for neither."""
    if numbers.steps or not numbers.samples or not numbers.batch:
        return numbers.steps
    return math.ceil(
        numbers.samples * max(1, numbers.epochs) / (numbers.batch * max(1, numbers.gpus))
    )


def _work(numbers: Numbers) -> Work | None:
    """What is to be trained by a question that says the model or the data; None for neither."""
    from ..fit.model_config import weight_count
    from ..text import BadRequest

    if not (numbers.parameters or numbers.samples or numbers.tokens):
        return None
    said = numbers.parameters or USUAL_PARAMETERS
    try:
        weights = weight_count(said)
    except BadRequest:
        return None
    epochs = max(1, numbers.epochs)
    assumed = [] if numbers.parameters else [f"a model of {said}"]
    if numbers.tokens:
        tokens, data = float(numbers.tokens), f"{numbers.tokens:,} tokens"
    else:
        samples = numbers.samples or USUAL_SAMPLES
        length = numbers.sequence or USUAL_LENGTH
        tokens, data = float(samples) * length, f"{samples:,} samples of {length} tokens"
        assumed += [] if numbers.samples else [f"{samples:,} samples"]
        assumed += [] if numbers.sequence else [f"{length} tokens a sample without padding"]
    times = f", {epochs} epochs" if epochs > 1 else ", one epoch"
    return Work(weights, tokens * epochs, f"{said} on {data}{times}", ", ".join(assumed))


def _by_products(numbers: Numbers, work: Work, is_lora: bool) -> list[str]:
    peak = PEAK_TFLOPS[numbers.gpu]
    seconds = FORWARD_AND_BACKWARD * work.weights * work.tokens
    seconds /= numbers.gpus * peak * 1e12 * USUAL_SHARE
    products, kind, other = (
        FORWARD_AND_BACKWARD,
        "all weights",
        "LoRA takes about two thirds of that",
    )
    if is_lora:
        seconds *= LORA / FORWARD_AND_BACKWARD
        products, kind, other = LORA, "LoRA", "All weights take about half as long again"
    cards = f"{numbers.gpus} × {numbers.gpu}"
    assumed = f"{work.assumed}, and " if work.assumed else ""
    return [
        f"About {_long(seconds)} for {work.told} on {cards}, {kind}: {products} × weights × tokens "
        f"at {USUAL_SHARE:.0%} of the card's {peak} TFLOPS. {other}, checkpointing a third more.",
        f"Assumed: {assumed}that share of the peak. A run several times slower pads its batches or "
        "waits for data, has small batches or fp32: pack samples, look at the loader "
        "(`rgt lookup --id U24`) and the batch (`rgt lookup --id T18`).",
    ]


def _long(seconds: float) -> str:
    """A length of time in the unit that a person would say."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            number = seconds / size
            return f"{number:,.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    return f"{seconds:.0f} seconds"


def interval(line: str, numbers: Numbers) -> list[str]:
    """By Young and Daly, with what the question says of a save and of the box."""
    from ..platforms.saving import between_saves

    save, hours = numbers.save_seconds or USUAL_SAVE, numbers.kill_hours or USUAL_KILL
    found = between_saves(save, hours)
    is_said = numbers.save_seconds and numbers.kill_hours
    lead = "For" if is_said else "As an example, for"
    sentences = [
        f"{lead} a save of {save} s on a box that is lost every {hours} h: save about every "
        f"{found.daly / 60:.0f} minutes; saves and repeated work then cost "
        f"{found.overhead:.0%} of the time.",
        f"`rgt profile --save-seconds {save} --kill-hours {hours}` shows the arithmetic"
        + ("." if is_said else "; `rgt rehearse job.yaml` measures how long your save takes."),
        "Steps between saves = that time / seconds a step. Keep two (Trainer: "
        "`save_total_limit=2`), so that they don't fill the disk; two thirds of a checkpoint of "
        "all weights are the optimizer's, which only a resume needs (`save_only_model=True` leaves "
        "them out).",
    ]
    return [sentences[2], *sentences[:2]] if _DISK.search(line) else sentences
