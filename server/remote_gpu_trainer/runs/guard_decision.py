"""Whether a guard may stop a box, and what it warns of. Pure: no clock, no file, no program.

A guard that stops the wrong box is worse than none. So each condition has a name and a reason, the
first that doesn't hold decides, and what isn't known doesn't hold.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..platforms.provider import Item
from ..text.masking import shown
from ..text.spans import shown_seconds
from . import local_files
from .local_files import Seconds

DRILL_DAYS = 90
FRESH = 120.0  # seconds for which a provider's list says what is so now
CLOCKS = 300.0  # seconds by which this clock and the provider's may differ
SILENT = 1500.0  # seconds without an answer before if_unreachable counts: three rounds
STOPPING = 540.0  # seconds that a stop may take
IDLE = 3600.0  # seconds in which a box may stay without any run
TRIES = 3  # stops without effect after which the guard says that it can't end the bill


class End(NamedTuple):
    """A run from here: when it ends at the latest by what the user wrote, and the seconds that its
    own runner may take after that to save, copy and end the box. `at`: None where that isn't known.
    """

    run: str
    at: float | None
    allowance: float


@dataclass(frozen=True)
class Confirmed:
    """What the user confirmed on this machine about one box.

    `created`: of the box, by the provider's list. `command`: the hash of what ends it. `account`: a
    mark of it. `if_unreachable`: what wins where ssh is dead. `here`: the mark of this machine and
    of these files, as `guard_files.here` makes it.
    """

    address: str
    name: str
    provider: str
    id: str
    created: Seconds
    kind: str
    account: str
    command: str
    words: list[str]
    at: Seconds
    if_unreachable: Literal["alarm", "stop"] = "alarm"
    here: str = ""

    __pydantic_config__ = local_files.STRICT

    @property
    def again(self) -> str:
        """Return the command that confirms the box anew."""
        return f"rgt guard confirm {typed(self.name)} --provider {self.provider}"


def typed(name: str) -> str:
    """Return the name of a box as a user types it."""
    return shlex.quote(shown(name, 1000))


def anew(name: str, again: str) -> str:
    """Return what to type once the box at an address is another one than before, or was restarted.

    `again`: the command that confirms it.
    """
    return (
        f"if the earlier one is gone, or this one was restarted: rgt release {typed(name)} "
        f"--forget, rgt status {typed(name)} and {again}"
    )


@dataclass(frozen=True)
class Seen:
    """What a round has seen of one box. Times: seconds since 1970.

    `damage`: a local file that a round needs can't be read; `hold`: why no box may be judged in
    this round. `is_offline`: nothing could be looked at. `ends`: of the runs from here since the
    box was made. `drilled`: when the newest drill of this provider, account and kind passed with
    this command; `undrilled`: when it was, where it didn't, and `is_drill_of_here`
    whether here. `here`: as `Confirmed` has it, now.
    `command`, `account`: as they are now. `listed`: the boxes of the provider's list that have the
    id; `listed_at`: when, None for no list; `why_unlisted`. `asked`: the address at which the box
    was asked by ssh; `at_address`: the ids of the boxes of the list that are reached there.
    `clock_ahead`: seconds by which the provider's clock is ahead of this one. `ssh`: whether the
    box answered; dead: it can't be reached; unsure: it can't be told whether this is the box;
    `why` not; `silent_for` seconds. `longer`: runs there that live and whose own end is later or
    unknown. `ending`: those that live past their own end, and the seconds in which their runners
    may still save, copy and end the box. `unproven`: what the stop would destroy and that is
    nowhere else. `strangers`: programs on its cards that no run of ours has. `ended`: runs there
    that are over, where all are. `late`: when the first run there that lives should have ended, by
    what the box itself says; None for none. `idle_since`: from when on nothing of ours has run
    there, as far as is known; None where something lives. `sent`: when it was asked to stop since
    it was last off; `is_unheard`: nobody knows what came of the last time. `acted`: the box that
    this round has asked to stop.
    """

    now: float
    name: str
    is_paused: bool = False
    damage: str = ""
    hold: str = ""
    is_offline: bool = False
    confirmed: Confirmed | None = None
    ends: tuple[End, ...] = ()
    drilled: float | None = None
    undrilled: float | None = None
    is_drill_of_here: bool = True
    here: str = ""
    command: str = ""
    account: str = ""
    listed: tuple[Item, ...] = ()
    listed_at: float | None = None
    why_unlisted: str = ""
    asked: str = ""
    at_address: tuple[str, ...] = ()
    clock_ahead: float | None = None
    ssh: Literal["answers", "dead", "unsure"] = "unsure"
    why: str = ""
    silent_for: float = 0.0
    longer: tuple[str, ...] = ()
    ending: tuple[tuple[str, float], ...] = ()
    unproven: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    sent: tuple[float, ...] = ()
    is_unheard: bool = False
    acted: str = ""
    ended: tuple[str, ...] = ()
    late: float | None = None
    idle_since: float | None = None

    @property
    def end(self) -> float | None:
        """Return when its last run ends at the latest, None where that isn't known of each."""
        known = [end.at for end in self.ends if end.at is not None]
        return max(known) if known and len(known) == len(self.ends) else None

    @property
    def box(self) -> Item | None:
        """Return the very box that was confirmed, as the provider's list shows it; None where the
        list doesn't show it, or something else under its id."""
        box = next(iter(self.listed), None)
        own = self.confirmed
        is_it = box and own and len(self.listed) == 1 and box.created == own.created
        return box if is_it else None

    @property
    def is_deaf(self) -> bool:
        """Return whether it still runs after it was asked to stop as often as may be."""
        runs = self.box is not None and self.box.standing == "running"
        asked = self.sent[TRIES - 1 : TRIES]
        return runs and any(self.now - at >= STOPPING for at in asked)


class Decision(NamedTuple):
    """Whether to stop the box. `condition`: the name of the first that doesn't hold, and `why`."""

    acts: bool
    condition: str = ""
    why: str = ""


def _is_of_here(seen: Seen) -> str:
    """A copy of these files doesn't know what was started since where they come from."""
    own = seen.confirmed
    if own and own.here and own.here == seen.here:
        return ""
    return (
        "it was confirmed on another machine, or its files were copied or restored since; look "
        f"what runs there, then: {own.again if own else ''}"
    )


def _has_passed(seen: Seen) -> str:
    """Silence alone never acts: only what the user wrote."""
    if not seen.ends:
        return "no run from here has a deadline or a budget since the box was made"
    if seen.end is None:
        return "the end of one of its runs isn't known"
    last = max(end.at + end.allowance for end in seen.ends if end.at is not None)
    if seen.now < seen.end:
        return f"its end is in {shown_seconds(seen.end - seen.now)}"
    if seen.now < last:
        left = shown_seconds(last - seen.now)
        return f"its runner has {left} more to save, copy and end the box itself"
    return ""


def _is_drilled(seen: Seen) -> str:
    own = seen.confirmed
    told = f"{own.provider}, this account and this kind of box" if own else ""
    again = f"rgt drill {own.provider if own else ''} shows how"
    if seen.undrilled is not None and not seen.is_drill_of_here:
        return (
            f"the newest drill for {told} was made on another machine, or its receipt was copied "
            f"or restored since; {again}"
        )
    if seen.undrilled is not None:
        ago = shown_seconds(max(0.0, seen.now - seen.undrilled))
        return (
            f"the newest drill for {told}, {ago} ago, didn't pass with the command of now; {again}"
        )
    if seen.drilled is None:
        return f"no drill has passed for {told}; {again}"
    days = (seen.now - seen.drilled) / 86400
    if days < 0:
        return (
            f"the drill for {told} is dated {shown_seconds(-days * 86400)} ahead of this clock; "
            f"set this clock, or delete its receipt and drill anew; {again}"
        )
    if days > DRILL_DAYS:
        limit = f"the limit is {DRILL_DAYS}; {again}"
        return f"the drill for {told} is {days:.0f} days old, {limit}"
    return ""


def _is_the_box(seen: Seen) -> str:
    own = seen.confirmed
    if own is None or seen.listed_at is None:
        return seen.why_unlisted or "the provider wasn't asked"
    if not 0 <= seen.now - seen.listed_at <= FRESH:
        return "the provider's list is too old"
    if not seen.listed:
        told = f"the provider's list doesn't show {own.id}"
        if seen.at_address:
            others = f"but {', '.join(seen.at_address)} at its address"
            return f"{told}, {others}; {anew(own.name, own.again)}"
        return f"{told}; if it is gone: rgt release {typed(own.name)} --forget"
    if len(seen.listed) > 1:
        return f"the provider's list shows {own.id} {len(seen.listed)} times"
    if (box := seen.box) is None:
        told = f"{own.id} was made at another time than the box that you confirmed"
        return f"{told}; {anew(own.name, own.again)}"
    if box.kind != own.kind:
        return f"{own.id} is of another kind than the box that you confirmed"
    if box.locked:
        return f"{own.id} is locked at the provider"
    if box.standing != "running":
        return f"{own.id} is {box.state or 'in no known state'}"
    return ""


def _is_at_its_address(seen: Seen) -> str:
    """What ssh tells is about the box at the address: it must be the one that would be stopped."""
    own = seen.confirmed
    if own is None or own.id not in seen.at_address:
        others = f", but {', '.join(seen.at_address)}" if seen.at_address else ""
        hosts = seen.box.hosts if seen.box else ()
        now = ", ".join(f"{host}:{port}" if port else host for host, port in hosts)
        moved = f"; it shows it at {shown(now, 200)}: name the box so from now on" if now else ""
        id = own.id if own else "it"
        return f"the provider's list doesn't show {id} at {shown(seen.asked, 80)}{others}{moved}"
    if seen.at_address != (own.id,):
        return (
            f"the provider's list shows several boxes at {shown(seen.asked, 80)}: "
            f"{', '.join(seen.at_address)}"
        )
    return ""


def _clocks_agree(seen: Seen) -> str:
    if seen.clock_ahead is None:
        return "this clock couldn't be compared with the provider's"
    if abs(seen.clock_ahead) > CLOCKS:
        ahead = shown_seconds(abs(seen.clock_ahead))
        return f"this clock and the provider's differ by {ahead}; set this one"
    return ""


def _was_asked(seen: Seen) -> str:
    ago = seen.now - seen.sent[-1] if seen.sent else STOPPING
    return f"it was asked to stop {shown_seconds(max(0.0, ago))} ago" if ago < STOPPING else ""


def _is_safe(seen: Seen) -> str:
    own = seen.confirmed
    if seen.ssh == "answers":
        if seen.longer:
            return f"{', '.join(seen.longer)} lives there, and its end is later or unknown"
        if seen.ending:
            run, left = max(seen.ending, key=lambda one: one[1])
            return (
                f"{run} lives there, and its runner has {shown_seconds(left)} more to save, copy "
                "and end the box itself"
            )
        if seen.strangers:
            return f"another program uses its cards: {', '.join(seen.strangers)}"
        if seen.unproven:
            return f"the stop would destroy what may be nowhere else: {', '.join(seen.unproven)}"
        return ""
    if seen.ssh == "unsure":
        return f"it couldn't be looked at: {seen.why}"
    if own is None or own.if_unreachable != "stop":
        return f"it gives no answer ({seen.why}), and if_unreachable is alarm"
    if seen.silent_for < SILENT:
        return f"it has been silent for {shown_seconds(seen.silent_for)} only"
    return ""


CONDITIONS: dict[str, Callable[[Seen], str]] = {
    "files whole": lambda seen: seen.damage,
    "confirmed": lambda seen: (
        "" if seen.confirmed
        else "you haven't confirmed how it is ended; rgt guard confirm "
        f"{typed(seen.name)} --provider NAME does, where the provider has a stop"
    ),
    "confirmed here": _is_of_here,
    "not paused": lambda seen: "the guard is paused" if seen.is_paused else "",
    "end passed": _has_passed,
    "guard awake": lambda seen: seen.hold,
    "provider asked": lambda seen: (
        "" if seen.listed_at is not None else seen.why_unlisted or "the provider wasn't asked"
    ),
    "drilled": _is_drilled,
    "same command": lambda seen: (
        "" if seen.confirmed is None or seen.command == seen.confirmed.command
        else f"the command that ends it isn't the one that you confirmed; {seen.confirmed.again}"
    ),
    "same account": lambda seen: (
        "" if seen.confirmed is None or seen.account == seen.confirmed.account
        else "the key is of another account than when you confirmed; give that one's, or "
        f"{seen.confirmed.again}"
    ),
    "one box": _is_the_box,
    "same address": _is_at_its_address,
    "not asked just now": _was_asked,
    "clocks agree": _clocks_agree,
    "nothing lost": _is_safe,
    "one a round": lambda seen: (
        f"{seen.acted} was asked to stop in this round, and one is enough; the next round looks "
        "again" if seen.acted else ""
    ),
}  # fmt: skip


def decide(seen: Seen) -> Decision:
    """Return whether to stop a box."""
    for name, missing in CONDITIONS.items():
        if why := missing(seen):
            return Decision(False, name, why)
    return Decision(True)


def warnings(seen: Seen, decision: Decision) -> list[str]:
    """Return what to tell the user about a box, a sentence each; [] for nothing."""
    name, told, box = shown(seen.name, 60), [], seen.box
    is_shown_off = box is not None and box.standing in ("stopped", "ended")
    is_off = is_shown_off and seen.ssh != "answers"
    if box is not None and is_shown_off and not is_off:
        told.append(
            f"the provider says that {box.id} is {box.state}, and yet {name} answers, and may be "
            "billed; look in the provider's console"
        )
    if box is not None and box.standing == "stopped":
        cost = "" if box.month is None else f", about {box.month:.2f} USD a month"
        told.append(f"{name} is stopped, and its disk may be billed{cost}")
    is_running = box is not None and box.standing == "running"
    ago = seen.now - seen.sent[0] if seen.sent and is_running else 0.0
    if seen.is_deaf:
        told.append(
            f"THE BILL GOES ON: {name} was asked to stop {len(seen.sent)} times in "
            f"{shown_seconds(ago)}, and the provider's list still shows it running; stop it in the "
            "provider's console"
        )
    elif seen.is_unheard and is_running:
        told.append(
            f"a guard was ended {shown_seconds(ago)} ago while it asked {name} to stop, so whether "
            "the provider heard isn't known, and it is still shown running"
        )
    elif ago >= STOPPING:
        told.append(
            f"{name} was asked to stop {shown_seconds(ago)} ago, and the provider's list still "
            "shows it running: stop it in the provider's console"
        )
    last = max((end.at for end in seen.ends if end.at is not None), default=None)
    if last is None or seen.now < last:  # the box's own word never stops anything
        last = seen.late
    is_past = last is not None and seen.now >= last
    if is_past and not is_off and last is not None:
        late = shown_seconds(seen.now - last)
        why = "" if decision.acts else f"; the guard doesn't stop it: {decision.why}"
        told.append(f"{name} is {late} past its end, and may still be billed{why}")
    gone = f"if it is gone: rgt release {typed(seen.name)} --forget"
    if seen.ssh == "dead" and not is_off and not is_past:
        silent = f" for {shown_seconds(seen.silent_for)}" if seen.silent_for else ""
        told.append(f"{name} has given no answer{silent}, and may be billed: {seen.why}; {gone}")
    if seen.ssh == "unsure" and seen.why and not (is_off or is_past or seen.is_offline):
        told.append(f"{name} couldn't be looked at, and may be billed: {seen.why}")
    if seen.ended and not is_past and not is_off:
        ended = ", ".join(seen.ended)
        told.append(f"{name} answers and may be billed, and nothing runs there any more: {ended}")
    elif seen.idle_since is not None and not is_past and not is_off:
        idle = seen.now - seen.idle_since
        if idle >= IDLE:  # other programs may be those that each box has, such as a notebook server
            for_long = f"no run has begun there for {shown_seconds(idle)}"
            own = f"or if it is your own machine: rgt release {typed(seen.name)} --mine"
            told.append(f"{name} answers and may be billed, and {for_long}; end it, {own}")
    return told
