"""The page of a comparison: one HTML file that loads and runs nothing, by templates/pages."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from ..drawing.charts import Chart, draw_charts
from ..text.replacing import write_over
from . import comparison_words, run_charts
from .comparison import Comparison
from .run_page import fill
from .run_series import RunSeries, read_rows

OURS = "<!doctype html>\n<!-- remote-gpu-trainer runs compare -->\n"


def write(comparison: Comparison, to: Path) -> None:
    """Write the page of a comparison.

    Raises BadRequest for a place that can't be written or holds anything but an earlier page.
    """
    write_over(to, page(comparison), OURS, "an earlier page of a comparison", "--page")


def page(comparison: Comparison) -> str:
    """Return the whole page. Pure."""
    tables = [comparison_words.run_rows(comparison)]
    tables += [comparison_words.configuration_rows(comparison)] if comparison.configurations else []
    shows_diffs = "beside the commit" in comparison.differing
    return OURS + fill(
        "compare.html.j2",
        tables=tables,
        diffs=[(run.name, run.diff) for run in comparison.runs if run.diff and shows_diffs],
        charts=Markup(draw_charts(charts_of(comparison), is_elapsed=True)),
        notes=comparison.notes,
    )


def charts_of(comparison: Comparison) -> list[Chart]:
    """Return the charts of the runs over each other, a line a run."""
    runs = [
        (run.name, RunSeries("", read_rows(run.series), []))
        for run in comparison.runs
        if run.series
    ]
    return run_charts.charts_of(runs, is_elapsed=True)
