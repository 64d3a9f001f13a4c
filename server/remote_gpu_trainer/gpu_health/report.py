"""`health --report`: one HTML page of what a watch wrote, from templates/watch.html.j2.

The page loads nothing and runs nothing, and its template escapes every text of the file.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ..drawing.axis import format_time
from ..drawing.charts import Chart, Line, Mark, draw_charts
from ..drawing.style import STYLE
from ..text.masking import shown
from ..text.replacing import write_over
from .watch_file import Event, RecordedWatch, Series, read_watch

OURS = "<!doctype html>\n<!-- remote-gpu-trainer health --report -->\n"
MARKS = {"fatal": "fail", "degraded": "warn", "unknown": "warn"}  # of a finding's level
# Reasons for held-back clocks that are normal, under load or at rest.
HARMLESS = ("sw_power_cap", "gpu_idle", "app_clocks", "applications_clocks_setting")
PANELS = (  # column, title, unit, what the scale reaches at least
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
    made = page(read_watch(source), source.name)
    write_over(to, made, OURS, "an earlier report", "-o")
    return to


def page(watch: RecordedWatch, name: str) -> str:
    """Return the whole page. `name` is what the file is called. Pure."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["when"] = format_time
    first, last = watch.span
    step = watch.interval if watch.interval > 0 else (last - first) / max(watch.samples - 1, 1)
    numbers_first = sorted(watch.gpus.items(), key=lambda item: (isinstance(item[0], str), item[0]))
    return OURS + templates.get_template("watch.html.j2").render(
        name=shown(name, 200),
        watch=watch,
        style=Markup(STYLE),
        first=format_time(first),
        last=format_time(last),
        span=_span(last - first),
        interval=f"{watch.interval:g}" if watch.interval > 0 else "",
        summary=[_summary(label, series, watch) for label, series in watch.gpus.items()],
        gpus=[_gpu(label, series, watch, 3 * step + 1) for label, series in numbers_first],
    )


def _summary(label: int | str, series: Series, watch: RecordedWatch) -> dict:
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


def _gpu(label: int | str, series: Series, watch: RecordedWatch, gap: float) -> dict:
    """The section of one GPU. `gap`: seconds without a sample that break a line."""
    panels = [_panel(series, *panel, gap) for panel in PANELS]
    shown_panels = [panel for panel in panels if panel.lines]
    charts = [*shown_panels, *_held_back(series, watch, gap)]
    marks = list(_marks(label, watch.events))
    drawn = draw_charts(charts, marks, is_stacked=True, span=watch.span)
    return {
        "label": label,
        "charts": Markup(drawn),
        "missing": [panel.title for panel in panels if not panel.lines],
        "why": sorted(series.why.items(), key=lambda item: -item[1])[:5],
    }


def _marks(label: int | str, events: list[Event]) -> Iterator[Mark]:
    """The findings about this GPU or the whole box, by their number in the list."""
    for number, event in enumerate(events, 1):
        if not event.over and event.gpu in (label, None):
            kind = MARKS.get(event.level, "note")
            number_shown, link = str(number), f"#f{number}"
            yield Mark(kind, "findings", event.evidence, event.time, None, number_shown, link)


def _panel(series: Series, column: str, title: str, unit: str, least: float, gap: float) -> Chart:
    """The chart of a column; without a line where the driver told no value."""
    values = series.values[column]
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return Chart(title, [])
    limit = {"power_w": series.power_limit_w, "mem_mib": series.mem_total_mib}.get(column, math.nan)
    high = max(least, 1.0, 0.0 if math.isnan(limit) else limit)
    about = f"mean {_mean(known):,.0f}, {min(known):,.0f} to {max(known):,.0f}"
    line = Line("", values, series.times, gap=gap)
    return Chart(title, [line], unit, about=about, low=0.0, high=high)


def _held_back(series: Series, watch: RecordedWatch, gap: float) -> Iterator[Chart]:
    """A chart for each reason that held this GPU's clocks back."""
    for bit, reason in enumerate(watch.reasons):
        values = array("d", [value >> bit & 1 for value in series.bits])
        if any(values):
            yield Chart(
                f"Clocks held back: {reason}",
                [Line("", values, series.times, gap=gap)],
                about=f"{_mean(values):.0%} of samples",
                band="calm" if reason in HARMLESS else "bad",
            )


def _figure(values: array, of: Callable) -> str:
    known = [value for value in values if not math.isnan(value)]
    return f"{of(known):,.0f}" if known else "–"


def _mean(values) -> float:
    return sum(values) / len(values)


def _span(seconds: float) -> str:
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
