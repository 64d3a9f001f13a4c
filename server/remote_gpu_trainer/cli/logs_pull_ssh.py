"""The commands that look into a run on a box: `logs`, `pull` and `ssh`."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import click

from ..text import BadRequest
from ..text.masking import shown
from . import terminal
from .boxes import box_of, remember
from .completion import folders
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
                screen.end()  # what the one before left without a line end
                resume = f", from {piece.resume}" if piece.resume else ""
                screen.say(f"--- attempt {piece.number}{resume} ---")
            elif isinstance(piece, run_log.Lost):
                screen.say(f"{piece.why}; the log goes on here where it was")
            elif isinstance(piece, run_log.Ended):
                screen.end()
                if piece.why == "ended":
                    screen.say(f"the run isn't alive; {_command('status', box, run)} tells more")
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


@command("pull")
@BOX_ARGUMENT
@click.argument(
    "names",
    metavar="FILE ...",
    nargs=-1,
    required=True,
    help="a file or folder of the run, by its path in the work folder or a whole one inside it, or "
    "a pattern in quotes such as 'out/**/*.json'",
)
@RUN
@click.option(
    "--to",
    type=Path,
    metavar="FOLDER",
    shell_complete=folders,
    help="where they go, under their paths on the box (default pulled/BOX-RUN)",
)
@click.option(
    "--force", is_flag=True, help="replace files here that no pull brought, or that were changed"
)
@ACCEPT_NEW
def pull(
    box: str, names: tuple[str, ...], run: str, to: Path | None, force: bool, accept_new: bool
) -> int:
    """Fetch files of a run while it lives. A checkpoint comes once it is complete and lies still; a
    file that changes while it is read is read again, and of a log that grows its beginning comes.
    All are compared by SHA-256. No link here is followed out of the folder.

    Exit 0: all came. Exit 1: one didn't, such as a corrupt checkpoint or a name that isn't there.
    Exit 2: nothing is called so, or could not tell.
    """
    from ..runs.release import default_name
    from ..runs.transfer import fetching

    place = box_of(box)
    with terminal.Progress("pulling", 0) as progress:

        def begins(total: int) -> None:
            progress.total = total

        fetched = fetching.fetch(
            place,
            run,
            names,
            lambda folder: to or fetching.own_folder() / default_name(place, folder),
            force=force,
            accept_new=accept_new,
            begins=begins,
            moves=progress,
        )
    remember(place)
    for name, size in fetched.files.items():
        print(f"{shown(fetched.to / name, 400)}  {size} bytes")
    for item, state in fetched.states.items():
        if state:
            proof = "complete" if state == "complete" else "it lay still; its format proves nothing"
            print(f"{item}: {proof}", file=sys.stderr)
    for item, why in fetched.failed.items():
        terminal.error(f"{item} didn't come: {why}; try again once the run has written it")
    for why in fetched.missing.values():
        terminal.error(why)
    return 1 if fetched.failed or fetched.missing else 0


@command("ssh")
@BOX_ARGUMENT
@RUN
@ACCEPT_NEW
def ssh(box: str, run: str, accept_new: bool) -> int:
    """Open a shell in the run's folder on a box, by your own ssh. The code that was sent lies in
    code/ there. What the shell ends with is the exit code.
    """
    import subprocess

    from ..boxes.box import interactive
    from ..runs.calling import SHELL

    place = box_of(box)
    words = interactive(place, ("bash", "-c", SHELL, "rgt", run), accept_new)
    try:
        done = subprocess.run(words, check=False)
    except FileNotFoundError:
        raise BadRequest(f"{words[0]} isn't installed here; install it") from None
    if done.returncode != 255:  # ssh's own, where it doesn't get there
        remember(place)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


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
