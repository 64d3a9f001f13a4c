"""Try on a throwaway box what a platform's page says: list, stop, start, end, and what survives.

It is the only way from what was read to what was tried. Each step names its command and its cost
before it runs, and the user agrees to each. The receipt has no names, ids, addresses or keys.
"""

from __future__ import annotations

import secrets
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import fnmatchcase

from ..boxes import box as boxes
from ..boxes.box import Box
from ..platforms import provider as providers
from ..platforms.profile import Act
from ..platforms.provider import Item, Provider
from ..text.masking import shown
from . import guard_files, other_runs
from .guard import ids_at, names_of
from .guard_files import Receipt, Unfit
from .this_machine import hash_of

MOST = 900.0  # seconds until a box has the state that a command gives it
EVERY = 15.0  # seconds between two lists
REACH = 300.0  # seconds until a started box answers
MARK = ".rgt-drill"
# Runs on a box. Leaves a mark in each folder that can be written, or tells in which one it is, and
# takes it away.
_MARK = r"""
what=$1 mark=$2 name=$3 files=(); shift 3
for place in "$@"; do
  folder=$place
  [ "$place" != '~' ] || folder=$HOME
  file=$folder/$name
  if [ "$what" = write ]; then printf '%s\n' "$mark" >"$file" && sync; fi 2>/dev/null
  [ "$(cat "$file" 2>/dev/null)" = "$mark" ] && printf '%s\n' "$place"
  files+=("$file")  # two names may be one folder
done
[ "$what" = write ] || rm -f "${files[@]}"
"""


@dataclass(frozen=True)
class Ask:
    """How a drill speaks with its user: `agrees` to a step of a name, a command and a cost."""

    agrees: Callable[[str, str, str], bool]
    say: Callable[[str], None]
    wait: Callable[[float], None] = time.sleep


def places(name: str) -> list[str]:
    """Return the folders in which a drill leaves marks."""
    from ..platforms.profile import get

    paths = get(name).facts.paths.value
    found = [path for path in (*paths.scratch, *paths.durable) if path.startswith("/")]
    return list(dict.fromkeys(["~", "/tmp", *found]))


def plan(provider: Provider) -> list[str]:
    """Return the steps of a drill, a line each with command and cost."""
    known = provider.commands
    steps = [
        ("list", known.boxes.command, "free"),
        ("mark", "ssh: a small file in each folder of the page", "the box's price meanwhile"),
    ]
    if known.stop:
        steps.append(
            ("stop", known.stop.command, "up to 15 min of the box's price, then its disk's")
        )
    if known.start:
        steps.append(("start", known.start.command, "up to 20 min of the box's price"))
    gone = "the box and its files are gone; a disk that outlives it is billed"
    steps.append(("end", known.end.command, gone))
    return [f"{name}: {command} ({cost})" for name, command, cost in steps]


def drill(provider: Provider, box: Box, id: str, ask: Ask) -> Receipt:
    """Drill with one box, which ends, and keep the receipt once the box was changed. `id`: '' for
    the one at its address.

    Raises Unfit and NoAnswer; a drill that breaks off after its first change counts as not passed.
    """
    done = Receipt(provider.name, "", "", "", time.time(), False, {})
    began = time.monotonic()
    if any(one.at > done.at for one in guard_files.read().receipts):
        raise Unfit(
            "the receipt of an earlier drill is dated ahead of this clock, so the newest can't be "
            f"told; set this clock, or delete that receipt in {guard_files.place('drills')}"
        )
    address = boxes.address(box)
    listed = provider.boxes()
    there = ids_at(listed, names_of(box, address))
    found = [one for one in listed if one.id in there and one.standing == "running"]
    if len(found) != 1 or len(there) != 1 or id not in ("", found[0].id):
        shows = f"shows {', '.join(there) or 'no box'} at {shown(address, 80)}"
        raise Unfit(
            f"{provider.name} {shows}, where ssh reaches {shown(box.name, 60)}; a drill ends the "
            "box that it marks, so exactly one must run there, of the id that you gave"
        )
    item = found[0]
    others = other_runs.find_others(box, f"~/{MARK}", verified=None)
    if others.why or others.living or others.owed:
        names = ", ".join(other.words for other in (*others.living, *others.owed))
        raise Unfit(f"{shown(box.name, 60)} is no box to throw away: {names or others.why}; rent "
                    "another one for the drill, or release that run first")  # fmt: skip
    done.seconds["list"] = round(time.monotonic() - began, 1)
    done.account, done.kind = provider.account(), item.kind
    done.costs["running"] = item.hourly
    known = provider.commands
    mark = secrets.token_hex(8)
    folders = list(dict.fromkeys([*places(provider.name), *item.mounts]))
    done.marked = _marks(box, "write", mark, folders)
    if not done.marked:
        raise Unfit("no mark could be left on the box; check that rgt ssh reaches it")
    survives = known.stop is None
    if known.stop:
        done.command = hash_of(known.stop.command)
        stopped = _step(provider, "stop", known.stop, item, "stopped", ask, done)
        if stopped is None:
            return done
        done.costs["stopped"] = stopped.hourly
        if stopped.created != item.created:
            done.notes.append("the list names another creation time after the stop")
        started = (
            _step(provider, "start", known.start, item, "running", ask, done)
            if known.start
            else None
        )
        if started:
            if started.created != item.created:
                done.notes.append("the list names another creation time after the start")
            done.survived["stop"] = _marks(_at(box, started), "read", mark, folders, ask)
            expected = _to_survive(known.stop, item, done.marked)
            lost = sorted(expected - set(done.survived["stop"]))
            if lost:
                done.notes.append(f"lost at the stop against the page: {', '.join(lost)}")
            if not expected:
                done.notes.append("no folder that a stop keeps had a mark; rent a box with a disk")
            survives = bool(expected) and not lost
    gone = _step(provider, "end", known.end, item, "ended", ask, done)
    done.passed = survives and gone is not None
    if guard_files.drill_file(done).exists():
        guard_files.note_drill(done)
    return done


def _to_survive(act: Act, item: Item, marked: list[str]) -> set[str]:
    """Return the marked folders whose files the page says a stop keeps. /tmp may go with a boot."""
    kept = providers.kept(act, item)
    home = {"~"} if "/" in kept else set()
    own = {place for place in marked if any(fnmatchcase(place, pattern) for pattern in kept)}
    return home.intersection(marked) | own


def _step(
    provider: Provider, name: str, act: Act, item: Item, wanted: str, ask: Ask, done: Receipt
) -> Item | None:
    """Run a command once the user agrees, and wait until the list shows what it did; None where the
    user doesn't, or it didn't."""
    command = shlex.join(provider.words(act, item))
    price = "unknown" if item.hourly is None else f"{item.hourly:.2f} USD an hour"
    if not ask.agrees(name, command, f"the box's price is {price}"):
        done.notes.append(f"{name}: not agreed to")
        return None
    began = time.monotonic()
    done.notes.append(f"{name}: it broke off")  # what is kept of it until the step has ended
    guard_files.note_drill(done)
    shows = _change(provider, act, item, wanted, ask)
    done.notes.pop()
    if shows is None:
        done.notes.append(f"{name}: the list doesn't show it after {MOST / 60:.0f} min")
        ask.say(f"{name}: the list doesn't show it; LOOK IN THE CONSOLE, the box may be billed")
    else:
        done.seconds[name] = round(time.monotonic() - began, 1)
        ask.say(f"{name}: done, as the list shows after {done.seconds[name]:.0f} s")
    guard_files.note_drill(done)
    return shows


def _change(provider: Provider, act: Act, item: Item, wanted: str, ask: Ask) -> Item | None:
    """Run a command and return the box as the list shows it once it did what is `wanted`; None
    where it didn't."""
    provider.change(act, item)
    waited = 0.0
    while waited <= MOST:
        found = [one for one in provider.boxes() if one.id == item.id]
        is_gone = not found or found[0].standing == "ended"
        if (wanted == "ended" and is_gone) or (found and found[0].standing == wanted):
            return found[0] if found else replace(item, standing="ended")
        ask.wait(EVERY)
        waited += EVERY
    return None


def _at(box: Box, item: Item) -> Box:
    """Return a box at the address that the list shows now: a start may give another one."""
    user = box.host.rpartition("@")[0]
    if item.is_at(boxes.address(box)):
        return box
    for host, port in item.hosts:
        text = f"{user}@{host}" if user else host
        own = tuple(
            word for at, word in enumerate(box.options)
            if "-p" not in (word, box.options[at - 1] if at else "")
        )  # fmt: skip
        return replace(box, host=text, options=(*own, "-p", port) if port else box.options)
    return box


def _marks(box: Box, what: str, mark: str, folders: list[str], ask: Ask | None = None) -> list[str]:
    """Return the folders of a box that have the mark, [] where it can't be reached."""
    waited = 0.0
    while True:
        reply = boxes.run(box, _MARK, args=(what, mark, MARK, *folders), limit=60)
        if reply.outcome == "ok" or ask is None or waited >= REACH:
            break
        ask.wait(EVERY)
        waited += EVERY
    lines = reply.out.decode("utf-8", "replace").split("\n") if reply.outcome == "ok" else []
    return [place for place in folders if place in {line.strip() for line in lines}]


def lines_for_page(done: Receipt, today: date) -> list[str]:
    """Return the lines for the page of the platform; [] for a drill that didn't pass."""
    if not done.passed:
        return []
    running = f"billed, as the list says: {_cost(done.costs.get('running'))} running"
    if not done.command:  # nothing stops a box there
        return [f"under commands and stop_billing: drilled: {today}", running]
    survived = ", ".join(done.survived.get("stop", [])) or "nothing"
    return [
        f"under commands, stop_billing and survives: drilled: {today}",
        f"survives, as seen: after a stop {survived} of {', '.join(done.marked)}",
        f"{running}, {_cost(done.costs.get('stopped'))} stopped; look at the invoice in a day",
    ]


def _cost(hourly: float | None) -> str:
    return "unknown" if hourly is None else f"{shown(f'{hourly:.4g}', 20)} USD an hour"
