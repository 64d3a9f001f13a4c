"""docs/bit_flips.md: the flipped bits that the check of numbers finds, and sound cards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .templates_of_documents import filled

FLIPS, SOUND = "tests/records/bit_flips.json", "tests/records/sound_products.json"
ON_A_CARD = "tests/records/gpu_campaign_h100.json"
PAGE = "docs/bit_flips.md"


def bit_flips_page(root: Path) -> str:
    """The tables of both records; the page as it is where there are no tests."""
    if not (root / FLIPS).is_file():
        return (root / PAGE).read_text(encoding="utf-8")
    flips, sound, campaign = (
        json.loads((root / name).read_text(encoding="utf-8")) for name in (FLIPS, SOUND, ON_A_CARD)
    )
    rows = flips["results"]
    keys = ("all", "found", "above", "found_above", "found_once")
    total = {key: sum(row[key] for row in rows) for key in keys}
    return filled(
        "bit_flips",
        flips=flips,
        rows=rows,
        total=total,
        sound=sound,
        share=_share,
        campaign=campaign,
        checked=campaign["parts"]["health"]["numbers"],
    )


def _share(found: int, of: int) -> str:
    """A share in percent, rounded down: 100 means all of them."""
    if not of:
        return "–"
    thousandths = found * 1000 // of
    return f"{thousandths / 10:g} %"


def shares(rows: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """{type: the share of flips that matter, found in both products; found in one of two}."""
    found = {}
    for name in dict.fromkeys(row["type"] for row in rows):
        of_type = [row for row in rows if row["type"] == name]
        above = sum(row["above"] for row in of_type)
        both, once = (sum(row[key] for row in of_type) for key in ("found_above", "found_once"))
        found[name] = (both / above, once / above) if above else (1.0, 1.0)
    return found
