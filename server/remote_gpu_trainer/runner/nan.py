"""A loss that is no number any more."""

from __future__ import annotations

import re

_LOSS = re.compile(rb"loss[\"' :=]{1,4}(?:tensor\()?([-+.0-9a-z]+)", re.I)


def is_lost(tail: bytes) -> bool:
    """Return whether the last three losses in a log are nan."""
    losses = [found.lower() for found in _LOSS.findall(tail)[-3:]]
    return len(losses) == 3 and all(loss.endswith(b"nan") for loss in losses)
