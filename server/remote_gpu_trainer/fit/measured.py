"""Runs whose memory was measured: which of them are like another one, and what fit reckons for one.

`measured_runs.json` holds figures that others published, each with its address and date. What was
measured from here is a row of the same kind.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..text import BadRequest
from .model_config import model_of
from .model_shape import Model
from .training_memory import CONTEXT, GIB, estimate
from .training_run import Run

LIKE_TOKENS = 2.0  # times more or fewer tokens in a batch
LIKE_WEIGHTS = 1.35  # times more or fewer weights
MOST_LIKE = 4  # that are shown
METHODS = {"8bit": "8-bit LoRA", "4bit": "QLoRA", "4bit-bf16": "QLoRA"}
_ATTENTIONS = {"flash_attention_2": "flash", "flash_attention_3": "flash", "eager": "eager"}


@dataclass(frozen=True)
class Measured:
    """A run whose memory was measured, or that died for want of it.

    `kind`: the type of transformers, or the class of a model of one's own. `sequence`: tokens of a
    sample, 0 where it has none. `gib`: what a card showed at most, or what the source tells; where
    the run died, the card's memory. `estimate_gib`: what fit reckoned then, 0 where it didn't.
    `more`: what else is known of the run. `address` and `date`: of the source; a run of the user's
    own has no address.
    """

    model: str
    kind: str
    weights: float
    method: str
    batch: int
    sequence: int
    gib: float
    gpus: int = 1
    sharding: str = "none"
    checkpointing: bool | None = None
    died: bool = False
    more: str = ""
    estimate_gib: float = 0.0
    address: str = ""
    date: str = ""

    @property
    def tokens(self) -> int:
        """Return the tokens, or samples, of one batch."""
        return self.batch * (self.sequence or 1)

    def describe(self) -> str:
        """Return the run in a line: what it took, what it was, and who says so."""
        size = (
            f"{self.batch} × {self.sequence} tokens" if self.sequence else f"{self.batch} samples"
        )
        parts = [f"{self.model}, {self.method}", size]
        if self.gpus > 1:
            divided = "" if self.sharding == "none" else f", {self.sharding}"
            parts.append(f"{self.gpus} GPUs{divided}")
        if self.checkpointing is not None:
            parts.append("checkpointing" if self.checkpointing else "no checkpointing")
        parts += [self.more] if self.more else []
        what = f"died of {self.gib:g} GiB" if self.died else f"{self.gib:g} GiB"
        reckoned = f"; reckoned {self.estimate_gib:.1f}" if self.estimate_gib else ""
        source = f"{self.address}, {self.date}" if self.address else f"measured here, {self.date}"
        return f"{what}: {'; '.join(parts)}{reckoned} ({source})"


@lru_cache(maxsize=1)
def published() -> tuple[Measured, ...]:
    """Return the figures that others published."""
    text = Path(__file__).with_name("measured_runs.json").read_text("utf-8")
    return tuple(rows_of(json.loads(text)["rows"]))


def rows_of(values: Iterable[Any]) -> list[Measured]:
    """Return the rows of objects of JSON; what is no row is left out."""
    known = {field.name: field for field in fields(Measured)}
    found = []
    for value in values:
        try:
            row = Measured(**{key: value[key] for key in value if key in known})
            numbers = (row.weights, row.batch, row.sequence, row.gib, row.gpus, row.estimate_gib)
            texts = (row.model, row.kind, row.method, row.sharding, row.more, row.address, row.date)
            if all(isinstance(text, str) and text.isprintable() for text in texts) and all(
                type(number) in (int, float) and 0 <= number < 1e15 for number in numbers
            ):
                found.append(row)
        except TypeError:
            continue
    return found


def method_of(run: Run) -> str:
    """Return how the weights of a run are trained, as rows name it."""
    return METHODS.get(run.precision, "LoRA") if run.lora or run.quantized else "full"


def like(
    rows: Iterable[Measured], kind: str, weights: float, method: str, batch: int, sequence: int
) -> list[Measured]:
    """Return the rows of such a model, trained so on about as many tokens, the nearest first.

    Without a `kind` its size alone counts. Of two that are as near, the one that was measured here
    comes first.
    """
    tokens = batch * (sequence or 1)

    def distance(row: Measured) -> float:
        return abs(math.log(row.tokens / tokens))

    near = [
        row
        for row in rows
        if row.kind == (kind or row.kind)
        and row.method == method
        and bool(row.sequence) == bool(sequence)
        and min(row.weights, weights, row.tokens) > 0
        and abs(math.log(row.weights / weights)) <= math.log(LIKE_WEIGHTS)
        and distance(row) <= math.log(LIKE_TOKENS) + 1e-9
    ]
    return sorted(near, key=lambda row: (distance(row), bool(row.address)))[:MOST_LIKE]


@dataclass(frozen=True)
class Rehearsed:
    """What a rehearsal measured: its row, and what fit reckons beside it, or why it doesn't."""

    row: Measured
    estimate_gib: float
    why: str = ""


def rehearsed(record: dict[str, Any], date: str) -> Rehearsed | None:
    """Return what a rehearsal's record tells, None where no process trained that was looked into.

    `record`: as `runner/card_memory.py` writes it. Its cards are empty where none was measured.
    """
    process = next((one for one in record.get("processes") or [] if one.get("model")), None)
    if process is None:
        return None
    about, largest = process["model"], process.get("largest") or []
    died = bool(record.get("died"))
    shown = [
        card["total_mib"] if died else card["peak_mib"] - card["before_mib"]
        for card in record.get("cards") or []
    ]
    processes = record["processes"]
    kept = [card["reserved"] / GIB for one in processes for card in one.get("cards") or []]
    config = about.get("config") if isinstance(about.get("config"), dict) else {}
    words = len(largest) == 2 and bool(config)
    row = Measured(
        model=str(about.get("name") or about.get("class"))[:100],
        kind=str(config.get("model_type") or about.get("class"))[:60],
        weights=float(about.get("weights") or 0),
        method="full",
        batch=int(largest[0]) if largest else 1,
        sequence=int(largest[1]) if words else 0,
        gib=round(max(shown) / 1024 if shown else max(kept, default=0.0), 2),
        gpus=int(about.get("world") or 1),
        checkpointing=bool(about.get("checkpointing")),
        died=died,
        date=date,
    )
    try:
        run = run_of(about, row)
        model = model_of(config) if words else None
    except BadRequest as error:
        return Rehearsed(row, 0.0, str(error))
    row = _named(row, run, model)
    if model is None:
        return Rehearsed(row, 0.0, "the model has no config of transformers; try FILE.py:NAME")
    reckoned = round(estimate(model, run).peak / GIB + CONTEXT, 2)
    return Rehearsed(_with(row, estimate_gib=reckoned), reckoned)


def _named(row: Measured, run: Run, model: Model | None) -> Measured:
    """Return the row with what the run and the model say of it."""
    weights = model.total() if model else row.weights
    more = f"{run.precision}, {run.optimizer}" + (f", rank {run.lora}" if run.lora else "")
    return _with(
        row, weights=float(weights), method=method_of(run), sharding=run.sharding, more=more
    )


def _with(row: Measured, **changes: Any) -> Measured:
    return Measured(**{**vars(row), **changes})


def run_of(about: dict[str, Any], row: Measured) -> Run:
    """Return how a model was trained by what the probe saw of it. Raises BadRequest."""
    kinds, lora = about.get("types") or {}, int(about.get("lora") or 0)
    widest = max(kinds, key=lambda kind: kinds[kind], default="float32")
    if quantized := about.get("quantized"):
        precision = "4bit-bf16" if quantized == "4bit" and "float32" not in kinds else quantized
    elif widest == "float32":
        precision = "bf16-mixed" if about.get("autocast") else "fp32"
    else:
        precision = "bf16"
    stage = int(about.get("stage") or 0)
    sharding = f"zero{stage}" if stage else "fsdp" if about.get("sharded") else "none"
    if sharding == "none" and row.gpus > 1:
        sharding = "ddp"
    return Run(
        batch=row.batch,
        sequence=row.sequence or 1,
        precision=precision,
        optimizer=_optimizer_of(about),
        lora=lora,
        targets=_targets_of(about),
        sharding=sharding if row.gpus > 1 else "none",
        gpus=row.gpus,
        checkpointing=bool(about.get("checkpointing")),
        attention=_ATTENTIONS.get(about.get("attention") or "", "sdpa"),
        accumulation=max(1, int(about.get("accumulated") or 1)),
    )


def _optimizer_of(about: dict[str, Any]) -> str:
    """Return the optimizer as fit calls it. Raises BadRequest for one that it doesn't know."""
    name, settings = str(about.get("optimizer") or ""), about.get("settings") or {}
    plain = name.lower()
    if "adam" in plain and ("8bit" in plain or plain.startswith("paged")):
        paged = "paged-" if plain.startswith("paged") else ""
        return f"{paged}adamw{'8bit' if '8bit' in plain else ''}"
    if plain in ("adam", "adamw"):
        in_place = settings.get("fused") or settings.get("foreach") is False
        return "adamw" if in_place else "adamw-foreach"
    if plain == "sgd":
        return "sgd-momentum" if settings.get("momentum") else "sgd"
    if plain in ("adafactor", "muon"):
        return plain
    raise BadRequest(f"fit doesn't know what {name[:60] or 'its optimizer'} keeps")


def _targets_of(about: dict[str, Any]) -> str:
    """Return which matrices LoRA adapts, as fit calls them."""
    names = {str(name).rpartition(".")[2] for name in about.get("targets") or []}
    if names and names <= {"q_proj", "v_proj"}:
        return "qv"
    attention = {"q_proj", "k_proj", "v_proj", "o_proj", "query", "key", "value", "c_attn"}
    return "attention" if names and names <= attention else "all-linear"
