"""The command `fit`: does training a model fit a GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..fit import model_config, training_memory, training_run
from ..fit.memory_report import memory_report, solution
from ..fit.solve import UNITS
from ..fit.traced_model import check_run
from ..fit.traced_report import traced_report, traced_solution
from ..text import BadRequest
from ..text.masking import shown
from . import fit_module, terminal
from .completion import files, gpus
from .parsing import OneOf, command

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
NEEDED = ("layers", "hidden", "heads", "vocabulary")  # without a config.json
# What a config.json of a usual decoder says and no option does.
USUAL = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": False}
MODEL = "pass a model's config.json, such as huggingface.co/ORGANIZATION/MODEL/raw/main/config.json"
SOLVED = ("batch", "sequence", "lora", "gpu")
SHOWN = 0.92  # of a card's memory: what the least of the known cards shows
MAKERS = ("NVIDIA", "Tesla")  # before a card's name, as drivers write it


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
    help="the model's config.json, which the options to --vocabulary stand for, or FILE.py:NAME: a "
    "class or function of yours that gives a torch model",
)
@click.option("--parameters", metavar="N", help="number of weights, such as 7B")
@whole("layers", None, f"as {SHAPE['layers']}")
@whole("hidden", None, f"as {SHAPE['hidden']}")
@whole("heads", None, f"as {SHAPE['heads']}")
@whole("kv-heads", None, f"as {SHAPE['kv_heads']}")
@whole("intermediate", None, f"as {SHAPE['intermediate']}")
@whole("vocabulary", None, f"as {SHAPE['vocabulary']}")
@whole("batch", 1, "samples on each GPU (default: 1)")
@whole("sequence", None, "tokens of each (default: an image's, or 2048 if the model takes so many)")
@whole("accumulation", 1, "batches per step (default: 1)")
@kind(
    "precision",
    training_run.PRECISIONS,
    "bf16-mixed",
    "8bit, 4bit: LoRA's base; 4bit-bf16: all else in bf16",
)
@kind(
    "optimizer",
    training_memory.OPTIMIZERS,
    "adamw",
    "adamw is the fused one, adamw-foreach torch's own default",
)
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
    help="a card, such as H100-80GB, or the GiB that nvidia-smi shows for it",
)
@click.option(
    "--solve",
    type=OneOf(SOLVED),
    metavar="WHAT",
    help=f"the largest that fits --gpu, or the smallest card and the cheapest of the dated prices: "
    f"{', '.join(SOLVED)}",
)
@click.option("--model-args", metavar="JSON", help="arguments of NAME, such as '{\"width\": 512}'")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="SIDES",
    help="one sample that NAME's model takes: 3x224x224, or int:512 for words; repeatable",
)
@click.option(
    "--python",
    default="",
    metavar="PATH",
    shell_complete=files,
    help="the Python that has NAME's torch (default: python3)",
)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def fit(
    config: str | None,
    parameters: str | None,
    gpu: str | None,
    solve: str | None,
    model_args: str | None,
    inputs: tuple[str, ...],
    python: str,
    as_json: bool,
    **options: Any,
) -> int:
    """Reckon the memory of weights, gradients, optimizer state, activations and logits on each GPU,
    line by line, and what each change would save, with its entry. Weights are those that
    transformers counts, for the types that it knows; what isn't covered is said. Of experts, LoRA
    trains what the named versions of peft and transformers make of "all-linear"; those of 2025 make
    another number.

    FILE.py:NAME runs your code, in a process of its own without a GPU. The model is built on
    torch's meta device, where weights take no memory, and run on --input to count what it keeps.

    Exit 0: fits, or is tight: fits as estimated, but may need more than the card has. Exit 1:
    doesn't fit. Exit 2: the request can't be used, or nothing says whether it
    fits.
    """
    shape = {field: options.pop(option) for option, field in SHAPE.items()}
    card = _card(gpu) if gpu is not None else None
    if own := fit_module.named(config or ""):
        given = [option for option, field in SHAPE.items() if shape[field] is not None]
        given += ["parameters"] * bool(parameters) + ["sequence"] * bool(options["sequence"])
        if given:
            raise BadRequest(
                f"--{given[0].replace('_', '-')} is for a config.json; give --model-args or --input"
            )
        run = check_run(training_run.check(training_run.Run(**{**options, "sequence": 1})))
        with terminal.waiting(f"building {own[1]} of {shown(own[0], 80)}, and counting …"):
            traced = fit_module.counted(*own, model_args, inputs, run, python)
        report = traced_report(traced, run, card, own[1])
        if solve:
            report["solved"] = _with_prices(
                solve, traced_solution(traced, run, solve, card), report
            )
        return _told(report, as_json)
    if model_args or inputs or python:
        raise BadRequest("--model-args, --input and --python are for FILE.py:NAME; name the model")
    shape = {name: size for name, size in shape.items() if size is not None}
    if parameters and not config and not shape:
        raise BadRequest(
            "--parameters alone doesn't say what the activations take; pass the model's "
            "config.json too, or --layers, --hidden, --heads and --vocabulary"
        )
    model = _model(config, shape)
    if parameters:
        model = replace(model, weights=model_config.weight_count(parameters))
    asked = options["sequence"]
    options["sequence"] = training_run.length_of(model, asked)
    run = training_run.check(training_run.Run(**options))
    report = memory_report(model, run, card)
    report["remarks"] = training_memory.left_unquantized(model, run)
    if solve != "sequence":
        report["remarks"] += training_run.remarks(model, run, asked)
    if solve:
        report["solved"] = _with_prices(solve, solution(model, run, solve, card), report)
    return _told(report, as_json)


def _with_prices(what: str, found: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    """What was solved for; for a card, with the cheapest of the dated prices that has room."""
    if what != "gpu":
        return {"what": what, **found}
    from ..platforms import prices, profile

    room = report["need_gib"] * (1 + (report["uncertain"] or 0.0))
    today = date.today()
    offers = prices.cheapest(profile.load(), room, today)
    told = [
        {**asdict(offer), "day": offer.day.isoformat(), "past": offer.past(today)}
        for offer in offers
    ]
    return {"what": what, **found, "cheapest": told}


def _told(report: dict[str, Any], as_json: bool) -> int:
    """Print the report, and return the exit code."""
    print(json.dumps(report, ensure_ascii=False, indent=1) if as_json else _as_text(report))
    return _exit_code(report)


def _exit_code(report: dict[str, Any]) -> int:
    """0 where the run, or what was solved for, fits, 1 where it doesn't, 2 where it isn't known."""
    if solved := report.get("solved"):
        found = solved.get("least") or solved.get("largest")
        return 0 if found and found.get("value", 1) else 1
    return {training_memory.DOES_NOT_FIT: 1, training_memory.NOT_KNOWN: 2}.get(report["verdict"], 0)


def _as_text(report: dict[str, Any]) -> str:
    """The estimate for a person: the verdict, the arithmetic, the changes, the verdict again."""
    lines = [_headline(report), "", f"most is taken {report['moment']}, in GiB:"]
    lines += _arithmetic(report)
    if report["levers"]:
        lines += ["", "each of these alone would save, in GiB:"]
        lines += [_lever(lever) for lever in report["levers"]]
    if report["not_counted"]:
        lines += ["", f"not counted: {', '.join(report['not_counted'])}"]
    if together := report["together"]:
        lines += ["", f"{together['options']} together: {together['need_gib']:.1f} GiB"]
    lines += [f"note: {remark}" for remark in report.get("remarks", [])]
    lines += ["", f"weights: {report['weights']:,}, by {report['weights_by']}"]
    lines += [_solved(report)] if "solved" in report else []
    return "\n".join([*lines, _last_line(report)])


def _last_line(report: dict[str, Any]) -> str:
    """The verdict with unit and uncertainty."""
    need, card, off = report["need_gib"], report["gpu"], report["uncertain"]
    verdict = f"{report['verdict']}: " if card else ""
    of = f" of {card['gib']:.1f} GiB" if card else ""
    if on_top := report["on_top"]:
        return f"{verdict}at least {need:.1f} GiB{of} on each GPU; on top: {', '.join(on_top)}"
    if off is None:
        return f"{verdict}about {need:.1f} GiB{of} on each GPU; how far off isn't known"
    return (
        f"{verdict}{need:.1f} GiB{of} on each GPU, give or take {off:.0%} "
        f"({need * (1 - off):.1f} to {need * (1 + off):.1f} GiB)"
    )


def _solved(report: dict[str, Any]) -> str:
    """What `--solve` found, by the estimate and with room for its uncertainty."""
    solved, off = report["solved"], f"{report['uncertain']:.0%}"
    if solved["what"] == "gpu":
        least, safe = solved["least"], solved["safe"]
        if not least:
            return "smallest card: none that fit knows has so much memory"
        told = f"smallest card: {least['gpu']} ({least['gib']:.1f} GiB)"
        told += f"; with {off} of room: {safe['gpu'] if safe else 'none'}"
        return "\n".join([told, *(_price(offer, off) for offer in solved["cheapest"])])
    largest, safe, what = solved["largest"], solved["safe"], solved["what"]
    if not largest["value"]:
        return f"largest {what}: none; 1 needs {largest['need_gib']:.1f} GiB"
    told = f"largest {what}: {_found(largest)} ({UNITS[what]}), needs {largest['need_gib']:.1f} GiB"
    return f"{told}; with {off} of room: {_found(safe)}"


def _found(solved: dict[str, Any]) -> str:
    """The largest value, and whether more may fit."""
    more = ", where the search ends: more may fit" if solved["capped"] else ""
    return f"{solved['value'] or 'none'}{more}"


def _price(offer: dict[str, Any], off: str) -> str:
    """One dated price, with what to think of it."""
    old = ", past 90 days: look again" if offer["past"] else ""
    whose = "" if offer["confirmed"] else ", not the platform's own word"
    return (
        f"cheapest dated price with {off} of room: {offer['gpu']} at {offer['platform']}, "
        f"{offer['an_hour']:g} {offer['currency']} an hour on {offer['day']}{old}{whose}"
    )


def _headline(report: dict[str, Any]) -> str:
    off = report["uncertain"]
    least = "at least" if report["on_top"] else "about"
    need = f"needs {least} {report['need_gib']:.1f} GiB on each GPU"
    if off and report["verdict"] == training_memory.TIGHT:
        need += f", may need {report['need_gib'] * (1 + off):.1f}"
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
        missing = [name for name in NEEDED if SHAPE[name] not in shape]
        if missing:
            raise BadRequest(f"no config.json says --{missing[0]}; give it too")
        return replace(model_config.model_of({**USUAL, **shape}), guessed="")
    raise BadRequest(f"no model given; {MODEL}, or --layers, --hidden, --heads and --vocabulary")


def _read(config: str) -> bytes:
    """The file, and one byte more than it may have. Raises BadRequest."""
    try:
        with Path(config).expanduser().open("rb") as file:
            return file.read(model_config.MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no file has such a name"
        raise BadRequest(f"can't read {config[:200]!r}: {why}; {MODEL}") from None


def _card(name: str) -> tuple[str, float]:
    """The card of a name, and its memory in GiB. Raises BadRequest.

    Names are those of `rgt health --expect name=`, by its table, or the driver's.
    """
    from ..gpu_health.box_check.cards import sku_of
    from ..gpu_health.box_check.names import did_you_mean, meant_by
    from ..platforms.cards import GPUS, SeveralCards, gpu_named

    cards = dict(_of_sku(sku, name) for sku in meant_by(name))
    sizes = set(cards.values())
    if len(sizes) > 1:
        raise BadRequest(
            f"{name[:40]!r} names several cards, which differ in memory; "
            f"give one of {', '.join(sorted(cards))}, or the memory in GiB"
        )
    for gib in sizes:
        if gib is None:
            raise BadRequest(f"fit doesn't know the memory of {name[:40]!r}; give it in GiB")
        return (next(iter(cards)) if len(cards) == 1 else name), gib
    try:
        card = gpu_named(name)
    except SeveralCards as error:
        raise BadRequest(str(error)) from None
    if card:
        return card
    if sku := sku_of(name):
        return name, round(SHOWN * sku["vram_gib"], 1)
    nearest = did_you_mean(name)
    hint = (
        f"did you mean {nearest[0]}? (its memory in GiB will do too)"
        if nearest
        else f"give its memory in GiB, or one of {', '.join(GPUS)}"
    )
    raise BadRequest(f"unknown GPU {name[:40]!r}; {hint}")


def _of_sku(sku: str, name: str) -> tuple[str, float | None]:
    """What `fit` calls a card of health's table, and its memory in GiB, None where it isn't known.

    That is what CUDA shows of it, or a share of what is sold: of several sizes the one that `name`
    says, or the smallest.
    """
    from ..gpu_health.box_check.cards import sku_of
    from ..gpu_health.box_check.names import NAME_TABLE, meant_by
    from ..logs.kernel.tables import rows_of
    from ..platforms.cards import GPUS

    for known, gib in GPUS.items():
        if sku in meant_by(known):
            return known, gib
    drivers, *ways = next(row[1:] for row in rows_of(NAME_TABLE) if row[0] == sku)
    own, sold = _sizes(sku), _sizes(" ".join(ways))
    said = [size for size in sold if size in _sizes(name)]
    called = [f"{maker} {word.strip()}" for maker in MAKERS for word in (sku, *drivers.split(","))]
    table = [found["vram_gib"] for found in map(sku_of, called) if found]
    size = min(own or said or table or sold, default=0)
    return sku, round(SHOWN * size, 1) if size else None


def _sizes(text: str) -> list[int]:
    """The numbers of GB in a name."""
    return [int(size) for size in re.findall(r"(\d+) ?gb?\b", text.lower())]
