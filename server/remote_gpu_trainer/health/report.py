"""`health --report`: one page of what --watch has written. It loads nothing and runs nothing; every text of the file is escaped."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from html import escape
from pathlib import Path

from ..text.errors import BadRequest
from .plot import Axis, band, buckets, line
from .samples import Event, Series, Watch, read

OURS = "<!doctype html>\n<!-- remote-gpu-trainer health --report -->\n"
MARKS = 40  # numbered marks on one GPU's row of findings
HARMLESS = (
    "sw_power_cap",
    "gpu_idle",
    "app_clocks",
    "applications_clocks_setting",
)  # normal under load, or at rest
PANELS = (  # column, title, unit, what the axis reaches at least
    ("util", "Utilisation", "%", 100.0),
    ("sm_mhz", "SM clock", "MHz", 0.0),
    ("power_w", "Power", "W", 0.0),
    ("temp_c", "Temperature", "°C", 100.0),
    ("mem_mib", "Memory", "MiB", 0.0),
)
STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1c2126;--dim:#5f6b76;--grid:#d9dee3;--line:#1f6feb;--range:#1f6feb33;--bad:#c62828;--warn:#b26a00;--calm:#8a97a3;--card:#f5f7f9}
@media(prefers-color-scheme:dark){:root{--bg:#14181c;--fg:#e4e8ec;--dim:#98a4af;--grid:#2d343b;--line:#6cb0ff;--range:#6cb0ff33;--bad:#ff7b72;--warn:#e3a63a;--calm:#6b7782;--card:#1c2127}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:1rem;background:var(--bg);color:var(--fg);font:15px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.3rem;margin:0 0 .3rem}h2{font-size:1.05rem;margin:1.2rem 0 .3rem}section h2{margin-top:0}p{margin:.3rem 0}.dim{color:var(--dim)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th,td{overflow-wrap:normal;white-space:nowrap}th{text-align:right;font-weight:600;color:var(--dim);font-size:.8rem}td{text-align:right;padding:.15rem .4rem;border-top:1px solid var(--grid)}th{padding:.15rem .4rem}th:first-child,td:first-child{text-align:left;padding-left:0}th:last-child,td:last-child{padding-right:0}
ol{padding-left:2rem;margin:.3rem 0}li{margin:.35rem 0}
.fatal{color:var(--bad)}.degraded,.unknown{color:var(--warn)}.warn,.over{color:var(--dim)}
section{margin:0 0 1.2rem;padding:.6rem .8rem;background:var(--card);border-radius:8px}
.row{margin:.45rem 0 0}.head>:last-child{text-align:right}.head{display:flex;justify-content:space-between;gap:.6rem;font-size:.8rem}.head b{font-weight:600}
.box{position:relative;border-bottom:1px solid var(--grid)}svg{display:block;width:100%;height:64px}.thin svg{height:14px}
.l{fill:none;stroke:var(--line);stroke-width:1.6;vector-effect:non-scaling-stroke}.r{fill:var(--range)}.g{fill:none;stroke:var(--grid);stroke-width:1;vector-effect:non-scaling-stroke}
rect.bad{fill:var(--bad)}rect.calm{fill:var(--calm)}
.axis,.marks{position:relative;height:1.2rem;font-size:.7rem;color:var(--dim)}.axis span{position:absolute;transform:translateX(-50%);white-space:nowrap}
.marks a{position:absolute;transform:translateX(-50%);min-width:1.05rem;text-align:center;border-radius:4px;text-decoration:none;font-weight:700;background:var(--bg);border:1px solid currentColor}
@media(max-width:30rem){table{font-size:.8rem}th{font-size:.68rem}th,td{padding:.15rem .15rem}.head{font-size:.68rem}}
"""


def write(source: Path, to: Path) -> Path:
    """Read the JSON lines, write the page. Raises BadRequest; a file that isn't such a page is never replaced."""
    made = page(read(source), source.name)
    try:
        if to.exists():
            with to.open("rb") as old:
                if old.read(len(OURS)) != OURS.encode():
                    raise BadRequest(
                        f"found {to} with something else in it, expected a new file or an earlier report; do: name another with -o"
                    )
        to.write_text(made, encoding="utf-8")
    except OSError as error:
        raise BadRequest(
            f"found {to} not writable ({error.strerror}), expected a place for the page; do: name another with -o"
        ) from None
    return to


def page(watch: Watch, name: str) -> str:
    """The whole page. Pure."""
    first, last = watch.span
    step = watch.interval if watch.interval > 0 else (last - first) / max(watch.samples - 1, 1)
    axis = Axis(first, last, 3 * step + 1)
    events = list(enumerate(watch.events, 1))
    parts = [
        OURS, '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>GPU watch · {escape(name)}</title><style>{STYLE}</style></head><body>",
        f"<h1>GPU watch</h1><p class=dim>{escape(name)} · {_when(first, True)} to {_when(last, True)} UTC ({_span(last - first)}) · {len(watch.gpus)} GPUs, {watch.samples} samples"
        + (f", one every {watch.interval:g} s" if watch.interval > 0 else "") + "</p>",
        f"<p>{_end(watch)}</p>", _summary(watch), _findings(events),
    ]  # fmt: skip
    parts += [
        _gpu(label, series, watch, axis, events)
        for label, series in sorted(
            watch.gpus.items(), key=lambda item: (isinstance(item[0], str), item[0])
        )
    ]
    return "".join([*parts, "</body></html>\n"])


def _end(watch: Watch) -> str:
    said = [
        f"Ended: {escape(watch.end)}."
        if watch.end is not None
        else "The file has no last line: the watch still runs, or was killed."
    ]
    if watch.unread:
        said.append(f"{watch.unread} lines could not be read.")
    if watch.left_out:
        said.append(
            f"{watch.left_out} samples or findings were left out (out of order, or too many)."
        )
    return " ".join(said)


def _summary(watch: Watch) -> str:
    rows = ["<table><tr><th>GPU<th>busy %<th>peak °C<th>mean W<th>most MiB<th>findings</tr>"]
    for label, series in watch.gpus.items():
        mine = sum(event.gpu == label and not event.over for event in watch.events)
        cells = (
            _told(series.values["util"], _mean),
            _told(series.values["temp_c"], max),
            _told(series.values["power_w"], _mean),
            _told(series.values["mem_mib"], max),
        )
        rows.append(
            f"<tr><td>{escape(str(label))}"
            + "".join(f"<td>{cell}" for cell in cells)
            + f"<td>{mine or ''}</tr>"
        )
    return "".join(rows) + "</table>"


def _findings(events: list[tuple[int, Event]]) -> str:
    if not events:
        return "<h2>Findings</h2><p>None.</p>"
    items = []
    for number, event in events:
        where = (
            ""
            if event.over
            else f"{'box' if event.gpu is None else f'GPU {escape(str(event.gpu))}'}, "
        )
        what = (
            f"over: {escape(event.evidence)}"
            if event.over
            else f"<b class={event.level}>{event.level}</b> {escape(event.evidence)}"
        )
        do = (
            f"<br><span class=dim>do: {escape(event.action)}{f' [{escape(event.entry)}]' if event.entry else ''}</span>"
            if event.action
            else ""
        )
        items.append(
            f'<li id="f{number}"{" class=over" if event.over else ""}>{_when(event.time, True)} {where}{what}{do}</li>'
        )
    return f"<h2>Findings</h2><ol>{''.join(items)}</ol>"


def _gpu(label, series: Series, watch: Watch, axis: Axis, events: list[tuple[int, Event]]) -> str:
    rows = [f"<section><h2>GPU {escape(str(label))}</h2>"]
    mine = [
        (number, event) for number, event in events if not event.over and event.gpu in (label, None)
    ][:MARKS]
    if mine:
        marks = "".join(
            f'<a class={event.level} href="#f{number}" style="left:{axis.x(event.time) / 10:.1f}%">{number}</a>'
            for number, event in mine
        )
        rows.append(
            f"<div class=row><div class=head><b>Findings</b></div><div class=marks>{marks}</div></div>"
        )
    for column, title, unit, least in PANELS:
        rows.append(_panel(series, column, title, unit, least, axis))
    rows += _throttle(series, watch, axis)
    ticks = "".join(
        f'<span style="left:{min(max(axis.x(tick) / 10, 4), 96):.1f}%">{_when(tick, axis.last - axis.first > 86400, axis.last - axis.first < 600)}</span>'
        for tick in axis.ticks()
    )
    rows.append(f"<div class=axis>{ticks}</div>")
    for text, count in sorted(series.why.items(), key=lambda item: -item[1])[:5]:
        rows.append(f"<p class=dim>{count} samples: {escape(text)}</p>")
    return "".join(rows) + "</section>"


def _panel(series: Series, column: str, title: str, unit: str, least: float, axis: Axis) -> str:
    values = series.values[column]
    told = [value for value in values if not math.isnan(value)]
    if not told:
        return f"<div class=row><div class=head><b>{title}</b><span class=dim>the driver tells none</span></div></div>"
    bound = {"power_w": series.power_limit_w, "mem_mib": series.mem_total_mib}.get(column, math.nan)
    top = _round_up(max([*([] if math.isnan(bound) else [bound]), max(told), least, 1.0]))
    about = f"mean {_mean(told):,.0f}, {min(told):,.0f} to {max(told):,.0f}"
    return (
        f"<div class=row><div class=head><span><b>{title}</b> <span class=dim>0 to {top:,.0f} {unit}</span></span><span>{about}</span></div>"
        f'<div class=box>{line(buckets(series.times, values, axis), top, axis)}</div></div>'
    )  # fmt: skip


def _throttle(series: Series, watch: Watch, axis: Axis) -> Iterator[str]:
    for bit, reason in enumerate(watch.reasons):
        share = sum(value >> bit & 1 for value in series.bits) / max(len(series.bits), 1)
        if share:
            kind = "calm" if reason in HARMLESS else "bad"
            yield (
                f"<div class='row thin'><div class=head><b>Clocks held back: {escape(reason)}</b><span>{share:.0%} of samples</span></div>"
                f"<div class=box>{band(series.times, series.bits, bit, axis, kind)}</div></div>"
            )


def _told(values: array, of: Callable) -> str:
    told = [value for value in values if not math.isnan(value)]
    return f"{of(told):,.0f}" if told else "–"


def _mean(values) -> float:
    return sum(values) / len(values)


def _round_up(value: float) -> float:
    step = 10 ** math.floor(math.log10(value)) / 4
    return math.ceil(value / step) * step


def _when(time: float, day: bool = False, second: bool = False) -> str:
    return datetime.fromtimestamp(time, timezone.utc).strftime(
        ("%Y-%m-%d " if day else "") + ("%H:%M:%S" if second else "%H:%M")
    )


def _span(seconds: float) -> str:
    return (
        f"{seconds / 3600:.1f} h"
        if seconds >= 5400
        else f"{seconds / 60:.0f} min"
        if seconds >= 90
        else f"{seconds:.0f} s"
    )
