"""Plots of a watch as inline SVG without text: they stretch to the page's width."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from dataclasses import dataclass

from markupsafe import Markup

COLUMNS = 480  # points across a plot; more samples are drawn as mean and range
STEPS = (  # seconds between marks on the axis
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800),
)


@dataclass(frozen=True)
class Axis:
    """The time axis that all plots of a page share, in seconds since 1970.

    `gap`: seconds without a sample that break a line.
    """

    first: float
    last: float
    gap: float

    def x(self, time: float) -> float:
        """Return where a time stands on the axis, from 0 to 1000."""
        return 1000 * (time - self.first) / (self.last - self.first)

    def ticks(self, most: int = 5) -> list[float]:
        """Return round times within the axis, at most one more than `most`."""
        span = self.last - self.first
        step = next(
            (step for step in STEPS if span / step <= most),
            math.ceil(span / most / STEPS[-1]) * STEPS[-1],
        )
        begin = math.ceil(self.first / step) * step
        return [begin + step * n for n in range(most + 1) if begin + step * n <= self.last]


def buckets(
    times: array, values: array, axis: Axis
) -> list[list[tuple[float, float, float, float]]]:
    """Return the points of a line, each (x, mean, least, most), in runs without a gap.

    A value that is NaN ends a run too.
    """
    width = (axis.last - axis.first) / COLUMNS
    runs: list[list[tuple[float, float, float, float]]] = [[]]
    begin, last = 0, -math.inf
    while begin < len(times):
        column = int((times[begin] - axis.first) / width)
        end = bisect_left(times, axis.first + (column + 1) * width, begin + 1)
        known = [value for value in values[begin:end] if not math.isnan(value)]
        if (not known or times[begin] - last > axis.gap) and runs[-1]:
            runs.append([])
        if known:
            middle = (times[begin] + times[end - 1]) / 2
            runs[-1].append((axis.x(middle), sum(known) / len(known), min(known), max(known)))
        last, begin = times[end - 1], end
    return [run for run in runs if run]


def line(runs: list[list[tuple[float, float, float, float]]], top: float, axis: Axis) -> Markup:
    """Draw values from 0 to `top`, 1000 wide and 100 high: the mean as a line before the range."""

    def y(value: float) -> float:
        return 98 - 96 * max(0.0, min(value / top, 1.0))

    parts = [_grid(axis)]
    for run in runs:
        if len(run) == 1:
            x, mean, least, most = run[0]
            upright = f"M{x:.1f} {y(most):.1f}V{max(y(least), y(most) + 0.1):.1f}"
            parts.append(f'<path class="l" d="{upright}M{x - 1:.1f} {y(mean):.1f}h2"/>')
            continue
        upper = " ".join(f"{x:.1f},{y(most):.1f}" for x, _, _, most in run)
        lower = " ".join(f"{x:.1f},{y(least):.1f}" for x, _, least, _ in reversed(run))
        means = " ".join(f"{x:.1f},{y(mean):.1f}" for x, mean, _, _ in run)
        parts.append(f'<polygon class="r" points="{upper} {lower}"/>')
        parts.append(f'<polyline class="l" points="{means}"/>')
    return _svg("".join(parts))


def band(times: array, bits: array, bit: int, axis: Axis, *, harmless: bool) -> Markup:
    """Draw when a bit was set: bars as high as the plot, paler where fewer samples had it."""
    width = (axis.last - axis.first) / COLUMNS
    runs: list[list] = []  # first column, column after the last, share
    begin, last = 0, -math.inf
    while begin < len(times):
        column = int((times[begin] - axis.first) / width)
        end = bisect_left(times, axis.first + (column + 1) * width, begin + 1)
        count = sum(value >> bit & 1 for value in bits[begin:end])
        share = math.ceil(5 * count / (end - begin)) / 5
        near = runs and times[begin] - last <= axis.gap
        if near:
            runs[-1][1] = column
        if not near or runs[-1][2] != share:
            runs.append([column, column + 1, share])
        runs[-1][1] = column + 1
        last, begin = times[end - 1], end
    unit = 1000 / COLUMNS
    kind = "calm" if harmless else "bad"
    bars = (
        f'<rect class="{kind}" x="{a * unit:.1f}" y="10" width="{max(b - a, 1) * unit:.1f}" '
        f'height="80" fill-opacity="{0.25 + 0.75 * share:.2f}"/>'
        for a, b, share in runs
        if share
    )
    return _svg(_grid(axis) + "".join(bars))


def _grid(axis: Axis) -> str:
    marks = "".join(f"M{axis.x(tick):.1f} 0V100" for tick in axis.ticks())
    return f'<path class="g" d="{marks}"/>'


def _svg(inner: str) -> Markup:
    """Return a plot that the template takes unescaped: `inner` holds only formatted numbers."""
    return Markup(
        f'<svg viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true">{inner}</svg>'
    )
