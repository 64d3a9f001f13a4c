"""The commands that look into a run on a box: `logs`, `pull` and `ssh`."""

from __future__ import annotations

import shlex
import shutil
import sys

import click

from ..text.masking import shown
from . import terminal
from .boxes import box_of, remember
from .parsing import command, program
from .render_status_release import ACCEPT_NEW, BOX_ARGUMENT, RUN, seconds

LAST = 50  # lines with which --follow begins


@command("logs", called_elsewhere={"--tail": "--since", "--lines": "--since"})
@BOX_ARGUMENT
@RUN
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help=f"go on with it as it grows, until the run ends; begins with its last {LAST} lines unless "
    "--since or --attempt says otherwise",
)
@click.option(
    "--rank",
    type=click.IntRange(0),
    metavar="N",
    help="only lines that name this rank, such as those of torchrun --tee 3",
)
@click.option(
    "--since",
    type=seconds,
    metavar="SPAN",
    help="what came in the last 10m or 2h, and at most 20 s before",
)
@click.option(
    "--attempt", type=click.IntRange(1), metavar="N", help="only this attempt of the program"
)
@ACCEPT_NEW
def logs(
    box: str,
    run: str,
    follow: bool,
    rank: int | None,
    since: float | None,
    attempt: int | None,
    accept_new: bool,
) -> int:
    """Print the log of a run, over one connection that is taken up again where it breaks. Of a
    progress bar the last state is printed, and at a terminal its present one is shown. What looks
    like a secret is masked, control characters are removed. Stderr tells where an attempt begins.

    Ctrl-C leaves the run alone.

    Exit 0: all of it was printed. Exit 2: no such log, or no answer. Exit 130: Ctrl-C.
    """
    from ..runs import run_log
    from ..runs.log_text import LogText

    place = box_of(box)
    last = LAST if follow and since is None and attempt is None else None
    wanted = run_log.Wanted(follow, attempt, since, last)
    screen = _Screen(LogText(rank))
    alive = True
    try:
        for piece in run_log.read(place, run, wanted, accept_new=accept_new):
            if isinstance(piece, run_log.Begun):
                alive = piece.alive
                remember(place)
            elif isinstance(piece, run_log.Attempt):
                resume = f", from {piece.resume}" if piece.resume else ""
                screen.say(f"--- attempt {piece.number}{resume} ---")
            elif isinstance(piece, run_log.Lost):
                screen.say(f"{piece.why}; the log goes on here where it was")
            elif isinstance(piece, run_log.Ended):
                screen.end()
                if piece.why == "ended":
                    screen.say(f"the run has ended; {_command('status', box, run)} tells how")
            else:
                screen.show(piece)
    except KeyboardInterrupt:
        screen.end()
        goes_on = "the run goes on" if alive else "nothing was done to the run"
        screen.say(f"{shown(box, 80)}: {goes_on}; {_command('status', box, run)} shows it")
        return 130
    finally:
        screen.end()
    if rank is not None and not screen.text.ranked:
        screen.say(
            "no line names a rank; without --rank all are printed, and torchrun --tee 3 names it"
        )
    return 0


def _command(name: str, box: str, run: str) -> str:
    """A command about the same run, as the user would type it."""
    return f"{program()} {name} {shlex.quote(box)}{f' --run {shlex.quote(run)}' if run else ''}"


class _Screen:
    """Where a log is printed: lines on stdout, and at a terminal the bar below them."""

    def __init__(self, text):
        self.text = text
        self._has_bar = False
        self._is_terminal = terminal.is_terminal(sys.stdout)

    def show(self, data: bytes) -> None:
        """Print the lines that these bytes end, and the bar as it stands."""
        lines = self.text.feed(data) if data else []
        bar = self.text.bar[: shutil.get_terminal_size().columns - 1] if self._is_terminal else ""
        out = self._cleared() + "".join(f"{line}\n" for line in lines) + bar
        self._has_bar = bool(bar)
        if out:
            sys.stdout.write(out)
            sys.stdout.flush()

    def end(self) -> None:
        """Print what has no line end."""
        out = self._cleared() + "".join(f"{line}\n" for line in self.text.rest())
        self._has_bar = False
        if out:
            sys.stdout.write(out)
            sys.stdout.flush()

    def say(self, line: str) -> None:
        """Print a line of our own on stderr, below what is there."""
        sys.stdout.write(self._cleared())
        self._has_bar = False
        sys.stdout.flush()
        terminal.write(line, {r"\A---.*": "bold"}, sys.stderr)

    def _cleared(self) -> str:
        return "\r\x1b[K" if self._has_bar else ""
