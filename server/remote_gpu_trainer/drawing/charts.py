"""Draw charts as HTML: `draw_charts` takes lines of numbers and returns text for a page. Pure.

A plot is SVG without text, because it stretches to the page's width; its words are beside it.
All text that comes in is escaped, and the rest is numbers. Nothing loads, and nothing runs: a
checkbox that the style looks at says whether the charts stand against steps or against time.
"""

from __future__ import annotations

import math
from html import escape
from typing import Callable, Iterable, NamedTuple, Sequence, Tuple

from .axis import CLOCK, ELAPSED, STEP, Axis, Scale, fit_scale, format_number, format_time

POINTS_ACROSS = 480  # points across a plot; more values are drawn as mean and range
LINE_COLOURS = 8  # lines of a chart that have a colour of their own; the others are grey
TABLE_ROWS, MOST_TABLE_ROWS = 20, 160  # of a line, and of all lines of a chart
MOST_MARKS = 80  # in a row; more are thinned evenly
MARK_KINDS = {  # of marks, and whether an upright line in each chart goes with it
    "start": True,
    "resume": True,
    "end": True,
    "fail": True,
    "save": False,
    "copy": False,
    "warn": False,
    "note": False,
}


class Line(NamedTuple):
    """Numbers in the order of time. `steps` and `times` are as long as `values`, or empty.

    `times`: seconds, of the clock or since a start. NaN: not known; infinite: known, and not
    finite. `gap`: seconds without a value that break the line.
    """

    name: str
    values: Sequence[float]
    times: Sequence[float] = ()
    steps: Sequence[float] = ()
    gap: float = math.inf


class Chart(NamedTuple):
    """Lines over each other, with what they are called.

    `unit`: of the values. `note`: beside the title. `about`: at the right; by default where the
    line ends, and its range. `low`, `high`: what the scale reaches at least. `may_log`: where the
    values go over two powers of ten, the scale is logarithmic. `band`: 'calm' or 'bad' for bars as
    high as the plot, the stronger the nearer the values are to 1.
    """

    title: str
    lines: Sequence[Line]
    unit: str = ""
    note: str = ""
    about: str = ""
    low: float | None = None
    high: float | None = None
    may_log: bool = False
    band: str = ""


class Mark(NamedTuple):
    """Something that happened. `kind`: of MARK_KINDS. `row`: where it stands, in a word of up to
    eight letters. `label`: a number in place of a sign, whose text `link`, an `#id`, leads to.
    """

    kind: str
    row: str
    text: str
    time: float | None = None
    step: float | None = None
    label: str = ""
    link: str = ""


Place = Tuple[float, float, float, float]  # along the axis, and the mean, least and most value


def printable(text: str) -> str:
    """Return a text without what moves or hides other text."""
    return "".join(char if char.isprintable() else " " for char in text)


def as_text(text: str) -> str:
    """Return a text as it stands in HTML, between tags or in an attribute with quotes."""
    return escape(printable(text))


def draw_charts(
    charts: Sequence[Chart],
    marks: Sequence[Mark] = (),
    *,
    is_elapsed: bool = False,
    is_stacked: bool = False,
    span: Sequence[float] = (),
) -> str:
    """Return the HTML of charts that share their axes, '' where no chart has a value.

    Where the lines have steps and times, a checkbox changes between both. `is_elapsed`: times are
    since a start. `is_stacked`: the charts lie close under one another, with one axis below them.
    `span`: times to which the axis reaches at least.
    """
    shown = [chart for chart in charts if any(map(_is_known, _values(chart)))]
    steps = [line.steps for chart in shown for line in chart.lines]
    times = [line.times for chart in shown for line in chart.lines]
    fitted = (
        fit_axis(STEP, steps, [mark.step for mark in marks]),
        fit_axis(ELAPSED if is_elapsed else CLOCK, times, [*span, *(m.time for m in marks)]),
    )
    axes = [axis for axis in fitted if axis]
    if not shown or not axes:
        return ""
    parts = [f'<div class="charts{" stacked" if is_stacked else ""}">']
    if len(axes) > 1:
        parts.append('<label class="switch"><input type="checkbox"> time in place of steps</label>')
    if marks:
        parts += [_by(axis, draw_marks(marks, axis)) for axis in axes]
    parts.append('<div class="grid">')
    parts += [draw_chart(chart, axes, marks, has_ticks=not is_stacked) for chart in shown]
    parts.append("</div>")
    parts += [_by(axis, _ticks_below(axis)) for axis in axes if is_stacked]
    return "\n".join([*parts, "</div>"])


def fit_axis(
    kind: str, columns: Iterable[Sequence[float]], others: Iterable[float | None] = ()
) -> Axis | None:
    """Return the axis on which all numbers of the columns stand, None for none. `others`: what
    stands there too."""
    ends = [end for column in columns for end in _ends(column)]
    if not ends:
        return None
    ends += [x for x in others if x is not None and math.isfinite(x)]
    first, last = min(ends), max(ends)
    return Axis(kind, first, max(last, first + 1.0))


def _ends(column: Sequence[float]) -> list[float]:
    known = [x for x in column if math.isfinite(x)]
    return [min(known), max(known)] if known else []


def draw_chart(
    chart: Chart, axes: Sequence[Axis], marks: Sequence[Mark] = (), *, has_ticks: bool = True
) -> str:
    """Return one chart: its title, a plot for each axis, and a table of its values."""
    known = [value for value in _values(chart) if _is_known(value)]
    finite = [value for value in known if math.isfinite(value)]
    scale = fit_scale(
        min(finite, default=0.0), max(finite, default=0.0), chart.low, chart.high, chart.may_log
    )
    notes = [chart.note, "logarithmic" if scale.is_log else ""]
    note = "".join(f' <span class="dim">{as_text(note)}</span>' for note in notes if note)
    unit = f' <span class="dim">{as_text(chart.unit)}</span>' if chart.unit else ""
    lines = [
        f'<figure class="chart{" band" if chart.band else ""}">',
        f"<figcaption><span><b>{as_text(chart.title)}</b>{unit}{note}</span>"
        f"<span>{as_text(chart.about or _about(chart))}</span></figcaption>",
    ]
    if len(chart.lines) > 1:
        lines.append(_legend(chart))
    for axis in axes:
        drawn = draw_plot(chart, axis, scale, marks)
        below = _ticks_below(axis) if has_ticks else ""
        plot = f'<div class="plot">{_ticks_beside(chart, scale)}{drawn}</div>'
        lines.append(_by(axis, plot + below))
    return "\n".join([*lines, _table(chart, axes), "</figure>"])


def _by(axis: Axis, html: str) -> str:
    return f'<div class="{"by-step" if axis.kind == STEP else "by-time"}">{html}</div>'


def _values(chart: Chart) -> Iterable[float]:
    return (value for line in chart.lines for value in line.values)


def _is_known(value: float) -> bool:
    return value == value  # NaN isn't


def _along(line: Line, axis: Axis) -> Sequence[float]:
    return line.steps if axis.kind == STEP else line.times


def _about(chart: Chart) -> str:
    """Return where a single line ends and between what it lies."""
    if chart.band or len(chart.lines) != 1:
        return ""
    values = [value for value in chart.lines[0].values if _is_known(value)]
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return "no finite value"
    low, high = format_number(min(finite)), format_number(max(finite))
    words = [f"last {_number(values[-1])}"] + ([f"{low} to {high}"] if low != high else [])
    lost = len(values) - len(finite)
    return ", ".join(words + ([f"{lost} not finite"] if lost else []))


def _number(value: float, form: Callable[[float], str] = format_number) -> str:
    return form(value) if math.isfinite(value) else "not finite"


def buckets(line: Line, axis: Axis) -> list[list[Place]]:
    """Return the points of a line in runs without a gap.

    A run also ends at a value that isn't known or not finite, and where the axis goes back, as a
    resumed run's steps do.
    """
    width = (axis.last - axis.first) / POINTS_ACROSS
    gap = math.inf if axis.kind == STEP else line.gap
    runs: list[list[Place]] = [[]]
    column, last = -1, -math.inf
    group: list[float] = []  # the sum of places, of values, the least, the most, how many

    def close() -> None:
        if group:
            x, total, least, most, count = group
            mean = min(max(least, total / count), most)  # a sum of huge numbers isn't finite
            runs[-1].append((axis.locate_x(x / count), mean, least, most))
            group.clear()

    for x, value in zip(_along(line, axis), line.values):
        if not math.isfinite(x):
            continue
        if not math.isfinite(value) or x < last or x - last > gap:
            close()
            if runs[-1]:
                runs.append([])
        if not math.isfinite(value):
            last = x
            continue
        here = min(int((x - axis.first) / width), POINTS_ACROSS - 1)
        if group and here != column:
            close()
        if group:
            group[0] += x
            group[1] += value
            group[2:] = min(group[2], value), max(group[3], value), group[4] + 1
        else:
            group[:] = [x, value, value, value, 1]
        column, last = here, x
    close()
    return [run for run in runs if run]


def draw_plot(chart: Chart, axis: Axis, scale: Scale, marks: Sequence[Mark] = ()) -> str:
    """Return the SVG of a chart against one axis, 1000 wide and 100 high."""
    along = "step" if axis.kind == STEP else "time"
    about = chart.about or _about(chart) or f"{len(chart.lines)} lines"
    upright = "".join(f"M{axis.locate_x(x):.1f} 0V100" for x, _ in axis.list_ticks())
    level = (
        ""
        if chart.band
        else "".join(f"M0 {scale.locate_value(y):.1f}H1000" for y, _ in scale.list_ticks())
    )
    parts = [f'<path class="g" d="{upright}{level}"/>']
    placed = _placed(marks, axis)
    for kind in [kind for kind, has_line in MARK_KINDS.items() if has_line]:
        places = [at for mark, at in placed if mark.kind == kind]
        drawn = "".join(f"M{10 * at:.1f} 0V100" for at in places)
        parts += [f'<path class="m {kind}" d="{drawn}"/>'] if drawn else []
    coloured = list(enumerate(chart.lines))
    for number, line in [*coloured[LINE_COLOURS:], *coloured[:LINE_COLOURS]]:
        runs = buckets(line, axis)
        colour = _colour(number)
        if chart.band:
            parts += _bars(runs, chart.band)
        else:
            parts += _strokes(runs, scale, colour, has_range=len(chart.lines) == 1)
        parts += _lost(line, axis)
    return (
        '<svg viewBox="0 0 1000 100" preserveAspectRatio="none" role="img">'
        f"<title>{as_text(f'{chart.title} against {along}: {about}')}</title>{''.join(parts)}</svg>"
    )


def _strokes(runs: list[list[Place]], scale: Scale, colour: str, has_range: bool) -> list[str]:
    """A line through the means, before the range; a dot for a value without neighbours."""
    parts, y = [], scale.locate_value
    for run in runs:
        if has_range and any(least < most for _, _, least, most in run):
            wide = run if len(run) > 1 else [(x + by, *rest) for by in (-1, 1) for x, *rest in run]
            upper = " ".join(f"{x:.1f},{y(most):.1f}" for x, _, _, most in wide)
            lower = " ".join(f"{x:.1f},{y(least):.1f}" for x, _, least, _ in reversed(wide))
            parts.append(f'<polygon class="r" points="{upper} {lower}"/>')
        means = [f"{x:.1f},{y(mean):.1f}" for x, mean, _, _ in run]
        dot = " dot" if len(run) == 1 else ""
        parts.append(
            f'<polyline class="l {colour}{dot}" points="{" ".join(means * (1 + bool(dot)))}"/>'
        )
    return parts


def _bars(runs: list[list[Place]], tone: str) -> list[str]:
    """Bars where the mean is above 0, each as far as the mean stays about the same."""
    kind, unit = "bad" if tone == "bad" else "calm", 1000 / POINTS_ACROSS
    bars: list[list[float]] = []  # from, to, opacity
    for run in runs:
        for at, (x, mean, _, _) in enumerate(run):
            end = run[at + 1][0] if at + 1 < len(run) else x + unit
            opacity = 0.25 + 0.75 * math.ceil(5 * min(mean, 1.0)) / 5 if mean > 0 else 0.0
            if at and bars[-1][2] == opacity:
                bars[-1][1] = end
            else:
                bars.append([x, end, opacity])
    return [
        f'<rect class="{kind}" x="{x:.1f}" y="10" width="{end - x:.1f}" height="80" '
        f'fill-opacity="{opacity:.2f}"/>'
        for x, end, opacity in bars
        if opacity
    ]


def _lost(line: Line, axis: Axis) -> list[str]:
    """Dots at the top where a value was told that isn't finite."""
    pairs = zip(_along(line, axis), line.values)
    columns = sorted({round(axis.locate_x(x)) for x, value in pairs if math.isinf(value)})
    dots = "".join(f"M{x} 3h0" for x in columns)
    return [f'<path class="lost" d="{dots}"/>'] if dots else []


def _placed(marks: Sequence[Mark], axis: Axis) -> list[tuple[Mark, float]]:
    """Return the marks that stand on an axis, each with its place in percent."""
    found = []
    for mark in marks:
        at = mark.step if axis.kind == STEP else mark.time
        if at is not None and math.isfinite(at):
            found.append((mark, min(max(axis.locate_x(at) / 10, 0.0), 100.0)))
    return found


def draw_marks(marks: Sequence[Mark], axis: Axis) -> str:
    """Return the rows of marks, on the axis of the charts."""
    rows: dict[str, list[tuple[Mark, float]]] = {}
    for mark, at in _placed(marks, axis):
        rows.setdefault(mark.row, []).append((mark, at))
    lines = []
    for row, found in rows.items():
        lines.append(f'<div class="marks"><span class="row">{as_text(row)}</span>')
        for mark, at in spread_evenly(found, MOST_MARKS):
            kind = mark.kind if mark.kind in MARK_KINDS else "note"
            tag, link = ("a", f' href="{as_text(mark.link)}"') if mark.link else ("span", "")
            tip = "" if mark.label else f' title="{as_text(mark.text)}"'
            lines.append(
                f'<{tag} class="mark {kind}" style="left:{at:.1f}%"{link}{tip}>'
                f"{as_text(mark.label)}</{tag}>"
            )
        lines.append("</div>")
    return "".join(lines)


def spread_evenly(items: list, most: int) -> list:
    """Return at most `most` of the items, spread evenly, with the first and the last one."""
    if len(items) <= most:
        return list(items)
    return [items[round(at * (len(items) - 1) / (most - 1))] for at in range(most)]


def _ticks_below(axis: Axis) -> str:
    ticks = "".join(
        f'<span style="left:{min(max(axis.locate_x(x) / 10, 3), 97):.1f}%">{as_text(text)}</span>'
        for x, text in axis.list_ticks()
    )
    return f'<div class="axis" aria-hidden="true">{ticks}</div>'


def _ticks_beside(chart: Chart, scale: Scale) -> str:
    if chart.band:
        return ""
    ticks = [(scale.locate_value(y), text) for y, text in scale.list_ticks()]
    return "".join(
        f'<span class="level" aria-hidden="true" style="top:{top:.1f}%">{text}</span>'
        for top, text in ticks
    )


def _colour(number: int) -> str:
    """Return the class of a line's colour."""
    return f"c{number + 1}" if number < LINE_COLOURS else "c0"


def _legend(chart: Chart) -> str:
    keys = []
    for number, line in enumerate(chart.lines[:LINE_COLOURS]):
        known = [value for value in line.values if _is_known(value)]
        last = f" {_number(known[-1])}" if known else ""
        keys.append(
            f'<span class="key {_colour(number)}">{as_text(line.name)}'
            f'<span class="dim">{last}</span></span>'
        )
    if (others := len(chart.lines) - LINE_COLOURS) > 0:
        keys.append(f'<span class="key c0">{others} more, named under values</span>')
    return f'<div class="legend">{"".join(keys)}</div>'


def _table(chart: Chart, axes: Sequence[Axis]) -> str:
    """Return the values as a table that is closed at first: some of each line, the last one too."""
    heads = [line.name for line in chart.lines]
    each = max(min(TABLE_ROWS, MOST_TABLE_ROWS // max(len(heads), 1)), 2)
    has_names = len(heads) > 1
    rows = []
    for line in chart.lines:
        columns = [(axis, _along(line, axis)) for axis in axes]
        known = [at for at, value in enumerate(line.values) if _is_known(value)]
        for at in spread_evenly(known, each):
            cells = [as_text(line.name)] if has_names else []
            cells += [_cell(axis, along[at]) if len(along) > at else "" for axis, along in columns]
            rows.append([*cells, _number(line.values[at], "{:.6g}".format)])
    named = {STEP: "step", CLOCK: "time (UTC)", ELAPSED: "time"}
    heads = [*(["line"] if has_names else []), *(named[axis.kind] for axis in axes)]
    heads.append(as_text(chart.unit or chart.title))
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    head = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return (
        f"<details><summary>values</summary><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></details>"
    )


def _cell(axis: Axis, x: float) -> str:
    if not math.isfinite(x):
        return ""
    if axis.kind == CLOCK:
        return format_time(x, second=True)
    return f"{x:.6g}" if axis.kind == STEP else f"{x:.0f} s"
