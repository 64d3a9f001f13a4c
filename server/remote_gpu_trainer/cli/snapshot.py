"""The command `snapshot`: who stands where in a run, before its processes or its box are gone."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..text.masking import shown
from . import terminal
from .boxes import BOX, box_of, print_answer, remember
from .completion import folders
from .parsing import JSON, command, program
from .render_status_release import ACCEPT_NEW


@command("snapshot", about_boxes=True)
@click.argument("boxes", metavar="BOX ...", nargs=-1, required=True, help=f"{BOX}; all of one run")
@click.option(
    "--run",
    default="",
    metavar="NAME",
    help="the run: a name under ~/runs, or a folder there (default: the one that is alive, else "
    "the newest; without any, whatever trains there)",
)
@click.option(
    "--to",
    type=Path,
    metavar="FOLDER",
    shell_complete=folders,
    help="a new folder for it (default snapshots/BOX-RUN-TIME)",
)
@ACCEPT_NEW
@JSON
def snapshot(
    boxes: tuple[str, ...], run: str, to: Path | None, accept_new: bool, as_json: bool
) -> int:
    """Take down what vanishes with a run's processes and its boxes: the stacks of all ranks and the
    calls in which they wait, the cards, Xids and memory kills, disks, connections, dumps of the
    Flight Recorder, versions, the last lines. It only reads, needs no installation, and takes at
    most 20 seconds on a box, even if a disk there hangs.

    The page says first which rank differs from the others, and how. The folder is what 'lookup
    --log FOLDER' reads. The runner takes a snapshot by itself before it ends a run that stalls.

    Exit 0: taken. Exit 1: nothing trains there. Exit 2: could not tell.
    """
    from ..runs import run_snapshot

    places = [box_of(box) for box in boxes]
    with terminal.waiting(f"looking at {', '.join(shown(one.name, 40) for one in places)} …"):
        taken = run_snapshot.take_snapshot(places, run, to, accept_new=accept_new)
    for place in places:
        if shown(place.name, 80) not in taken.failed:
            remember(place)
    for why in (*taken.empty.values(), *taken.failed.values()):
        terminal.error(why)
    if as_json:
        print_answer(taken.as_dict(), places[0], run)
    elif taken.snapshots:
        print(taken.page, end="")
    if taken.folder:
        print(f"kept in {taken.folder}; next: {program()} lookup --log {taken.folder}",
              file=sys.stderr)  # fmt: skip
    return taken.code
