"""The command `fit`: does training a model fit a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..fit import model_config, training_memory, training_run
from ..fit.memory_report import memory_report
from ..text import BadRequest
from .completion import files, gpus
from .parsing import OneOf, command, near

if TYPE_CHECKING:
    from ..fit.model_shape import Model

SHAPE = {  # options that stand for fields of a config.json
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "intermediate": "intermediate_size",
    "vocabulary": "vocab_size",
}
# What a config.json of a usual decoder says and no option does.
USUAL = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": False}
NEAR_GPU = 0.7  # "H100-80G" is near H100-80GB; "H10O" might be several cards, so none is named


def whole(name: str, default: int | None, text: str, metavar: str = "N") -> Callable[..., Any]:
    """An option that takes a whole number."""
    return click.option(f"--{name}", type=int, default=default, metavar=metavar, help=text)


def kind(name: str, choices: Iterable[str], default: str, text: str) -> Callable[..., Any]:
    """An option that takes one of several words."""
    about = f"{text}: {', '.join(choices)} (default: {default})"
    return click.option(
        f"--{name}", type=OneOf(choices), default=default, metavar="KIND", help=about
    )


@command("fit")
@click.argument(
    "config",
    required=False,
    metavar="[FILE]",
    shell_complete=files,
    help="the model's config.json; the options to --vocabulary stand for it, or for its fields",
)
@click.option("--parameters", metavar="N", help="number of weights, such as 7B")
@whole("layers", None, f"as {SHAPE['layers']}")
@whole("hidden", None, f"as {SHAPE['hidden']}")
@whole("heads", None, f"as {SHAPE['heads']}")
@whole("kv-heads", None, f"as {SHAPE['kv_heads']}")
@whole("intermediate", None, f"as {SHAPE['intermediate']}")
@whole("vocabulary", None, f"as {SHAPE['vocabulary']}")
@whole("batch", 1, "samples on each GPU (default: 1)")
@whole("sequence", 2048, "tokens of each (default: 2048)")
@whole("accumulation", 1, "batches per step (default: 1)")
@kind(
    "precision",
    training_run.PRECISIONS,
    "bf16-mixed",
    "8bit, 4bit: LoRA's base; 4bit-bf16: all else in bf16",
)
@kind("optimizer", training_memory.OPTIMIZERS, "adamw", "adamw is the fused one")
@kind("sharding", training_run.SHARDINGS, "none", "how GPUs divide the states")
@kind("attention", training_run.ATTENTIONS, "sdpa", "what computes attention")
@kind("targets", training_run.TARGETS, "all-linear", "which matrices get LoRA")
@whole("lora", 0, "train adapters only", metavar="RANK")
@whole("gpus", 1, "GPUs that share the run (default: 1)")
@click.option("--checkpointing", is_flag=True, help="keep only the inputs of layers")
@click.option("--chunked-loss", is_flag=True, help="logits in eight pieces, as Liger does")
@click.option("--offload", is_flag=True, help="optimizer state on the host")
@click.option(
    "--gpu",
    metavar="NAME",
    shell_complete=gpus,
    help="a card, such as H100-80GB, or its memory in GiB",
)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def fit(
    config: str | None, parameters: str | None, gpu: str | None, as_json: bool, **options: Any
) -> int:
    """Reckon the memory of weights, gradients, optimizer state, activations and logits on each GPU,
    line by line, and what each change would save, with its entry.

    Exit 0: fits. Exit 1: doesn't fit. Exit 2: the request can't be used.
    """
    shape = {field: options.pop(option) for option, field in SHAPE.items()}
    model = _model(config, {name: size for name, size in shape.items() if size is not None})
    if parameters:
        model = replace(model, weights=model_config.weight_count(parameters))
    run = training_run.check(training_run.Run(**options))
    report = memory_report(model, run, _card(gpu) if gpu is not None else None)
    print(json.dumps(report, ensure_ascii=False, indent=1) if as_json else _as_text(report))
    return 1 if report["verdict"] == training_memory.DOES_NOT_FIT else 0


def _as_text(report: dict[str, Any]) -> str:
    """The estimate for a person: the verdict, the arithmetic, the changes."""
    lines = [_headline(report), "", f"most is taken {report['moment']}, in GiB:"]
    lines += _arithmetic(report)
    if report["levers"]:
        lines += ["", "each of these alone would save, in GiB:"]
        lines += [_lever(lever) for lever in report["levers"]]
    if report["not_counted"]:
        lines += ["", f"not counted: {', '.join(report['not_counted'])}"]
    if together := report["together"]:
        lines += ["", f"{together['options']} together: {together['need_gib']:.1f}"]
    return "\n".join(lines)


def _headline(report: dict[str, Any]) -> str:
    need = f"needs about {report['need_gib']:.1f} GiB on each GPU"
    if card := report["gpu"]:
        return f"{report['verdict']}: {need}, {card['name']} has {card['gib']:.1f}"
    return need


def _arithmetic(report: dict[str, Any]) -> list[str]:
    """What each part takes, and how that is reckoned."""
    context = "CUDA context"
    width = max(len(name) for name in (context, *(line["what"] for line in report["lines"])))
    rows = [
        f"  {line['what']:{width}} {line['gib']:9.2f}  {line['arithmetic']}"
        for line in report["lines"]
    ]
    rows.append(f"  {context:{width}} {report['context_gib']:9.2f}  the most that is usual")
    rows.append(f"  {'together':{width}} {report['need_gib']:9.2f}")
    return rows


def _lever(lever: dict[str, Any]) -> str:
    then = f", then {lever['verdict']}" if lever["verdict"] else ""
    change = f"{lever['change']} [{lever['entry']}]: {lever['options']}"
    return f"  {lever['saves_gib']:9.2f}  {change}{then}"


def _model(config: str | None, shape: dict[str, int]) -> Model:
    """The model of a config.json, or of a shape alone. Raises BadRequest."""
    if config:
        return model_config.read_config(_read(config), shape)
    if shape:
        return model_config.model_of({**USUAL, **shape})
    raise BadRequest("no model given; pass its config.json, or --layers, --hidden and others")


def _read(config: str) -> bytes:
    """The file, and one byte more than it may have. Raises BadRequest."""
    try:
        with Path(config).expanduser().open("rb") as file:
            return file.read(model_config.MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no file has such a name"
        raise BadRequest(
            f"can't read {config[:200]!r}: {why}; pass a model's config.json"
        ) from None


def _card(name: str) -> tuple[str, float]:
    """The card of a name, and its memory in GiB. Raises BadRequest."""
    from ..health.box_check.cards import sku_of
    from ..platforms.cards import GPUS, SeveralCards, gpu_named

    try:
        card = gpu_named(name)
    except SeveralCards as error:
        raise BadRequest(str(error)) from None
    if card:
        return card
    if sku := sku_of(name):
        return name, round(0.92 * sku["vram_gib"], 1)  # what the least of the known cards shows
    nearest = near(name, GPUS, NEAR_GPU)
    hint = (
        f"did you mean {nearest}? (its memory in GiB will do too)"
        if nearest
        else f"give its memory in GiB, or one of {', '.join(GPUS)}"
    )
    raise BadRequest(f"unknown GPU {name[:40]!r}; {hint}")
