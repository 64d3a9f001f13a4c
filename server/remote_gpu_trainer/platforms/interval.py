"""How often to save: the interval that loses least time to saving and to repeating, from the rate of kills and the cost of a save.

Young (1974): sqrt(2 · save · between kills). Daly (2006) adds the terms that matter when a save is not short beside the time between
kills. Sources: doi:10.1145/361147.361115, doi:10.1016/j.future.2004.11.016.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """Seconds of work between saves. `overhead`: expected share of time lost to saving and repeating, to first order."""

    young: float
    daly: float
    overhead: float
    arithmetic: str


def between_saves(save_seconds: float, hours_between_kills: float, boxes: int = 1) -> Interval:
    """`hours_between_kills`: mean of one box; of several that fail together with any one, it is divided by their number. Raises ValueError."""
    if not (
        math.isfinite(save_seconds)
        and math.isfinite(hours_between_kills)
        and save_seconds > 0
        and hours_between_kills > 0
        and boxes >= 1
    ):
        raise ValueError(
            f"found save {save_seconds} s, {hours_between_kills} h between kills, {boxes} boxes, expected positive numbers"
        )
    kills = hours_between_kills * 3600 / boxes
    young = math.sqrt(2 * save_seconds * kills)
    if save_seconds < 2 * kills:
        part = save_seconds / (2 * kills)
        daly = young * (1 + math.sqrt(part) / 3 + part / 9) - save_seconds
    else:
        daly = kills
    overhead = save_seconds / daly + (daly + save_seconds) / (2 * kills)
    lines = [
        f"time between kills M = {hours_between_kills:g} h × 3600 / {boxes} boxes = {kills:,.0f} s; one save δ = {save_seconds:g} s",
        f"Young: sqrt(2 δ M) = sqrt(2 × {save_seconds:g} × {kills:,.0f}) = {young:,.0f} s",
        f"Daly:  sqrt(2 δ M) × (1 + sqrt(δ/2M)/3 + (δ/2M)/9) − δ = {daly:,.0f} s"
        if save_seconds < 2 * kills
        else f"Daly:  a save takes longer than twice the time between kills: M = {daly:,.0f} s",
        f"lost to saving and repeating: δ/τ + (τ+δ)/2M ≈ {overhead:.1%}"
        if overhead < 1
        else "more time is lost than won: save faster, or rent where kills are rarer",
    ]
    return Interval(young, daly, overhead, "\n".join(lines))
