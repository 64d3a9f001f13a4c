"""`health --report`: one HTML page of what a watch wrote, from templates/watch.html.j2.

The page loads nothing and runs nothing, and its template escapes every text of the file. The plots
are inline SVG without text, because they stretch to the page's width. Their words are beside them.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..text import BadRequest
from ..text.masking import shown
from .plots import Axis, band, buckets, line
from .watch_file import Event, RecordedWatch, Series, read_watch

OURS = "<!doctype html>\n<!-- remote-gpu-trainer health --report -->\n"
MARKS = 40  # numbered marks on one GPU's row of findings
# Reasons for held-back clocks that are normal, under load or at rest.
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
    made = page(read_watch(source), source.name)
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


def _gpu(label: int | str, series: Series, watch: RecordedWatch, axis: Axis) -> dict:
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
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return {"title": title, "plot": ""}
    limit = {"power_w": series.power_limit_w, "mem_mib": series.mem_total_mib}.get(column, math.nan)
    top = _round_up(max([*([] if math.isnan(limit) else [limit]), max(known), least, 1.0]))
    return {
        "title": title,
        "unit": unit,
        "top": f"{top:,.0f}",
        "about": f"mean {_mean(known):,.0f}, {min(known):,.0f} to {max(known):,.0f}",
        "plot": line(buckets(series.times, values, axis), top, axis),
    }


def _held_back(series: Series, watch: RecordedWatch, axis: Axis) -> Iterator[dict]:
    """A row for each reason that held this GPU's clocks back."""
    for bit, reason in enumerate(watch.reasons):
        share = sum(value >> bit & 1 for value in series.bits) / max(len(series.bits), 1)
        if share:
            plot = band(series.times, series.bits, bit, axis, harmless=reason in HARMLESS)
            yield {"reason": reason, "share": f"{share:.0%}", "plot": plot}


def _figure(values: array, of: Callable) -> str:
    known = [value for value in values if not math.isnan(value)]
    return f"{of(known):,.0f}" if known else "–"


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
