"""Where a step, a time or a value stands along a chart, and the round numbers beside it. Pure."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from typing import List, NamedTuple, Tuple

STEP, CLOCK, ELAPSED = "step", "clock", "elapsed"  # what stands along a chart
SPANS = (  # seconds between two times on an axis
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800),
)
_LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))

Ticks = List[Tuple[float, str]]


class Axis(NamedTuple):
    """What stands along the charts of a page, from `first` to `last`.

    `kind`: STEP; CLOCK, seconds since 1970; ELAPSED, seconds since a start.
    """

    kind: str
    first: float
    last: float

    def locate_x(self, x: float) -> float:
        """Return where `x` stands on the axis, from 0 to 1000."""
        return 1000 * (x - self.first) / (self.last - self.first)

    def list_ticks(self, most: int = 5) -> Ticks:
        """Return round numbers within the axis with their text, at most one more than `most`."""
        span = self.last - self.first
        if self.kind == STEP:
            step = max(_round_step(span / most), 1)
        else:
            step = next(
                (step for step in SPANS if span / step <= most),
                math.ceil(span / most / SPANS[-1]) * SPANS[-1],
            )
        begin = math.ceil(self.first / step) * step
        found = [begin + step * n for n in range(most + 1)]
        return [(x, self.format_x(x)) for x in found if x <= self.last]

    def format_x(self, x: float) -> str:
        """Return a place on the axis in words, as exact as the axis is long."""
        span = self.last - self.first
        if self.kind == STEP:
            return format_number(x)
        if self.kind == ELAPSED:
            unit, name = (3600, "h") if span >= 7200 else (60, "min") if span >= 120 else (1, "s")
            return f"{x / unit:.4g} {name}"
        return format_time(x, day=span > 86400, second=span < 600)


class Scale(NamedTuple):
    """The values of a chart, from `low` at its bottom to `high` at its top."""

    low: float
    high: float
    is_log: bool = False

    def locate_value(self, value: float) -> float:
        """Return how far down a value stands, from 0 to 100."""
        low, high = self._find_ends()
        at = math.log10(max(value, self.low)) if self.is_log else value
        unit = max(abs(low), abs(high)) or 1  # a difference of two huge numbers isn't finite
        share = (at / unit - low / unit) / (high / unit - low / unit)
        return 97 - 94 * max(0.0, min(share, 1.0))

    def list_ticks(self, most: int = 4) -> Ticks:
        """Return round values within the scale with their text."""
        low, high = self._find_ends()
        if self.is_log:
            step = max(math.ceil((high - low) / most), 1)
            powers = range(math.ceil(low), math.floor(high) + 1, step)
            return [(10.0**power, format_number(10.0**power)) for power in powers]
        step = _round_step(high / most - low / most)
        begin = math.ceil(low / step)
        found = [(begin + n) * step for n in range(most + 2)]
        return [(x, format_number(x)) for x in found if x <= high + step * 1e-9]

    def _find_ends(self) -> tuple[float, float]:
        if self.is_log:
            return math.log10(self.low), math.log10(self.high)
        return self.low, self.high


def fit_scale(
    least: float, most: float, low: float | None, high: float | None, may_log: bool
) -> Scale:
    """Return the scale for values from `least` to `most`. `low`, `high`: to where it reaches at
    least. `may_log`: a hundredfold range of positive values gets a logarithmic one."""
    if may_log and low is None and high is None and least > 0 and most / least >= 100:
        return Scale(least, most, True)
    least = least if low is None else min(least, low)
    most = most if high is None else max(most, high)
    if f"{least:.4g}" == f"{most:.4g}":  # a difference that no number beside the chart shows
        around = abs(most) * 0.1 or 1.0
        return Scale(least - around, most + around)
    return Scale(least, most)


def _round_step(about: float) -> float:
    """Return 1, 2 or 5 times a power of ten, the next above `about`."""
    power = 10.0 ** math.floor(math.log10(about))
    return next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= about * 0.999)


def format_number(value: float) -> str:
    """Return a number with up to four digits: 12.5k, 0.003, 3e-5."""
    size = abs(value)
    if size and (size < 1e-3 or size >= 1e15):
        digits, _, power = f"{value:.3g}".partition("e")
        return f"{digits}e{int(power)}" if power else digits
    for unit, name in _LARGE if size >= 1e4 else ():
        if size >= unit:
            return f"{value / unit:.4g}{name}"
    return f"{value:.4g}"


def format_time(seconds: float, day: bool = True, second: bool = False) -> str:
    """Return a time of the day in UTC. `seconds`: since 1970."""
    form = ("%Y-%m-%d " if day else "") + ("%H:%M:%S" if second else "%H:%M")
    return datetime.fromtimestamp(seconds, timezone.utc).strftime(form)
