"""The command `runs compare`: what runs were given beside what came out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import terminal
from .boxes import print_answer
from .completion import files
from .parsing import JSON, command

if TYPE_CHECKING:
    from ..runs.comparison import Comparison

WIDE = 400  # characters of a line that no terminal cuts


@command("compare", short_help="show what differs between runs beside what came out")
@click.argument(
    "runs",
    nargs=-1,
    required=True,
    help="two runs or more, or one queue: names as `rgt runs` shows them, BOX:RUN, folders here "
    "such as a release's; RUN/CELL for one cell",
)
@click.option(
    "--metric",
    default="",
    metavar="NAME",
    help="the number that counts, by its name in the output (default: `metric` of the job)",
)
@click.option(
    "--page",
    type=Path,
    metavar="FILE",
    shell_complete=files,
    help="also write it as a page, with the runs over each other: one HTML file without a network",
)
@JSON
def compare(runs: tuple[str, ...], metric: str, page: Path | None, as_json: bool) -> int:
    """Show what differs between runs beside what came out: the job, the options of the command, the
    commit and what differs from it, the card, versions and data; the metric, the losses, steps a
    second, hours and money. Each cell of a queue is a run. What a run didn't leave is not recorded.

    Runs that differ in their seed alone repeat one configuration. Configurations are compared over
    the seeds that both have: the mean of the differences, their standard deviation and how many
    there are. That is all that is said: which is better is yours to judge.

    Exit 0: shown. Exit 2: could not tell.
    """
    from ..runs import compare_page, compared_runs, comparison

    with terminal.waiting("asking the boxes …"):
        found = compared_runs.find(runs, metric, series=page is not None)
    if len(found) < 2:
        raise compared_runs.NotCompared(
            f"{found[0].name} is one run; name two or more, or one with a queue"
        )
    compared = comparison.compare_runs(found)
    if page is not None:
        compare_page.write(compared, page)
    if as_json:
        print_answer(compared.as_dict())
    else:
        print_comparison(compared)
    return 0


def print_comparison(compared: Comparison) -> None:
    """Print the table of the runs, that of their configurations, and what can't be said."""
    from ..runs import comparison_words

    console = terminal.console(sys.stdout)
    if not terminal.is_terminal(sys.stdout):
        console.width = WIDE
    console.print(_table(*comparison_words.run_rows(compared)))
    for run in compared.runs:
        if run.diff and "beside the commit" in compared.differing:
            print(f"\n{run.name}, beside the commit:")
            terminal.write("\n".join(f"  {line}" for line in run.diff), {})
    if compared.configurations:
        print()
        console.print(_table(*comparison_words.configuration_rows(compared)))
    for note in compared.notes:
        print(f"note: {note}")


def _table(head: list[str], rows: list[list[str]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in head:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
