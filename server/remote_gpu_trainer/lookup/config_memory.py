"""What training the model of a config.json takes, as one sentence of an answer.

`fit` is imported late: most logs are no config.json, and a look-up should start fast.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..logs.evidence import Evidence
from ..numbers.memory import memory_of

if TYPE_CHECKING:
    from ..fit.model_shape import Model

ABOUT_MEMORY = re.compile(r"memory|oom\b|vram|显存|内存", re.I)


def model_at(path: str) -> Model | None:
    """The model that a config.json describes; None for another file, and for one on a box."""
    from ..fit import model_config

    return model_config.model_in(path) if ":" not in path else None


def memory_sentence(model: Model, text: str, evidence: Evidence) -> str:
    """What training this model takes on the card of a message in the evidence, if there is one.

    "" where the text doesn't ask about memory.
    """
    if not ABOUT_MEMORY.search(text):
        return ""
    message = memory_of(evidence.lines)
    return needs(model, message[1].total if message else 0.0)


def needs(model: Model, card: float = 0.0) -> str:
    """What training this model takes, and on a card of this many GiB, 0 for none."""
    from ..fit.memory_levers import summary
    from ..fit.training_run import Run, length_of

    run = Run(sequence=length_of(model, None))
    return f"{summary(model, run, card)} `rgt fit` reckons with your batch, length and precision."
