"""The shapes of much-trained models by their names on the Hub, for machines without a network.

Each has the fields on which memory depends, and the address where they were read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True)
class Known:
    """The fields of a model's config.json, with the address and the day where they were read."""

    config: dict
    address: str
    date: str


def known_config(name: str) -> Known | None:
    """Return the config of a name such as Qwen/Qwen2.5-7B, None for one that isn't here.

    A name without its owner is taken for the model of that name.
    """
    known, name = _known(), name.lower()
    named = (found for full, found in known.items() if full.rpartition("/")[2] == name)
    return known.get(name) or next(named, None)


@lru_cache(maxsize=1)
def _known() -> dict[str, Known]:
    text = Path(__file__).with_name("known_configs.json").read_text("utf-8")
    table = json.loads(text)
    return {
        name.lower(): Known(row["config"], row["address"], row.get("date", table["date"]))
        for row in table["models"]
        for name in row["names"]
    }
