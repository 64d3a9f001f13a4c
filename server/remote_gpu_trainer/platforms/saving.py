"""How long to work between two saves of a checkpoint, by the formulas of Young and of Daly."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """Seconds of work between two saves, by Young and by Daly, and the arithmetic as lines of text.

    `overhead` is the expected share of time lost to saves and repeated work, to first order.
    """

    young: float
    daly: float
    overhead: float
    arithmetic: str


def between_saves(save_seconds: float, hours_between_kills: float, boxes: int = 1) -> Interval:
    """The best interval for a save that takes `save_seconds`.

    `hours_between_kills` is the mean for one box. `boxes` that fail together divide it by their
    number. Raises ValueError unless all three are positive and finite.
    """
    if not (
        math.isfinite(save_seconds)
        and math.isfinite(hours_between_kills)
        and save_seconds > 0
        and hours_between_kills > 0
        and boxes >= 1
    ):
        raise ValueError(
            f"can't work with a save of {save_seconds} s, {hours_between_kills} h between kills "
            f"and {boxes} boxes; give positive numbers"
        )
    kills = hours_between_kills * 3600 / boxes
    young = math.sqrt(2 * save_seconds * kills)
    if save_seconds < 2 * kills:
        part = save_seconds / (2 * kills)
        daly = young * (1 + math.sqrt(part) / 3 + part / 9) - save_seconds
        by_daly = f"Daly:  sqrt(2 δ M) × (1 + sqrt(δ/2M)/3 + (δ/2M)/9) − δ = {daly:,.0f} s"
    else:
        daly = kills
        by_daly = f"Daly:  a save takes longer than twice the time between kills: M = {daly:,.0f} s"
    overhead = save_seconds / daly + (daly + save_seconds) / (2 * kills)
    lines = [
        f"time between kills M = {hours_between_kills:g} h × 3600 / {boxes} boxes = {kills:,.0f} s;"
        f" one save δ = {save_seconds:g} s",
        f"Young: sqrt(2 δ M) = sqrt(2 × {save_seconds:g} × {kills:,.0f}) = {young:,.0f} s",
        by_daly,
        f"lost to saves and repeated work: δ/τ + (τ+δ)/2M ≈ {overhead:.1%}"
        if overhead < 1
        else "the run loses more time than it gains: save faster, or rent where kills are rarer",
    ]
    return Interval(young, daly, overhead, "\n".join(lines))
