"""What `rgt fit` answers for a model by its config.json, its name or its size. The tool answers it
too."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..fit import denoisers, model_config, training_memory, training_run
from ..fit.memory_report import memory_report, solution
from ..fit.traced_report import traced_report, traced_solution
from ..fit.usual_shapes import assumed_model
from ..platforms.cards import SeveralCards
from ..text import BadRequest
from ..text.masking import shown

if TYPE_CHECKING:
    from ..fit.denoisers import Denoiser
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
MODEL = "pass a model's config.json, or its name on the Hub, such as Qwen/Qwen2.5-7B"
SHOWN = 0.92  # of a card's memory: what the least of the known cards shows
FAR = 1.15  # times: sizes that differ less are two ways to write one, such as 180 and 192 GB
ONE_SIZE = ("A16",)  # four GPUs of 16 GB, which also go by the 64 of the board
MAKERS = ("NVIDIA", "Tesla")  # before a card's name, as drivers write it
SOLVED = ("batch", "sequence", "lora", "gpu")
CHOICES = {
    "precision": training_run.PRECISIONS,
    "optimizer": training_memory.OPTIMIZERS,
    "sharding": training_run.SHARDINGS,
    "attention": training_run.ATTENTIONS,
    "targets": training_run.TARGETS,
}


def read_options(given: dict[str, Any]) -> dict[str, Any]:
    """Return options of a run that come from no command line. Raises BadRequest for others."""
    for name, value in given.items():
        usual = getattr(training_run.Run, name, None)
        if usual is None:
            known = ", ".join(field.name for field in fields(training_run.Run))
            raise BadRequest(f"options: no {shown(name, 40)!r}; use {known}")
        if type(value) is not type(usual):
            kind = {bool: "true or false", int: "a whole number", str: "a text"}[type(usual)]
            raise BadRequest(f"options: {name} must be {kind}")
        if name == "precision":
            given = {**given, name: (value := training_run.CALLED.get(value, value))}
        if name in CHOICES and value not in CHOICES[name]:
            raise BadRequest(f"options: {name} must be one of {', '.join(CHOICES[name])}")
    return given


@dataclass(frozen=True)
class Asked:
    """What is asked of which model.

    `config`: the path of a config.json, or a name on the Hub. `shape`: fields of it. `parameters`:
    the number of weights, such as 7B. `transformers`: 4 or 5, None for the one installed. `solve`:
    what is to be found, None for nothing.
    """

    config: str | None
    shape: dict[str, int]
    parameters: str | None = None
    transformers: str | None = None
    solve: str | None = None


def reckon(asked: Asked, card: tuple[str, float] | None, options: dict[str, Any]) -> dict[str, Any]:
    """Return the report on a model's training, as `rgt fit --json` prints it. Raises BadRequest.

    `card`: its name and its memory in GiB. `options`: fields of `Run`; a `sequence` of None is the
    usual length.
    """
    if found := _denoiser(asked):
        return _reckon_denoiser(asked, found, card, options)
    model, assumed = _model(asked.config, asked.shape, asked.parameters)
    if (asked.transformers or _installed()) == "4":
        model = model_config.with_linear_experts(model)
    length, solve = options["sequence"], asked.solve
    options = {**options, "sequence": training_run.length_of(model, length)}
    run = training_run.check(training_run.Run(**options))
    report = memory_report(model, run, card)
    report["remarks"] = [*assumed, *training_memory.left_unquantized(model, run)]
    if run.gpus == 1 and run.sharding != "none":
        report["remarks"].append(
            f"{run.sharding} over one GPU divides nothing; --gpus N says over how many"
        )
    if run.gpus > 1 and run.sharding == "none":
        report["remarks"].append(
            f"each of the {run.gpus} GPUs holds all of it; --sharding fsdp divides it"
        )
    if solve != "sequence":
        report["remarks"] += training_run.remarks(model, run, length)
    if solve:
        report["solved"] = with_prices(solve, solution(model, run, solve, card), report)
    report["measured"] = measured_like(model.kind, model.total(), run, run.sequence)
    return report


def _denoiser(asked: Asked) -> Denoiser | None:
    """The denoiser of a pipeline that is asked for by its name. Raises BadRequest for options."""
    found = denoisers.denoiser_of(asked.config) if asked.config else None
    if found and not os.path.lexists(str(asked.config)) and (asked.shape or asked.parameters):
        raise BadRequest(f"{asked.config}: a pipeline's shape is known; leave out what names one")
    return found


def _reckon_denoiser(
    asked: Asked, denoiser: Denoiser, card: tuple[str, float] | None, options: dict[str, Any]
) -> dict[str, Any]:
    """The report on training a pipeline's denoiser. Raises BadRequest."""
    if options["sequence"]:
        raise BadRequest("--sequence is for words; images of the usual size decide the tokens here")
    run = training_run.check(training_run.Run(**{**options, "sequence": 1}))
    model, name = denoisers.as_traced(denoiser, run), str(asked.config)
    report = traced_report(model, run, card, f"the denoiser of {name}")
    report["remarks"] = denoisers.remarks(denoiser)
    if asked.solve:
        found = traced_solution(model, run, asked.solve, card)
        report["solved"] = with_prices(asked.solve, found, report)
    report["measured"] = measured_like(name, model.weights, run, 0)
    return report


def _installed() -> str:
    """The first number of the version of transformers beside this program, 5 without one."""
    try:
        return metadata.version("transformers").partition(".")[0]
    except metadata.PackageNotFoundError:
        return "5"


def measured_like(kind: str, weights: int, run: training_run.Run, sequence: int) -> list[str]:
    """What was measured of like runs, here and by others, a line each."""
    from ..fit.measured import like, method_of, published
    from . import measured_runs

    rows = [*measured_runs.every(), *published()]
    found = like(rows, kind, weights, method_of(run), run.batch, sequence)
    return [shown(row.describe(), 400) for row in found]


def with_prices(what: str, found: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    """What was solved for; for a card, with the cheapest of the dated prices that has room."""
    if what != "gpu":
        return {"what": what, **found}
    from ..platforms import prices, profile

    room = report["need_gib"] * (1 + (report["uncertain"] or 0.0))
    today = date.today()
    offers = prices.cheapest(profile.load(), room, today)
    rows = [
        {**asdict(offer), "day": offer.day.isoformat(), "past": offer.past(today)}
        for offer in offers
    ]
    return {"what": what, **found, "cheapest": rows}


def _model(
    config: str | None, shape: dict[str, int], parameters: str | None
) -> tuple[Model, list[str]]:
    """The model of a config.json, of a shape or of a number alone, and what was assumed for it.

    Raises BadRequest.
    """
    weights = model_config.weight_count(parameters) if parameters else 0
    if config:
        data, notes = _config(config)
        return replace(model_config.read_config(data, shape), weights=weights), notes
    if shape:
        missing = [name for name in NEEDED if SHAPE[name] not in shape]
        if missing:
            raise BadRequest(f"no config.json says --{missing[0]}; give it too")
        model = model_config.model_of({**USUAL, **shape})
        return replace(model, guessed="", weights=weights), []
    if weights:
        assumed = assumed_model(weights)
        return assumed.model, [assumed.sentence]
    raise BadRequest(
        f"no model given; {MODEL}, or --parameters, or --layers, --hidden, --heads and --vocabulary"
    )


def _config(config: str) -> tuple[bytes, list[str]]:
    """The bytes of a config.json by its path or its name on the Hub, and where that was read.

    Raises BadRequest.
    """
    from . import hub

    if not os.path.lexists(os.path.expanduser(config)) and (found := hub.config_of(config)):
        return found.data, [found.note]
    return _read(config), []


def _read(config: str) -> bytes:
    """The file, and one byte more than it may have. Raises BadRequest."""
    try:
        with Path(config).expanduser().open("rb") as file:
            return file.read(model_config.MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no file has such a name"
        raise BadRequest(f"can't read {config[:200]!r}: {why}; {MODEL}") from None


def card_of(name: str) -> tuple[str, float]:
    """The card of a name, and its memory in GiB. Raises BadRequest.

    Names are those of `rgt health --expect name=`, by its table, or the driver's.
    """
    from ..gpu_health.box_check.cards import sku_of
    from ..gpu_health.box_check.names import did_you_mean, meant_by
    from ..platforms.cards import GPUS, gpu_named

    if typed := _of_typed_size(name):
        return typed
    cards = {card: gib for sku in meant_by(name) for card, gib in _of_sku(sku, name).items()}
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


def _of_typed_size(name: str) -> tuple[str, float] | None:
    """The card of a name with a size that no such card is sold with: it has what was typed.

    Such cards are rented too: an RTX 2080 Ti with 22 GB, an RTX 4090 with 48.
    """
    from ..gpu_health.box_check.names import meant_by
    from ..platforms.cards import gpu_named

    typed, plain = _sizes(name), re.sub(r"[-_ ]*\b\d+ ?gi?b?\b", "", name, flags=re.I).strip()
    if len(typed) != 1 or not plain or meant_by(name):
        return None
    try:
        known = meant_by(plain) or gpu_named(plain)
    except SeveralCards:
        known = True
    return (name, round(SHOWN * typed[0], 1)) if known else None


def _of_sku(sku: str, name: str) -> dict[str, float | None]:
    """What `fit` calls a card of health's table, and its memory in GiB, None where it isn't known.

    That is what CUDA shows of it, or a share of what is sold: of several sizes the one that `name`
    says, all of them where it says none.
    """
    from ..gpu_health.box_check.cards import sku_of
    from ..gpu_health.box_check.names import NAME_TABLE, meant_by
    from ..logs.kernel.tables import rows_of
    from ..platforms.cards import GPUS

    drivers, *ways = next(row[1:] for row in rows_of(NAME_TABLE) if row[0] == sku)
    own, sold = _sizes(sku), _sizes(" ".join(ways))
    said = [size for size in sold if size in _sizes(name)]
    several = not own and sku not in ONE_SIZE and max(sold, default=0) > FAR * min(sold, default=0)
    if several and not said:
        return {f"{sku} {size}GB": round(SHOWN * size, 1) for size in sorted(set(sold))}
    if several:
        return {f"{sku} {min(said)}GB": round(SHOWN * min(said), 1)}
    for known, gib in GPUS.items():
        if sku in meant_by(known):
            return {known: gib}
    called = [f"{maker} {word.strip()}" for maker in MAKERS for word in (sku, *drivers.split(","))]
    table = [found["vram_gib"] for found in map(sku_of, called) if found]
    size = min(own or said or table or sold, default=0)
    return {sku: round(SHOWN * size, 1) if size else None}


def _sizes(text: str) -> list[int]:
    """The numbers of GB in a name."""
    return [int(size) for size in re.findall(r"(\d+) ?gb?\b", text.lower())]
