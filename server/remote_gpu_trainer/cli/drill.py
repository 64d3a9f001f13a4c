"""The command `drill`: try a platform's commands on a throwaway box."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import click

from . import terminal
from .boxes import BOX, box_of
from .parsing import command
from .sweep import KEYS, agrees, with_keys


@command("drill")
@click.argument("provider", help="runpod, vastai, lambda or aws")
@click.argument("box", required=False, help=f"{BOX}; it ends. Without it the steps are shown")
@click.option("--id", "id", default="", help="the box's id there, which must be at its address")
@KEYS
@click.option("--yes", is_flag=True, help="agree to each step")
def drill(provider: str, box: str | None, id: str, keys: Path | None, yes: bool) -> int:
    """Try on a throwaway box what the page of a platform says: list it, leave marks in its folders,
    stop it, start it, look at which marks survived, and end it. You rent the box, the cheapest of
    the kind that you train on; ALL ON IT IS LOST. Each step shows its command and cost, and asks.

    A receipt stays on this machine, without names, ids or keys: by it `rgt guard` may stop boxes of
    this provider, account and kind for 90 days, until a newer one didn't pass. A copied or restored
    one counts for nothing. One that breaks off didn't pass. It prints the lines for the platform's
    page.

    Exit 0: passed, or the steps were shown. Exit 1: not passed. Exit 2: couldn't be done.
    """
    from ..platforms import provider as providers
    from ..runs import drill as drills
    from ..runs import guard_files

    asked = providers.of(provider, with_keys(keys))
    print("\n".join(drills.plan(asked)))
    if box is None:
        return 0
    place = box_of(box)

    def agreed(name: str, words: str, cost: str) -> bool:
        print(f"{name}: {words}\n    {cost}")
        return agrees(f"{name} now?", yes)

    if not agreed("begin", "the steps above, on this box", "ALL ON IT IS LOST at the end"):
        return 1
    try:
        done = drills.drill(asked, place, id, drills.Ask(agreed, print))
    except providers.NoAnswer:
        terminal.error("the drill broke off; look in the console, the box may be billed")
        raise
    if (file := guard_files.drill_file(done)).exists():
        print(f"receipt: {file}")
    for line in drills.lines_for_page(done, date.today()):
        print(f"for the page: {line}")
    if not done.passed:
        print("not passed" if "end" in done.seconds else
              "not passed; if the box is still on, it is billed: end it yourself")  # fmt: skip
    elif asked.commands.stop:
        print("passed")
    else:
        print(f"passed for the end alone: {asked.name} has no stop, so none was tried, and rgt "
              "guard stops no box there")  # fmt: skip
    return 0 if done.passed else 1
