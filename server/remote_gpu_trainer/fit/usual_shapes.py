"""The shape of a language model of which only the number of weights is known.

Each is that of a model that `known_configs` has. Models of one size differ in depth, width and
vocabulary, so an estimate by them has wide margins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from ..text import BadRequest
from .known_configs import known_config
from .model_config import model_of
from .model_shape import Model

FURTHEST = 2.5  # times more or fewer weights than the nearest of them
SHAPES = (
    "HuggingFaceTB/SmolLM2-135M",
    "Qwen/Qwen2.5-0.5B",
    "meta-llama/Llama-3.2-1B",
    "meta-llama/Llama-3.2-3B",
    "meta-llama/Llama-2-7b-hf",
    "meta-llama/Llama-2-13b-hf",
    "Qwen/Qwen2.5-32B",
    "meta-llama/Llama-2-70b-hf",
    "meta-llama/Llama-3.1-405B",
)


@dataclass(frozen=True)
class Assumed:
    """A model of a number of weights, and a sentence about what was assumed."""

    model: Model
    sentence: str


def assumed_model(weights: int) -> Assumed:
    """Return the model that stands for one of so many weights. Raises BadRequest for odd ones."""
    models = _models()
    name = min(models, key=lambda one: abs(math.log(weights / models[one].total())))
    shape = models[name]
    if not shape.total() / FURTHEST <= weights <= shape.total() * FURTHEST:
        raise BadRequest(
            f"no model that fit knows has about {weights:,} weights; pass the model's config.json, "
            "or --layers, --hidden, --heads and --vocabulary"
        )
    # Of its own count nothing may stay: the matrices are those of the weights that were given.
    model = replace(shape, counted=None, kind="", guessed=f"{name} stands for it", weights=weights)
    sentence = (
        f"assumed: the shape of {name}, {shape.layers} layers of {shape.hidden} and "
        f"{shape.vocab:,} words; its config.json would say it"
    )
    return Assumed(model, sentence)


@lru_cache(maxsize=1)
def _models() -> dict[str, Model]:
    """The model of each shape."""
    known = {name: known_config(name) for name in SHAPES}
    return {name: model_of(found.config) for name, found in known.items() if found}
