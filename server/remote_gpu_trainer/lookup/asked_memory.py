"""Answers to questions of memory: whether a training fits, what it needs, on how many cards.

The arithmetic is that of `rgt fit`, and each answer ends with the command that shows it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..platforms.cards import GPUS
from .asked_numbers import Numbers, cards_named

if TYPE_CHECKING:
    from ..fit.training_run import Run
    from ..fit.usual_shapes import Assumed

USUAL_CARD = "H100-80GB"  # for which a number of cards is reckoned where a question names none
COUNTS = (1, 2, 4, 8, 16, 32, 64)  # of cards
# Bytes of each weight in a checkpoint: a float32 copy and the two moments of Adam; and in bf16.
OF_CHECKPOINT, OF_BF16 = 12, 2
RANK = 16  # of adapters
_ASKS_HOW_MANY = re.compile(
    r"\bhow many (?:\w+ )?(?:gpus?|cards?|[abhl]\d{2,3}|\d0\d0)|几[张块个片]", re.I
)
_ABOUT_ROOM = re.compile(
    r"\bfits?\b|\benough\b|\bbatch\b|\bv?ram\b|memory|够|显存|放得下|装得下", re.I
)
_NO_LORA = re.compile(r"\b(?:not?|without|w/o|instead of)\b.{0,12}\bq?lora|不用 ?lora", re.I)
_LORA = re.compile(r"(?<![a-z])lora(?![a-z])|\b(?:adapters?|peft)\b|适配器", re.I)
_QLORA = re.compile(r"q-?lora|(?<!\d)4[ -]?bit", re.I)
_8_BIT = re.compile(r"(?<!\d)8[ -]?bit(?! ?adam)|\bint8\b|\bfp8\b", re.I)
_FULL = re.compile(
    r"\b(?:full|fully)\b.{0,16}\b(?:fine-?tun\w*|param\w*|train\w*|tune)|\bfull[ -]param|"
    r"\ball (?:the )?(?:weights|param\w*)|全(?:参|量|参数)|\bpre-?train",
    re.I,
)
# What ran out of memory doesn't fit, whatever the arithmetic says.
_RAN_OUT = re.compile(
    r"out of memory|\b(?:cuda )?oom\b|ran out|爆显存|爆了|显存(?:不足|溢出)", re.I
)
# The arithmetic is that of a language model: images and sounds have activations of their own.
_NO_LANGUAGE_MODEL = re.compile(
    r"\b(?:videos?|images?|vision|diffusion|vlms?|multi-?modal|audio|speech|asr|t2v|i2v|wan ?2)\b|"
    r"(?<![a-z])vl(?![a-z])|视频|图像|图片|语音|扩散|多模态",
    re.I,
)


@dataclass(frozen=True)
class Way:
    """A way to train: its name, the options of `rgt fit` for it, and the run."""

    name: str
    options: tuple[str, ...]
    run: Run

    def on(self, gpus: int) -> Way:
        """The same way with its states shared by so many GPUs."""
        if gpus == 1:
            return self
        options = (f"--gpus {gpus}", "--sharding fsdp", *self.options)
        return replace(self, options=options, run=replace(self.run, gpus=gpus, sharding="fsdp"))


def ways_asked(line: str, run: Run) -> list[Way]:
    """The ways that a question names, or else LoRA, QLoRA and all weights."""
    lora = f"--lora {RANK}"
    known = {
        "lora": Way("LoRA", (lora,), replace(run, lora=RANK)),
        "qlora": Way(
            "QLoRA", ("--precision 4bit", lora), replace(run, lora=RANK, precision="4bit")
        ),
        "8bit": Way(
            "LoRA on an 8-bit base",
            ("--precision 8bit", lora),
            replace(run, lora=RANK, precision="8bit"),
        ),
        "full": Way("All weights", (), run),
    }
    is_lora = _LORA.search(line) and not _NO_LORA.search(line)
    asked = {
        "qlora": _QLORA.search(line),
        "8bit": _8_BIT.search(line),
        "lora": is_lora and not _QLORA.search(line) and not _8_BIT.search(line),
        "full": _FULL.search(line) or _NO_LORA.search(line),
    }
    named = [known[name] for name, is_asked in asked.items() if is_asked]
    return named or [known["lora"], known["qlora"], known["full"]]


def fit(line: str, numbers: Numbers) -> list[str]:
    """Whether training a model of so many weights fits the cards, reckoned."""
    from ..fit.model_config import weight_count
    from ..fit.training_run import Run, length_of
    from ..fit.usual_shapes import assumed_model
    from ..text import BadRequest

    if _RAN_OUT.search(line):
        return []
    if numbers.image_model:
        return _fit_images(line, numbers)
    if _NO_LANGUAGE_MODEL.search(line):
        return rule(line, numbers) if numbers.parameters or numbers.card else []
    if not numbers.parameters:
        return _fit_config(line, numbers)
    try:
        assumed = assumed_model(weight_count(numbers.parameters))
        sequence = length_of(assumed.model, numbers.sequence or None)
    except BadRequest as error:
        return [f"`rgt fit` can't reckon this from the number alone: {error}."]
    run = Run(batch=max(1, numbers.batch), sequence=sequence, checkpointing=True)
    ways = ways_asked(line, run)
    if _ASKS_HOW_MANY.search(line):
        return _how_many(assumed, numbers, ways)
    if not numbers.card:
        return _need(assumed, numbers, ways)
    return _verdicts(assumed, numbers, ways)


def _fit_config(line: str, numbers: Numbers) -> list[str]:
    """The command for a model whose number of weights isn't said."""
    if not numbers.gpu or not _ABOUT_ROOM.search(line):
        return []
    return [
        f"`rgt fit config.json --gpu {numbers.gpu}` reckons it from the model's config.json, "
        "line by line, with what each change saves; `--solve batch` finds the largest batch. "
        "Without a config: `--parameters 7B`, with your number."
    ]


def _report(assumed: Assumed, run: Run, card: tuple[str, float] | None) -> dict[str, Any]:
    from ..fit.memory_report import memory_report

    return memory_report(assumed.model, run, card)


def _verdicts(assumed: Assumed, numbers: Numbers, ways: list[Way]) -> list[str]:
    """Whether each way fits the cards, what would do where one doesn't, and the command."""
    card = numbers.card
    assert card
    verdicts, is_open = [], False
    for way in ways:
        report = _report(assumed, way.on(numbers.gpus).run, card)
        verdict, need = report["verdict"], f"about {report['need_gib']:.0f} GiB"
        is_open = is_open or verdict != "fits"
        if numbers.gpus > 1:
            alone = _report(assumed, way.run, card)
            need += f" on each GPU (unsharded {alone['need_gib']:,.0f})"
        elif report["most_gib"]:
            need += f" ({report['least_gib']:.0f} to {report['most_gib']:.0f})"
        if len(ways) == 1:
            verdicts.append(f"{verdict.capitalize()}: {need} for {_lower(way.name)}")
        else:
            verdicts.append(f"{_lower(way.name)}: {verdict}, {need}")
    first = "; ".join(verdicts)
    first = f"{first[0].upper()}{first[1:]}."
    size = f"{card[0]} has {card[1]:.0f} GiB" if numbers.gpu else f"Reckoned for {card[0]}"
    if numbers.gpus > 1:
        size += (
            f"; FSDP or ZeRO-3 shards all states over the {numbers.gpus}, unsharded (DDP) each "
            "holds a whole copy"
        )
    ways_out = _what_would_do(assumed, numbers, ways) if is_open else []
    return [f"{first} {size}.", *ways_out, _by(assumed, numbers, ways[0].on(numbers.gpus))]


def _lower(name: str) -> str:
    """A name within a sentence."""
    return name.replace("All weights", "all weights")


def _what_would_do(assumed: Assumed, numbers: Numbers, ways: list[Way]) -> list[str]:
    """What fits the cards, where a way that was asked doesn't."""
    card, run = numbers.card, replace(ways[0].run, precision="bf16-mixed", lora=0)
    assert card
    asked = {way.name for way in ways}
    others = [way for way in ways_asked("", run) if way.name not in asked and way.run.lora]
    small = replace(run, precision="bf16", optimizer="adamw8bit")
    options = ("--precision bf16", "--optimizer adamw8bit")
    if "All weights" in asked:
        others.append(Way("all weights in bf16 with 8-bit AdamW", options, small))
    found = []
    for way in others:
        report = _report(assumed, way.on(numbers.gpus).run, card)
        if report["verdict"] in ("fits", "tight"):
            tightly = "" if report["verdict"] == "fits" else ", tightly"
            found.append(f"{way.name} (about {report['need_gib']:.0f} GiB{tightly})")
    if "All weights" in asked:
        gpus = _enough(assumed, run, card, above=numbers.gpus)
        found += [f"for all weights {gpus} of these cards with FSDP or ZeRO-3"] if gpus else []
    return [f"What would do: {'; '.join(found)}."] if found else []


def _enough(assumed: Assumed, run: Run, card: tuple[str, float], above: int = 0) -> int:
    """How many cards that share all states hold a run, in steps of twice as many; 0 if none do."""
    for gpus in COUNTS:
        way = Way("", (), run).on(gpus)
        if gpus > above and _report(assumed, way.run, card)["need_gib"] <= card[1]:
            return gpus
    return 0


def _need(assumed: Assumed, numbers: Numbers, ways: list[Way]) -> list[str]:
    """What each way needs, where no card is named."""
    needs = []
    for way in ways:
        report = _report(assumed, way.on(numbers.gpus).run, None)
        need = report["need_gib"]
        roomy = [(gib, card) for card, gib in GPUS.items() if gib >= need]
        fits = f"which {min(roomy)[1]} holds" if roomy else "more than any single card has"
        needs.append(f"{way.name} about {need:.0f} GiB, {fits}")
    where = f" on each of {numbers.gpus} GPUs that share it" if numbers.gpus > 1 else ""
    first = "; ".join(needs)
    sentences = [f"{first}{where}."]
    full = next((way for way in ways if way.name == "All weights"), None)
    if full and numbers.gpus == 1:
        card = (USUAL_CARD, GPUS[USUAL_CARD])
        gpus = _enough(assumed, full.run, card)
        also = f"All weights: {gpus} × {USUAL_CARD} with FSDP or ZeRO-3." if gpus > 1 else ""
        sentences += [also] if also else []
    return [*sentences, _by(assumed, numbers, ways[0].on(numbers.gpus))]


def _how_many(assumed: Assumed, numbers: Numbers, ways: list[Way]) -> list[str]:
    """How many cards that share all states hold each way, in steps of twice as many."""
    card = numbers.card or (USUAL_CARD, GPUS[USUAL_CARD])
    ways = sorted(ways, key=lambda way: way.run.lora)  # all weights first
    counts, first = [], None
    for way in ways:
        gpus = _enough(assumed, way.run, card)
        if not gpus:
            continue
        report = _report(assumed, way.on(gpus).run, card)
        is_open = "" if report["verdict"] == "fits" else ", tightly"
        counts.append(
            f"{gpus} × {card[0]} for {_lower(way.name)}{is_open}: about "
            f"{report['need_gib']:.0f} GiB on each, of {card[1]:.0f}"
        )
        first = first or way.on(gpus)
    if not first:
        return []
    return [f"{'; '.join(counts)}.", _by(assumed, replace(numbers, gpu=numbers.gpu or ""), first)]


def _by(assumed: Assumed, numbers: Numbers, way: Way) -> str:
    """The command that reckons, and what it assumes of the model."""
    run = way.run
    options = [f"--parameters {numbers.parameters}", *way.options, "--checkpointing"]
    options += [f"--batch {run.batch}"] if run.batch > 1 else []
    options += [f"--sequence {run.sequence}"] if numbers.sequence else []
    card = numbers.gpu or (f"{numbers.gib}" if numbers.gib else "")
    card = card or (USUAL_CARD if run.gpus > 1 else "")
    options += [f"--gpu {card}"] if card else []
    size = f" {numbers.gpu} was assumed for its size." if numbers.gpu_is_assumed else ""
    return (
        f"Assumed: a batch of {run.batch} × {run.sequence} tokens on each GPU, AdamW in mixed "
        f"bf16, activation checkpointing, {_shape(assumed)}. "
        f"`rgt fit {' '.join(options)}` shows the arithmetic and what each change saves.{size}"
    )


def _shape(assumed: Assumed) -> str:
    return assumed.sentence.removeprefix("assumed: ").partition(";")[0]


def _fit_images(line: str, numbers: Numbers) -> list[str]:
    """What the states of an image model take; of its activations, images decide."""
    from ..fit.image_models import IMAGE_MODELS
    from ..fit.training_memory import GIB, estimate
    from ..fit.training_run import Run
    from ..fit.usual_shapes import assumed_model
    from ..numbers.memory import CONTEXT

    weights = IMAGE_MODELS[numbers.image_model].weights
    assumed = assumed_model(weights)
    ways = ways_asked(line, Run(sequence=1, checkpointing=True))
    if all(way.name == "LoRA" for way in ways):
        eight = Way("LoRA on an 8-bit base", (), replace(ways[0].run, precision="8bit"))
        ways = [*ways, eight, *ways_asked("qlora", replace(ways[0].run, lora=0))]
    if all(way.name == "All weights" for way in ways):
        small = replace(ways[0].run, precision="bf16", optimizer="adamw8bit")
        ways = [*ways, Way("all weights in bf16 with 8-bit AdamW", (), small)]
    needs = []
    for way in ways:
        size = estimate(assumed.model, way.on(numbers.gpus).run).states / GIB + CONTEXT
        text = f"{_lower(way.name)} about {size:.0f} GiB"
        if numbers.card:
            left = numbers.card[1] - size
            text += " (doesn't fit)" if left < 0 else f" ({left:.0f} left)"
        needs.append(text)
    of = f", of {numbers.card[1]:.0f} GiB" if numbers.card else ""
    where = f" on each of {numbers.gpus} GPUs with FSDP or ZeRO-3" if numbers.gpus > 1 else ""
    return [
        f"Weights, gradients and AdamW of {numbers.image_model} alone take{where}: "
        f"{'; '.join(needs)}{of}.",
        "Activations come on top; the size of images and the batch decide them, so begin with a "
        "batch of 1, activation checkpointing, and latents and text embeddings computed beforehand "
        "(`rgt lookup --id M13`).",
        f"Assumed: {weights / 1e9:g} billion weights in its denoiser, no text encoder or VAE on "
        "the card. `rgt fit FILE.py:NAME --input SIDES` counts the activations of your own code.",
    ]


def rule(line: str, numbers: Numbers) -> list[str]:
    """What a weight takes, for a model whose number of weights isn't said."""
    return [
        "By the number of weights: about 16 bytes for each weight that is trained (AdamW), 2 "
        "for each that is frozen under LoRA, 0.6 under QLoRA: for 7B 112, 14 and 4 GB. Activations "
        "come on top; the batch, the length and the size of images decide them.",
        "`rgt fit config.json` reckons it line by line, or `rgt fit --parameters 7B --gpu "
        "A100-80GB` with your numbers, and what each change saves.",
    ]


def arithmetic(line: str, numbers: Numbers) -> list[str]:
    """How the memory of training is reckoned: the bytes of each weight."""
    if not _ABOUT_ROOM.search(line):
        return []
    said = numbers.parameters or "7B"
    from ..fit.model_config import weight_count
    from ..text import BadRequest

    try:
        weights = weight_count(said)
    except BadRequest:
        return []
    return [
        f"Each trained weight takes 16 bytes: 4 for itself in fp32, 4 for its gradient, and 4 + 4 "
        f"for AdamW's two moments; for {said} that is {weights * 16 / 1e9:,.0f} GB, before "
        "activations.",
        f"In mixed precision by ZeRO or FSDP it is 16 as well: 2 + 2 in 16 bit and 12 in fp32. "
        f"With LoRA only the frozen weights count in full, at 2 bytes: {weights * 2 / 1e9:,.0f} GB "
        "(`rgt lookup --id M1`).",
        f"`rgt fit --parameters {said}` shows it line by line, with activations.",
    ]


def disk(line: str, numbers: Numbers) -> list[str]:
    """What checkpoints of a model of so many weights take."""
    if not numbers.parameters:
        return []
    from ..fit.model_config import weight_count
    from ..text import BadRequest

    try:
        weights = weight_count(numbers.parameters)
    except BadRequest:
        return []
    one, base = weights * OF_CHECKPOINT / 1e9, weights * OF_BF16 / 1e9
    room = _tens_up(3 * one + base)
    return [
        f"A checkpoint of {numbers.parameters} weights that are all trained takes about "
        f"{one:,.0f} GB: {OF_CHECKPOINT} bytes a weight, as float32 with the two moments of AdamW. "
        f"Two that are kept, one that is being written and the base in bf16 ({base:,.0f} GB) take "
        f"{room:,} GB. With LoRA a checkpoint has a few hundred MB, and the base stays.",
        f"`rgt profile --need disk={room}` lists the platforms whose boxes have so much.",
    ]


def _tens_up(size: float) -> int:
    """A number of GB, rounded up to tens."""
    return int(-(-size // 10) * 10)


def choice(line: str, numbers: Numbers) -> list[str]:
    """What tells two cards apart: whether the model fits one of them."""
    cards = list(dict.fromkeys(card for *_, card, _ in cards_named(line)))
    named = {re.sub(r"-\d+GB$|-NVL$", "", card): card for card in reversed(cards)}
    if len(named) < 2:
        return []
    shown = list(reversed(named.values()))[:3]
    each = ", ".join(f"{card} {GPUS[card]:.0f} GiB" for card in shown)
    weights = f"--parameters {numbers.parameters}" if numbers.parameters else "config.json"
    return [
        f"Memory isn't pooled: each card must hold its share, {each}. What one card can't hold has "
        "to be divided over several (`--sharding fsdp`), which costs traffic at each step.",
        " and ".join(f"`rgt fit {weights} --gpu {card}`" for card in shown)
        + " say whether your model fits, and what each change saves.",
    ]
