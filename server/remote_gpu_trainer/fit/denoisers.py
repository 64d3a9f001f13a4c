"""The denoisers of well-known diffusion pipelines, which is what training one trains.

`denoisers.json` holds what `tools/denoisers.py` counted of each on torch's meta device, for a
sample of the size that it was made for: all weights or LoRA, with and without checkpointing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..text import BadRequest
from .traced_model import TracedModel, check_run, traced_model
from .training_run import QUANTIZED, Run

MIXED = ("bf16-mixed", "fp16-mixed")


@dataclass(frozen=True)
class Denoiser:
    """A denoiser: the side of its images, and how many weights its text encoders and VAE have.

    `ways` is what was counted: "full" or "lora", and ", checkpointing" behind it. `rank` is that of
    the adapters, `source` the version of diffusers and the day.
    """

    side: int
    beside: int
    ways: dict[str, dict[str, Any]]
    rank: int
    source: str


def denoiser_of(name: str) -> Denoiser | None:
    """Return the denoiser of a pipeline's name on the Hub, None for one that isn't known."""
    return _known().get(name.lower())


@lru_cache(maxsize=1)
def _known() -> dict[str, Denoiser]:
    table = json.loads(Path(__file__).with_name("denoisers.json").read_text("utf-8"))
    source = f"diffusers {table['diffusers']}, {table['date']}"
    return {
        name.lower(): Denoiser(row["side"], row["beside"], row["ways"], table["rank"], source)
        for row in table["denoisers"]
        for name in row["names"]
    }


def as_traced(denoiser: Denoiser, run: Run) -> TracedModel:
    """Return what was counted of a denoiser for this run. Raises BadRequest where nothing was."""
    if run.precision not in (*MIXED, *QUANTIZED):
        raise BadRequest(
            f"--precision {run.precision}: a denoiser was counted in mixed precision; give one of "
            f"{', '.join((*MIXED, *QUANTIZED))}, or count your own with FILE.py:NAME"
        )
    check_run(replace(run, precision=MIXED[0]))
    way = ("lora" if run.lora else "full") + (", checkpointing" if run.checkpointing else "")
    traced = denoiser.ways[way]
    model = replace(traced_model(traced), returns_loss=True, beside=2 * denoiser.beside)
    if not run.lora:
        return model
    times = run.lora / denoiser.rank
    adapters, base = traced["gradient_bytes"], traced["weight_bytes"] - traced["gradient_bytes"]
    base = base / 2 * QUANTIZED[run.precision] if run.quantized else base
    return replace(
        model,
        weights=model.weights + round((times - 1) * model.trained),
        trained=round(times * model.trained),
        gradient_bytes=round(times * adapters),
        weight_bytes=round(base + times * adapters),
        factored_bytes=round(times * model.factored_bytes),
        largest=round(times * model.largest),
    )


def remarks(denoiser: Denoiser) -> list[str]:
    """Return what to know about the estimate."""
    side, beside = denoiser.side, 2 * denoiser.beside / 2**30
    return [
        f"the denoiser alone, with samples of {side} × {side} pixels, as it was counted with "
        f"{denoiser.source}",
        f"text encoders and VAE take {beside:.1f} GiB more in 16 bit, unless the program computes "
        "latents and text embeddings before it trains [M13]",
    ]
