"""The page of a run: one HTML file that loads and runs nothing, by templates/pages/run.html.j2."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ..drawing.axis import format_time
from ..drawing.charts import draw_charts, printable
from ..drawing.style import STYLE
from ..text.replacing import write_over
from . import run_charts, status_words
from .run_series import RunSeries
from .status_reply import Status

OURS = "<!doctype html>\n<!-- The page of a run -->\n"
MOST = 200  # of the marks are listed, the newest ones
COLOURS = {"alive": "good", "finished": "good", "stopped": "hint", "unknown": "hint"}
KINDS = {"fail": "bad", "warn": "hint", "resume": "good"}  # of a mark, with its colour in the list


def write(status: Status, series: RunSeries, to: Path, now: float) -> None:
    """Write the page of a run. `now`: seconds since 1970.

    Raises BadRequest for a place that can't be written or holds anything but an earlier page.
    """
    write_over(to, page(status, series, now), OURS, "an earlier page of a run", "--page")


def fill(template: str, **values: object) -> str:
    """Return one of templates/pages with these values; a text is escaped unless it is Markup."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates" / "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: printable(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["when"] = partial(format_time, second=True)
    templates.filters["step"] = lambda step: "" if step is None else f"{step:.0f}"
    return templates.get_template(template).render(style=Markup(STYLE), **values)


def page(status: Status, series: RunSeries, now: float) -> str:
    """Return the whole page. Pure."""
    folder = status.dir or series.folder
    name = Path(folder).name or status.box
    marks = run_charts.marks_of(series)
    drawn = draw_charts(run_charts.charts_of([(name, series)]), marks)
    return OURS + fill(
        "run.html.j2",
        name=name,
        place=f"{status.box}:{folder}",
        state=status.state,
        colour="bad" if status.code == 1 else COLOURS.get(status.state, "bad"),
        first=format_time(series.rows[0].t),
        last=format_time(series.rows[-1].t),
        made=format_time(now),
        lines=[*status_words.in_words(replace(status, course=[])), *status.evidence],
        charts=Markup(drawn),
        marks=marks[-MOST:],
        kinds={mark.kind: KINDS.get(mark.kind, "") for mark in marks},
        left_out=max(len(marks) - MOST, 0),
    )
