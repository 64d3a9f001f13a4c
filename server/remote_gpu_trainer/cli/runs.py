"""The command `runs`: every run known from here, on one screen."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from ..text.masking import shown
from ..text.spans import shown_seconds
from . import terminal
from .boxes import print_answer
from .compare import compare
from .parsing import JSON, Group, program

if TYPE_CHECKING:
    from rich.table import Table

    from ..runs.overview import Row

EVERY = 30.0  # seconds between two rounds of --watch
WIDE = 400  # characters of a line that no terminal cuts
STYLES = {
    "alive": "green",
    "finished": "green",
    "stopped": "yellow",
    "no answer": "yellow",
    "unknown": "yellow",
    "gone": "dim",
}  # any other state is bad


@click.group(
    "runs",
    cls=Group,
    invoke_without_command=True,
    exclusive=("watch", "as_json"),
    about_boxes=True,
    subcommand_metavar="[compare A B ...]",
)
@click.option("--watch", is_flag=True, help=f"stay, and ask anew every {EVERY:.0f} s")
@click.option("--all", "with_ended", is_flag=True, help="also the runs that have ended")
@JSON
@click.pass_context
def runs(ctx: click.Context, watch: bool, with_ended: bool, as_json: bool) -> int:
    """Show every run known from here: on this machine, on each box that a command has reached until
    `rgt release` says that it is gone, and on your own machines. All boxes are asked at once, five
    seconds each; one that doesn't answer keeps its row, with what it said last.

    The cost is about what the box has cost since the first contact, where its price is known.

    Exit 0: shown, whatever the runs' states. Exit 1: no run is known.
    """
    if ctx.invoked_subcommand:
        return 0
    from ..runs import overview

    if watch:
        return _watch(with_ended)
    with terminal.waiting("asking the boxes …"):
        found = overview.rows(with_ended=with_ended)
    now = time.time()
    if as_json:
        print_answer({"runs": [row.as_dict(now) for row in found]})
    elif found:
        _console().print(_table(found, now))
        _print_silent(found)
    else:
        print(_nothing(with_ended), file=sys.stderr)
    return 0 if found else 1


runs.add_command(compare)


def _watch(with_ended: bool) -> int:
    """Keep the rows on the screen until Ctrl-C; where there is none, print them at each round."""
    from rich.live import Live
    from rich.text import Text

    from ..runs import overview

    found: list[Row] = []
    has_asked = False
    while not terminal.is_terminal(sys.stdout):
        found = overview.rows(with_ended=with_ended)
        _console().print(_table(found, time.time()) if found else _nothing(with_ended))
        sys.stdout.flush()
        time.sleep(EVERY)

    def draw() -> Any:
        if found:
            return _table(found, time.time())
        return Text(_nothing(with_ended) if has_asked else "asking the boxes …")

    with Live(get_renderable=draw, console=_console(), refresh_per_second=1):
        while True:
            found, has_asked = overview.rows(with_ended=with_ended), True
            time.sleep(EVERY)


def _nothing(with_ended: bool) -> str:
    """Say that there is no row, and which boxes may be billed all the same."""
    from ..runs import billing

    said = f"no run is known here; {program()} start BOX job.yaml begins one"
    if not with_ended:
        said = "no run is alive that is known here; "
        said += f"{program()} runs --all shows those that have ended"
    billed = billing.about(time.time())["billed"]
    lines = [billing.in_words({"billed": [one], "cost": None}, one["box"]) for one in billed]
    return "\n".join([said, *(shown(line) for line in lines)])


def _console() -> Any:
    console = terminal.console(sys.stdout)
    if not terminal.is_terminal(sys.stdout):
        console.width = WIDE
    return console


def _table(found: list[Row], now: float) -> Table:
    """The rows, with the columns that any of them fills."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    cells = [_cells(row, now) for row in found]
    names = [name for name in cells[0] if any(line[name] for line in cells)]
    for name in names:
        is_number = name in ("STEP", "%", "LOSS", "COST")
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row, line in zip(found, cells, strict=True):
        style = STYLES.get(row.state, "bold red")
        table.add_row(*(Text(line[n], style if n == "STATE" else "") for n in names))
    return table


def _cells(row: Row, now: float) -> dict[str, str]:
    """The texts of a row, by column."""
    step = "" if row.step is None else str(row.step)
    if step and row.total:
        step += f"/{row.total}"
    state = row.state + (f", last {row.last_state}" if row.last_state else "")
    state += ", results here" if row.is_home else ""
    age = None if row.at is None else max(0.0, now - row.at)
    return {
        "RUN": shown(row.name, 60),
        "BOX": _short(row.box),
        "STATE": state,
        "STEP": step,
        "%": "" if row.percent is None else f"{row.percent:.0f}",
        "LOSS": _number(row.loss),
        "LEFT": "" if row.seconds_left is None else shown_seconds(max(0.0, row.seconds_left)),
        "COST": "" if row.cost is None else f"{row.cost:.2f}",
        "DEADLINE": _until(row, now),
        "ASKED": "" if age is None else "now" if age < 1 else f"{shown_seconds(age)} ago",
    }


def _number(value: float | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.4g}"


def _until(row: Row, now: float) -> str:
    if row.deadline is None or row.has_ended:
        return ""
    left = row.deadline - now
    return f"in {shown_seconds(left)}" if left > 0 else f"passed {shown_seconds(-left)} ago"


def _short(box: str) -> str:
    """A box for a column: of a pasted line host and port, which commands take for BOX."""
    from ..boxes.box import BadBox, parse

    try:
        found = parse(box)
    except BadBox:
        return shown(box, 40)
    return shown(found.short, 60)


def _print_silent(found: list[Row]) -> None:
    """Say on stderr why a box, or a run on it, gave no answer: once for each reason."""
    for why in dict.fromkeys(row.why for row in found if row.state == "no answer" and row.why):
        print(why, file=sys.stderr)
