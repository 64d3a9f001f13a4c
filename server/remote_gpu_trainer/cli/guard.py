"""The command `guard`: look after rented boxes without any agent's session."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import click

from ..text import BadRequest, UserError
from ..text.masking import shown
from ..text.spans import shown_moment, shown_seconds
from . import terminal
from .boxes import BOX, box_of, print_json
from .parsing import JSON, Group
from .sweep import KEYS, agrees, with_keys

YES = click.option("--yes", is_flag=True, help="don't ask")
NOTIFY = click.option(
    "--notify",
    metavar="COMMAND",
    help="run this, without a shell, for each new line, which it has on its standard input and in "
    "RGT_MESSAGE",
)
MOST_OF_A_MESSAGE = 30_000  # characters; a kernel takes 128 KiB for a variable
DISCLAIMER = "never tried on a real account"


@click.group(
    "guard",
    cls=Group,
    invoke_without_command=True,
    exclusive=("once", "pause", "unpause"),
    subcommand_metavar="[confirm|install|status|uninstall]",
)
@click.option("--once", is_flag=True, help="do one round, as the timer does each ten minutes")
@click.option("--pause", is_flag=True, help="stop no box until --unpause; warnings go on")
@click.option("--unpause", is_flag=True, help="let it stop boxes again")
@KEYS
@NOTIFY
@JSON
@click.pass_context
def guard(
    ctx: click.Context,
    once: bool,
    pause: bool,
    unpause: bool,
    keys: Path | None,
    notify: str | None,
    as_json: bool,
) -> int:
    """Look at each box that `rgt release` hasn't confirmed gone, and warn: past its deadline or
    budget, no answer, a stop that didn't happen, a stopped box whose disk is billed, a box on which
    nothing runs any more or no run has begun for an hour, one that answers although its provider
    calls it ended, one that an older list of boxes lacks.

    It stops a box only where all of this holds: you ran `rgt guard confirm` for it on this machine,
    and its files weren't copied or restored since; a deadline or budget that you wrote has passed,
    and the time that the run's own end may take; the newest `rgt drill` for this provider, account
    and kind of box passed, within 90 days; the provider's list shows that one id, made at that
    time, just before; no program uses the box's cards, and nothing that the stop destroys may be
    nowhere else; its clock agrees with the provider's, and it hasn't just started, slept or lost
    the network. One box a round. A box that can't be reached is left alone, unless you confirmed it
    with --if-unreachable stop.

    What may be nowhere else: each run there, and each file on a disk that the stop doesn't keep
    that has the name of a save, a mebibyte, or lies where a run saves. Of installed software (/usr,
    /var/lib, site-packages and the like) what is named like weights and in no list of packages
    (pip's RECORD, conda-meta, dpkg's) with these bytes, as far as the list tells. What `rgt
    release` verified doesn't count while nothing that the run saved has changed since and the copy
    here, which is read again just before, is whole; nor does what the run's own copy to its durable
    place covers, if that place isn't on the box and a new `run.sh sync` there, which copies what is
    lacking, goes through. Left out is what is fetched again (the caches of pip, torch, Hugging
    Face's hub and the like). What can't be read counts, so a box with a data set or a large log of
    your own, outside /var/log, is only warned of until you remove it or bring it home.

    Who uses a card: whoever has its device file open or is named by nvidia-smi. Where that can't be
    seen, as in a container without these files, any Python that isn't the system's; a program that
    isn't Python isn't seen then.

    Of a box that you haven't confirmed the provider isn't asked: whether it runs, is stopped or is
    gone, it may still be billed. `rgt sweep` asks.

    It was never tried on a real account. Without a command or option: `rgt guard status`.

    Where a file that it needs is damaged, or another user can write it or a folder on the way to
    it, it says so, warns on, and stops nothing until that is mended, but for boxes made after a
    damaged job. Without its keys it asks no provider, and warns by what it knows here. A box that
    was asked to stop three times and still runs is told in each round. So is one that the
    provider's list lacks, until `rgt release` has confirmed that it is gone.

    Exit 0: nothing to tell. Exit 1: it warned, or asked a box to stop. Exit 2: it couldn't do its
    work.
    """
    if ctx.invoked_subcommand:
        return 0
    from ..runs import guard as guards

    if pause or unpause:
        return _pause(pause)
    if not once:
        return _status(as_json)
    say = (lambda line: None) if as_json else print
    send = (lambda line: _call(notify, line)) if notify else None
    keyless, environment = "", dict(os.environ)
    try:
        environment = with_keys(keys)
    except BadRequest as error:  # what may be billed is known without the providers
        keyless = str(error)
    try:
        told = guards.work(environment, time.time(), say, send, keyless)
    except UserError as error:
        if send:
            with suppress(UserError):
                send(f"the guard can't work: {error}")
        raise
    if as_json:
        print_json({"lines": told.lines, "blocked": told.blocked})
    elif not told.lines:
        print("nothing to tell")
    return told.code


def _pause(pause: bool) -> int:
    """Let no box be stopped, or let it again. Raises Unfit."""
    from ..runs import guard_files, local_files

    file = guard_files.place("paused")
    try:
        if pause:
            local_files.make_folder(file.parent)
            file.touch()
        else:
            file.unlink(missing_ok=True)
    except OSError as error:
        raise guard_files.Unfit(
            f"can't write {file} ({error.strerror}); check permissions"
        ) from None
    print("paused: no box is stopped until rgt guard --unpause" if pause else "not paused any more")
    return 0


def _call(notify: str, line: str) -> None:
    """Give a line to the user's command. Raises Unfit."""
    from ..runs.guard_files import Unfit

    try:
        words, message = shlex.split(notify), line[:MOST_OF_A_MESSAGE]
        subprocess.run(
            words, input=line + "\n", text=True, env={**os.environ, "RGT_MESSAGE": message},
            timeout=60, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        raise Unfit(f"--notify failed for: {line}; run it by hand to see why") from None


@guard.command("confirm")
@click.argument("box", help=BOX)
@click.option("--provider", required=True, metavar="NAME", help="runpod, vastai or aws")
@click.option("--id", "id", default="", help="the box's id there (default: the one at its address)")
@click.option(
    "--if-unreachable",
    "wins",
    type=click.Choice(["alarm", "stop"]),
    default="alarm",
    help="what the guard does past the end where the box can't be reached: alarm keeps the data, "
    "stop ends the bill (default alarm)",
)
@KEYS
@YES
def confirm(box: str, provider: str, id: str, wins: str, keys: Path | None, yes: bool) -> int:
    """Confirm on this machine which box of the provider's list this is, and the command that may
    stop it past its end. Nothing is stopped now. Job files, logs and boxes can't confirm anything.
    A box that ssh reaches by a name is found by the IP addresses that the name has here. One that
    the list shows at none of them can only be warned of, as every box is.

    Exit 0: confirmed. Exit 1: not.
    """
    from ..boxes.box import address
    from ..platforms import provider as providers
    from ..runs import guard as guards
    from ..runs import guard_files, ledger

    place = box_of(box)
    at = address(place)
    opened = next((one for one in ledger.still_open() if one.address == at), None)
    if opened is None:
        raise BadRequest(f"no command from here has reached {shown(box, 80)}; begin with rgt start")
    asked = providers.of(provider, with_keys(keys))
    own, item = guards.candidate(asked, opened.name, at, opened.since, id, wins, time.time())
    act = asked.commands.stop
    kept = providers.kept(act, item) if act else []
    made = shown_moment(own.created)
    print(f"{own.id} ({item.name or 'no name'}), made {made}, {item.state}")
    print(f"past its end it is stopped by: {shlex.join(own.words)}")
    told = "all of its root disk" if "/" in kept else ", ".join(kept) or "nothing"
    found = guard_files.read()
    for line in found.damage:
        terminal.error(line)
    drilled = found.drilled(own, act) if act else None
    tried = "the newest rgt drill didn't pass" if found.drill(own) else DISCLAIMER
    tried = f"as rgt drill showed at {shown_moment(drilled)}" if drilled else tried
    print(f"that keeps {told}, and destroys all else ({tried})")
    reach = "it is stopped" if wins == "stop" else "it is left on, and billed"
    print(f"where it can't be reached then: {reach}")
    if drilled is None:
        print(f"before it acts, rgt drill {own.provider} BOX must have passed for this kind of box")
    if not agrees("confirm this?", yes):
        return 1
    guard_files.confirm(own)
    print("confirmed")
    return 0


@guard.command("install")
@click.option("--as", "kind", type=click.Choice(["systemd", "launchd", "cron"]),
              help="the kind of timer (default: what this machine has)")  # fmt: skip
@KEYS
@NOTIFY
@YES
def install(kind: str | None, keys: Path | None, notify: str | None, yes: bool) -> int:
    """Show the timer that calls `rgt guard --once` each ten minutes, and write it once you agree.

    Exit 0: written. Exit 1: not.
    """
    from ..runs import guard_timer

    options = []
    if keys:
        with_keys(keys)
        options += ["--keys", str(keys.resolve())]
    options += ["--notify", notify] if notify else []
    made = guard_timer.timer(kind or guard_timer.kind_here(), options)
    print(made.as_text())
    if made.kind == "systemd":
        print("it stops when you log out, unless loginctl enable-linger was run once")
    if not agrees("write and start this?", yes):
        return 1
    guard_timer.uninstall()
    guard_timer.install(made)
    print("written; rgt guard status shows its rounds")
    return 0


@guard.command("uninstall")
def uninstall() -> int:
    """Take the guard's timer away. Confirmations and the journal stay."""
    from ..runs import guard_timer

    found = guard_timer.uninstall()
    print(f"taken away: {', '.join(found)}" if found else "there was no timer")
    return 0


@guard.command("status")
@JSON
def status(as_json: bool) -> int:
    """Show whether the guard works, what it told last, and what keeps it from stopping each box.

    Exit 0: it works, and told nothing. Exit 1: it told something. Exit 2: it doesn't work.
    """
    return _status(as_json)


def _status(as_json: bool) -> int:
    from ..runs import guard as guards
    from ..runs import guard_files, guard_timer, known_jobs, ledger, this_machine

    timers, kept, here = guard_timer.installed(), guard_files.read(), this_machine.mark()
    last = kept.last
    age = None if last is None else time.time() - last.at
    works = age is not None and -guards.EVERY < age < 3 * guards.EVERY
    still_open = {box.address for box in ledger.still_open()} | {*kept.lost(known_jobs.every())}
    confirmed = [one for one in kept.confirmed.values() if one.address in still_open]
    names = [shown(one.name, 60) for one in confirmed if one.here == here]
    others = [one for one in confirmed if one.here != here]
    told = {
        "timers": timers,
        "paused": os.path.lexists(guard_files.place("paused")),
        "last_round": last and last.at,
        "works": works,
        "damage": kept.damage,
        "lines": last.lines if last else [],
        "blocked": last.blocked if last else {},
        "confirmed": names,
        "not_confirmed_here": [shown(one.name, 60) for one in others],
    }
    for line in kept.damage:
        terminal.error(line)
    if as_json:
        print_json(told)
    else:
        when = "none yet" if age is None else f"{shown_seconds(max(0, age))} ago"
        late = "" if works else ", so it doesn't work now"
        print(f"timer: {', '.join(timers) or 'none; rgt guard install shows one'}")
        print(f"last round: {when}{late}")
        if told["paused"]:
            print("paused: it stops no box")
        none = "none; rgt guard confirm BOX --provider NAME names one"
        print(f"confirmed here: {', '.join(names) or none}")
        for one in others:
            print(f"not confirmed here: {shown(one.name, 60)}; {one.again}")
        for line in told["lines"]:
            print(f"told: {line}")
        for name, why in told["blocked"].items():
            print(f"doesn't stop {name}: {why.partition(': ')[2]}")
    return last.code if last and works and timers and not kept.damage else 2
