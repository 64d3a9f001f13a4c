"""`health --report`: one HTML page of what a watch wrote, from templates/watch.html.j2.

The page loads nothing and runs nothing, and its template escapes every text of the file. The plots
are inline SVG without text: they stretch to the page's width, and the words stand beside them.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ..text import BadRequest
from ..text.masking import shown
from .watching import Event, Series, Watch, read

OURS = "<!doctype html>\n<!-- remote-gpu-trainer health --report -->\n"
COLUMNS = 480  # points across a plot; more samples are drawn as mean and range
MARKS = 40  # numbered marks on one GPU's row of findings
STEPS = (  # seconds between marks on the axis
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800),
)
# Reasons for held-back clocks that are normal under load, or at rest.
HARMLESS = ("sw_power_cap", "gpu_idle", "app_clocks", "applications_clocks_setting")
PANELS = (  # column, title, unit, what the axis reaches at least
    ("util", "Utilisation", "%", 100.0),
    ("sm_mhz", "SM clock", "MHz", 0.0),
    ("power_w", "Power", "W", 0.0),
    ("temp_c", "Temperature", "°C", 100.0),
    ("mem_mib", "Memory", "MiB", 0.0),
)


def write(source: Path, to: Path) -> Path:
    """Write the page of a watch's JSON lines, and return where it is.

    Raises BadRequest for a file without samples, and for a place that can't be written or that
    holds anything but an earlier page.
    """
    made = page(read(source), source.name)
    try:
        if to.exists():
            with to.open("rb") as old:
                if old.read(len(OURS)) != OURS.encode():
                    raise BadRequest(f"{to}: not an earlier report; name another file with -o")
        to.write_text(made, encoding="utf-8")
    except OSError as error:
        raise BadRequest(
            f"{to}: can't be written ({error.strerror}); name another file with -o"
        ) from None
    return to


def page(watch: Watch, name: str) -> str:
    """The whole page. `name` is what the file is called. Pure."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["when"] = lambda time: _when(time, day=True)
    first, last = watch.span
    step = watch.interval if watch.interval > 0 else (last - first) / max(watch.samples - 1, 1)
    axis = Axis(first, last, 3 * step + 1)
    numbers_first = sorted(watch.gpus.items(), key=lambda item: (isinstance(item[0], str), item[0]))
    return OURS + templates.get_template("watch.html.j2").render(
        name=shown(name, 200),
        watch=watch,
        first=_when(first, day=True),
        last=_when(last, day=True),
        span=_span(last - first),
        interval=f"{watch.interval:g}" if watch.interval > 0 else "",
        summary=[_summary(label, series, watch) for label, series in watch.gpus.items()],
        gpus=[_gpu(label, series, watch, axis) for label, series in numbers_first],
    )


def _summary(label: int | str, series: Series, watch: Watch) -> dict:
    """One row of the table at the top."""
    findings = sum(event.gpu == label and not event.over for event in watch.events)
    return {
        "label": label,
        "busy": _figure(series.values["util"], _mean),
        "heat": _figure(series.values["temp_c"], max),
        "power": _figure(series.values["power_w"], _mean),
        "memory": _figure(series.values["mem_mib"], max),
        "findings": findings or "",
    }


def _gpu(label: int | str, series: Series, watch: Watch, axis: Axis) -> dict:
    """The section of one GPU."""
    day, second = axis.last - axis.first > 86400, axis.last - axis.first < 600
    return {
        "label": label,
        "marks": list(_marks(label, watch.events, axis))[:MARKS],
        "panels": [_panel(series, *panel, axis) for panel in PANELS],
        "held_back": list(_held_back(series, watch, axis)),
        "ticks": [
            {
                "left": f"{min(max(axis.x(tick) / 10, 4), 96):.1f}",
                "text": _when(tick, day, second),
            }
            for tick in axis.ticks()
        ],
        "why": sorted(series.why.items(), key=lambda item: -item[1])[:5],
    }


def _marks(label: int | str, events: list[Event], axis: Axis) -> Iterator[dict]:
    """The findings about this GPU or the whole box, by their number in the list."""
    for number, event in enumerate(events, 1):
        if not event.over and event.gpu in (label, None):
            left = f"{axis.x(event.time) / 10:.1f}"
            yield {"number": number, "level": event.level, "left": left}


def _panel(series: Series, column: str, title: str, unit: str, least: float, axis: Axis) -> dict:
    values = series.values[column]
    told = [value for value in values if not math.isnan(value)]
    if not told:
        return {"title": title, "plot": ""}
    limit = {"power_w": series.power_limit_w, "mem_mib": series.mem_total_mib}.get(column, math.nan)
    top = _round_up(max([*([] if math.isnan(limit) else [limit]), max(told), least, 1.0]))
    return {
        "title": title,
        "unit": unit,
        "top": f"{top:,.0f}",
        "about": f"mean {_mean(told):,.0f}, {min(told):,.0f} to {max(told):,.0f}",
        "plot": line(buckets(series.times, values, axis), top, axis),
    }


def _held_back(series: Series, watch: Watch, axis: Axis) -> Iterator[dict]:
    """A row for each reason that held this GPU's clocks back."""
    for bit, reason in enumerate(watch.reasons):
        share = sum(value >> bit & 1 for value in series.bits) / max(len(series.bits), 1)
        if share:
            plot = band(series.times, series.bits, bit, axis, harmless=reason in HARMLESS)
            yield {"reason": reason, "share": f"{share:.0%}", "plot": plot}


def _figure(values: array, of: Callable) -> str:
    told = [value for value in values if not math.isnan(value)]
    return f"{of(told):,.0f}" if told else "–"


def _mean(values) -> float:
    return sum(values) / len(values)


def _round_up(value: float) -> float:
    step = 10 ** math.floor(math.log10(value)) / 4
    return math.ceil(value / step) * step


def _when(time: float, day: bool = False, second: bool = False) -> str:
    form = ("%Y-%m-%d " if day else "") + ("%H:%M:%S" if second else "%H:%M")
    return datetime.fromtimestamp(time, timezone.utc).strftime(form)


def _span(seconds: float) -> str:
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


@dataclass(frozen=True)
class Axis:
    """The time axis that all plots of a page share, in seconds since 1970.

    `gap`: seconds without a sample that break a line.
    """

    first: float
    last: float
    gap: float

    def x(self, time: float) -> float:
        """Where a time stands, from 0 to 1000."""
        return 1000 * (time - self.first) / (self.last - self.first)

    def ticks(self, most: int = 5) -> list[float]:
        """Round times within the axis, at most one more than `most`."""
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
    """The points of a line, each (x, mean, least, most), in runs without a gap.

    A value that is NaN ends a run too.
    """
    width = (axis.last - axis.first) / COLUMNS
    runs: list[list[tuple[float, float, float, float]]] = [[]]
    begin, last = 0, -math.inf
    while begin < len(times):
        column = int((times[begin] - axis.first) / width)
        end = bisect_left(times, axis.first + (column + 1) * width, begin + 1)
        told = [value for value in values[begin:end] if not math.isnan(value)]
        if (not told or times[begin] - last > axis.gap) and runs[-1]:
            runs.append([])
        if told:
            middle = (times[begin] + times[end - 1]) / 2
            runs[-1].append((axis.x(middle), sum(told) / len(told), min(told), max(told)))
        last, begin = times[end - 1], end
    return [run for run in runs if run]


def line(runs: list[list[tuple[float, float, float, float]]], top: float, axis: Axis) -> Markup:
    """One plot, 1000 wide and 100 high, from 0 to `top`: the mean as a line before the range."""

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
    """When a bit was set: bars as high as the plot, paler where fewer samples had it."""
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
    """A plot as the template takes it unescaped: `inner` holds nothing but formatted numbers."""
    return Markup(
        f'<svg viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true">{inner}</svg>'
    )
