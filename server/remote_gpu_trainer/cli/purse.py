"""The command `purse`: what all boxes together may cost."""

from __future__ import annotations

import time

import click

from . import terminal
from .boxes import print_answer
from .parsing import JSON, command


@command("purse")
@click.argument(
    "action",
    required=False,
    default="show",
    type=click.Choice(["show", "set", "clear"]),
    help="what to do (default: show)",
)
@click.argument("amount", nargs=-1, help="for set: money with its currency, such as 40 USD")
@JSON
def purse(action: str, amount: tuple[str, ...], as_json: bool) -> int:
    """Show, set or clear a limit on what all boxes together may cost.

    `rgt purse set 40 USD` counts from now on. Then `start` reserves what a run may cost until it
    ends at the latest, by the job's `price`, and refuses what doesn't fit. A price holds from when
    it was typed, and while several runs of a box may live, the highest of theirs. A box counts
    until `rgt release` has confirmed that it is gone, or you say so by --forget or --mine, which
    nobody checks. All of it is estimated by time and price: storage, traffic and rounding aren't
    counted, nor a box that no command of yours reached from here. It stops no box, and is a brake
    for who keeps to it, no lock: whoever may write your files can change it.

    Exit 0: shown or done. Exit 1: no purse is set, or it is spent. Exit 2: the limit or the list of
    boxes is damaged, missing, shorter than it was, or put back from a copy, so that nobody can say
    what is left; then `start` and `resume` refuse too, until you set or clear it.
    """
    from ..runs import purse as purses
    from ..text.money import read_money

    if action == "set":
        money = read_money(" ".join(amount))
        if money is None or not money.currency:
            raise click.UsageError("set takes an amount with its currency, such as 40 USD")
        purses.set_limit(money)
    elif amount:
        raise click.UsageError(f"{action} takes no amount; use set")
    elif action == "clear":
        purses.set_limit(None)
    found = purses.account(time.time())
    if as_json:
        print_answer(found.as_dict() if found else {"purse": None})
    elif found:
        print(f"purse: {found.in_words()}")
    elif action == "clear":
        print("purse: none is set any more")
        return 0
    else:
        terminal.error("no purse is set; set one with rgt purse set 40 USD")
    return 0 if (found and found.left > 0) or action == "clear" else 1
