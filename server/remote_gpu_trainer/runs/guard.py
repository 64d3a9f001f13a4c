"""One round of a guard: look at the boxes of the ledger, warn, and stop at most one of them.

It works without any agent's session. What it may stop is decided in `guard_decision`; here is what
it sees and does.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf

from ..boxes import box as boxes
from ..boxes.box import BadBox, Box
from ..numbers import finite
from ..platforms import provider as providers
from ..platforms.profile import ProfileError
from ..platforms.provider import Item, NoAnswer, Provider
from ..runner.deadline import after
from ..text.masking import shown
from ..text.spans import shown_seconds
from . import guard_files, known_jobs, ledger, other_runs, overview, this_machine
from .guard_decision import CLOCKS, Confirmed, End, Seen, anew, decide, typed, warnings
from .guard_files import Last, Unfit
from .home_copy import Copy, read_sizes, why_lost
from .job_errors import JobError
from .job_reading import from_object
from .known_jobs import Known
from .local_files import Withheld
from .overview import Place
from .sent_job import end_seconds
from .this_machine import hash_of

EVERY = 600.0  # seconds between two rounds
HOLD = 540.0  # seconds for which no box is judged after something odd: until the next round
JUMP = 60.0  # seconds by which two clocks may part between two rounds
LOOK = 30.0  # seconds for one box
BELOW = "/"  # what of a box is looked at
WALK = 120.0  # seconds for all files that a stop destroys, and for each durable place
SHOWN = 3  # files that are named
DAY = 24 * 3600.0
AGAIN = DAY  # seconds after which the user's command gets the same line again
MOST_OF_AN_END = 2 * 3600.0  # seconds, where a box doesn't tell the job
AT_ONCE = 16  # boxes that are asked at the same time
DAMAGED = "a file that the guard needs is damaged, or others can change it"
_AMOUNT = re.compile(r"\d[\d.]* (?:s|min|h|days|times)\b")  # what grows, and no box's name
DEAD = ("timeout", "refused", "lost")  # reasons of ssh for which a box counts as dead


@dataclass
class Look:
    """What one box said. `names`: its address, and that by each of its IP addresses. `reason`: of
    ssh, where it said nothing; `why` in words. `relied`: the copies here of its
    ended runs, by the run's folder there; `durable`: the folders of ended runs that say that all of
    them is at their durable place. Both count once somebody looks.
    `refused`: those of runs that didn't begin."""

    place: Place
    names: tuple[str, ...] = ()
    rows: list[dict] = field(default_factory=list)
    strangers: tuple[str, ...] = ()
    relied: dict[str, Copy] = field(default_factory=dict)
    durable: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    answers: bool = False
    reason: str = ""
    why: str = ""


@dataclass
class Account:
    """What a provider said. `ahead`: seconds by which its clock is ahead of this one, None where it
    names no time. `why`: what went wrong, '' if nothing did."""

    provider: Provider | None = None
    boxes: list[Item] = field(default_factory=list)
    mark: str = ""
    at: float | None = None
    ahead: float | None = None
    why: str = ""


def work(
    environment: dict[str, str],
    now: float,
    say: Callable[[str], None],
    send: Callable[[str], None] | None = None,
    keyless: str = "",
) -> Last:
    """Do a round. `now`: seconds since 1970. `say` gets each line as it comes, `send` those that
    are new or a day old, and raises Unfit where one doesn't get through. `keyless`: why there are
    no keys, so that no provider is asked; '' where there are. Raises Unfit."""
    with guard_files.only_one() as why:
        return _Round(environment, now, say, send, why, keyless).work()


@dataclass
class _Round:
    environment: dict[str, str]
    now: float
    say: Callable[[str], None]
    send: Callable[[str], None] | None
    unfit: str  # why it may only look and warn
    keyless: str

    def __post_init__(self) -> None:
        self.began = time.monotonic()
        self.kept = guard_files.read()
        self.before, self.confirmed = self.kept.last, self.kept.confirmed
        self.last = Last(at=self.now, up=time.monotonic(), boot=_boot())
        self.here = this_machine.mark()
        self.is_paused = os.path.lexists(guard_files.place("paused"))
        self.acted = ""
        rentals = (rental for rental in ledger.rentals() if rental.end is None)
        self.ends = {rental.box.address: rental.ends for rental in rentals}
        with suppress(OSError):  # of a release that noted nothing of it, too
            ledger.note_written()
        self.damaged_at = -inf  # no box that was made before is judged
        self.is_offline = False

    def tell(self, line: str, code: int = 1) -> None:
        """Tell the user a line."""
        self.last.lines.append(line)
        self.last.code = max(self.last.code, code)
        self.say(line)

    def _send_new(self) -> None:
        """Send the lines that are new or a day old. After the round: it may take its time. From the
        first that doesn't get through on, they wait for the next round."""
        before, works = self.before.notified if self.before else {}, True
        for line in list(self.last.lines):
            key = _AMOUNT.sub("#", line)
            at = before.get(key, 0.0)
            if self.send and works and not 0 <= self.now - at < AGAIN:
                try:
                    self.send(line)
                    at = self.now
                except Unfit as error:
                    works = False
                    self.tell(str(error), 2)
            self.last.notified[key] = at

    def time(self) -> float:
        """Return the time now: the round's, and what it has taken since."""
        return self.now + time.monotonic() - self.began

    def work(self) -> Last:
        places = self._places()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            looking = pool.map(_look_safely, places)
            wanted = sorted({one.provider for one in self.confirmed.values()})
            accounts = dict(zip(wanted, pool.map(self._ask, wanted), strict=True))
            self.looks = looks = list(looking)
        # Nobody knows whether a box was silent while this machine slept.
        before = self.before.silent if self.before and not self._why_asleep() else {}
        for look in looks:
            if not look.answers:
                self.last.silent[look.place.address] = before.get(look.place.address, self.now)
        hold = self._hold(looks, accounts)
        if self.is_offline:  # what each box says or doesn't means nothing
            self.last.silent = {}
            for look in looks:
                look.reason = ""
        if self.keyless:
            self.tell(f"no provider could be asked: {self.keyless}", 2)
        if deaf := [look.why for look in looks if look.reason == "no-ssh"]:
            self.tell(f"no box could be looked at: {deaf[0]}", 2)
        for name, account in accounts.items():
            if account.why and not self.keyless:
                self.tell(f"a provider couldn't be asked: {account.why}", 2)
            if account.ahead is not None and abs(account.ahead) > CLOCKS:
                ahead = shown_seconds(abs(account.ahead))
                self.tell(f"this clock and that of {name} differ by {ahead}, so ends are told too "
                          "early or too late; set this clock")  # fmt: skip
        for look in sorted(looks, key=self._sent):  # one that doesn't stop holds up no other
            try:
                self._judge(look, accounts, hold)
            except Exception as error:  # a fault of ours with one box hides no other's bill
                name = shown(look.place.name, 60)
                self.tell(
                    f"{name} couldn't be judged ({type(error).__name__}), and may be billed; look "
                    "at it, and report this", 2
                )  # fmt: skip
        try:
            guard_files.note_round(self.last)
        except Unfit as error:
            self.tell(str(error), 2)
        self._send_new()
        with suppress(Unfit):
            guard_files.note_round(self.last)
        return self.last

    def _sent(self, look: Look) -> int:
        own = self.confirmed.get(look.place.address)
        return len(self.kept.sent(own)) if own else 0

    def _places(self) -> list[Place]:
        """Return the boxes of the ledger, and those that it lost. Tell what is damaged."""
        jobs, damage = known_jobs.read()
        told = ledger.damage()
        others = [str(line) for line in (self.unfit, told, *self.kept.damage) if line]
        places = [place for place in overview.places() if place.opened]
        lost = self.kept.lost(jobs)
        if lost and not isinstance(told, Withheld):
            names = ", ".join(shown(name, 60) for name in lost.values())
            gone = ", ".join(f"rgt release {typed(address)} --forget" for address in lost)
            others.insert(
                0,
                f"the list of boxes is damaged: it doesn't have {names}; look at {ledger.place()}: "
                "a box that only it names isn't looked at, and may still be billed. Once it is "
                f"gone: {gone}",
            )
        for line in (*others, *map(str, damage)):
            self.tell(line, 2)
        # What a job's file held is of no box that was made after it was written.
        self.damaged_at = inf if others else max((one.at for one in damage), default=-inf)
        for address, name in lost.items():
            here = [job for job in jobs if job.address == address]
            places.append(Place(address, name, jobs=here))
        return places

    def _hold(self, looks: list[Look], accounts: dict[str, Account]) -> str:
        """Return why no box may be judged now, '' if any may."""
        hold, before = self._why_asleep(), self.before
        fell = [look for look in looks if look.reason and not look.answers
                and (before is None or look.place.address not in before.silent)]  # fmt: skip
        network = bool(looks) and all(look.reason in (*DEAD, "name") for look in looks)
        asked = {} if self.keyless else accounts
        heard = any(not one.why or one.ahead is not None for one in asked.values())
        if network and (len(looks) > 1 or asked) and not heard:
            self.is_offline = True
            hold = "no box and no provider answers: this machine's own network may be down"
            self.tell(f"{hold}; nothing could be looked at, and boxes may be billed", 2)
        elif len(fell) > 1 and not hold:
            hold = f"{len(fell)} boxes fell silent at once"
        if hold:
            self.last.hold_until = self.now + HOLD
        elif before and self.now < before.hold_until:
            self.last.hold_until = before.hold_until
            hold = f"it looks again in {shown_seconds(before.hold_until - self.now)}"
        return hold

    def _why_asleep(self) -> str:
        """Return why this machine's own clock or sleep makes the round unsure."""
        before, last = self.before, self.last
        if before is None:
            return "this is the guard's first round"
        by_wall, by_up = last.at - before.at, last.up - before.up
        if before.boot != last.boot or by_up < 0:
            return "this machine has just started"
        if abs(by_wall - by_up) > JUMP:
            return "this machine has slept, or its clock was set"
        if by_up > 3 * EVERY:
            return f"the guard hasn't worked for {shown_seconds(by_up)}"
        return ""

    def _ask(self, name: str) -> Account:
        """Return what a provider says, asked once for all of its boxes."""
        account = Account(why=self.keyless)
        if self.keyless:
            return account
        try:
            account.provider = providers.of(name, self.environment)
            account.mark = account.provider.account()
            account.boxes, account.at = account.provider.boxes(), self.time()
        except (NoAnswer, ProfileError) as error:
            account.why = str(error)
        except Exception as error:  # as for one box
            account.why = f"{name}: its answer can't be read ({type(error).__name__}); report this"
        with suppress(NoAnswer):
            account.ahead = account.provider.clock() - self.time() if account.provider else None
        return account

    def _judge(self, look: Look, accounts: dict[str, Account], hold: str) -> None:
        """Warn of a box, and stop it where all conditions hold."""
        own = self.confirmed.get(look.place.address)
        account = accounts.get(own.provider, Account()) if own else Account()
        seen = self._see(look, own, account, hold)
        decision = decide(seen)
        if decision.acts and account.provider:
            seen = self._see_again(seen, look, account, hold)
            decision = decide(seen)
        if decision.condition:
            self.last.blocked[shown(seen.name, 60)] = f"{decision.condition}: {decision.why}"
        for line in warnings(seen, decision):
            self.tell(line, 2 if seen.is_deaf else 1)
        try:
            if decision.acts and own and account.provider:
                self._stop(seen, own, account.provider)
            elif own and seen.sent and seen.box and seen.box.standing == "stopped":
                guard_files.journal("off", own)
        except Unfit as error:
            self.tell(str(error), 2)

    def _see(self, look: Look, own: Confirmed | None, account: Account, hold: str) -> Seen:
        place, opened = look.place, look.place.opened
        made = own.created if own else opened.since if opened else 0.0
        same = [look]
        if own:  # the box may have other names here
            same += [one for one in self.looks
                     if one is not look and own.id in ids_at(account.boxes, one.names)]  # fmt: skip
        jobs = [job for one in same for job in one.place.jobs]
        lost = self._lost(jobs, [one.place for one in same])
        damage = DAMAGED if made - CLOCKS <= self.damaged_at else ""
        if lost and not damage:
            names = ", ".join(sorted({end.run for end in lost}))
            damage = f"the job of {names} isn't kept here any more; look at the box and end it"
        seen = Seen(
            self.time(),
            place.name,
            self.is_paused,
            damage,
            hold,
            self.is_offline,
            own,
            (*(self._end(job, place) for job in jobs if job.at >= made - CLOCKS), *lost),
            here=self.here if own is None or self.kept.is_newest(own) else "",
            why=look.why,
            why_unlisted=account.why,
            acted=self.acted,
            ssh="answers" if look.answers else "dead" if look.reason in DEAD else "unsure",
            silent_for=self.now - self.last.silent.get(place.address, self.now),
            strangers=look.strangers,
        )
        act = account.provider.commands.stop if account.provider else None
        if own and act and account.provider:
            listed = tuple(box for box in account.boxes if box.id == own.id)
            words = account.provider.words(act, listed[0]) if listed else []
            drilled, last = self.kept.drilled(own, act), self.kept.drill(own)
            seen = replace(
                seen,
                listed=listed,
                listed_at=account.at,
                asked=place.address,
                at_address=ids_at(account.boxes, look.names),
                account=account.mark,
                drilled=drilled,
                undrilled=last.at if last and drilled is None else None,
                is_drill_of_here=last is None or last.here == self.here,
                command=hash_of(*words) if listed else own.command,
                sent=self.kept.sent(own),
                is_unheard=self.kept.is_unheard(own),
                clock_ahead=account.ahead,
            )
        return _with_runs(seen, look) if look.answers else seen

    def _lost(self, jobs: list[Known], places: list[Place]) -> list[End]:
        """Return the ends that were noted of runs whose jobs aren't kept here any more."""
        known = {(job.address, job.folder) for job in jobs}
        return [
            End(other_runs.name_of(folder), until, 0.0)
            for place in places
            for folder, until in self.ends.get(place.address, {}).items()
            if (place.address, folder) not in known
        ]

    def _end(self, job: Known, place: Place) -> End:
        """Return when a run from here ends at the latest, by its job and by what was reserved."""
        try:
            known = from_object(job.given)
            seconds = end_seconds(known.model_dump())
            at = after(known.ends, job.first_start or job.at)
            reserved = self.ends.get(job.address, {}).get(job.folder, 0.0)
            return End(job.name, at and max(at, reserved), seconds)
        except (JobError, ValueError, TypeError, AttributeError, KeyError):
            name = shown(place.name, 60)
            self.tell(
                f"the job of {shown(job.name, 60)} on {name}, as it is kept here, can't be read, "
                f"so its end isn't known and {name} may still be billed; look at that box, and "
                "start the run anew or end the box", 2
            )  # fmt: skip
        return End(job.name, None, 0.0)

    def _see_again(self, seen: Seen, look: Look, account: Account, hold: str) -> Seen:
        """Return what is so just before the stop: what it would destroy, the copies on which it
        relies, once more what it would destroy, as that took time, and the provider's list."""
        own, provider = seen.confirmed, account.provider
        if own is None or provider is None or provider.commands.stop is None:
            return seen
        kept, before = providers.kept(provider.commands.stop, seen.listed[0]), look.relied
        unproven = _find_unproven(look, kept)
        unproven += () if unproven else tuple(
            f"{other_runs.name_of(folder)} ({why})"
            for folder, copy in before.items()
            if (why := why_lost(copy))
        )  # fmt: skip
        if not unproven:
            look = _look_safely(look.place)
            seen = self._see(look, own, account, hold)
            new = (folder for folder, copy in look.relied.items() if before.get(folder) != copy)
            unproven = tuple(map(other_runs.name_of, new))
            unproven += _find_unproven(look, kept) if look.answers else ()
        seen = replace(seen, unproven=unproven)
        if unproven:
            return seen
        try:
            boxes = provider.boxes()
            return replace(
                seen,
                listed=tuple(box for box in boxes if box.id == own.id),
                at_address=ids_at(boxes, look.names),
                listed_at=self.time(),
                now=self.time(),
            )
        except NoAnswer as error:
            return replace(seen, listed_at=None, why_unlisted=str(error))

    def _stop(self, seen: Seen, own: Confirmed, provider: Provider) -> None:
        """Stop a box. The step is written first. Raises Unfit."""
        act = provider.commands.stop
        if act is None:
            return
        name = shown(own.name, 60)
        guard_files.journal("stop", own)
        self.acted = name
        try:
            provider.change(act, seen.listed[0])
        except NoAnswer as error:
            self.tell(f"{name} couldn't be stopped: {error}", 2)
            guard_files.journal("stop failed", own, why=str(error))
            return
        self.tell(
            f"{name} was asked to stop, because its end has passed; the next round looks again"
        )
        guard_files.journal("stop asked", own)


def names_of(box: Box, address: str) -> tuple[str, ...]:
    """Return a box's address, and that by each of its IP addresses, as a list may show it."""
    port = address.rpartition(":")[2]
    found = (f"{number}:{port}" for number in boxes.numbers(box, LOOK))
    return (address, *(name for name in found if name != address))


def ids_at(listed: list[Item], names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ids of the boxes that a provider's list shows at an address, else at all of the IP
    addresses that it is a name for; `names`: as `names_of` returns them."""
    found = [tuple(sorted({box.id for box in listed if box.is_at(name)})) for name in names]
    if not found or found[0] or len(set(found[1:])) != 1:
        return found[0] if found else ()
    return found[1]


def _look_safely(place: Place) -> Look:
    """Return what a box says, also where that isn't what any box says."""
    try:
        return _look(place)
    except Exception as error:
        why = f"what it says can't be read ({type(error).__name__})"
        return Look(place, (place.address,), why=why)


def _look(place: Place) -> Look:
    """Return what a box says of its runs."""
    look = Look(place, (place.address,))
    try:
        box = boxes.parse(place.name)
        if boxes.address(box, limit=LOOK) != place.address:
            if trouble := boxes.why_no_address(box, LOOK):
                look.why, look.reason = trouble.text, trouble.why
                return look
            gone = f"rgt release {typed(place.address)} --forget"
            look.why = f"its name leads to another box now; once it is gone: {gone}"
            return look
        look.names = names_of(box, place.address)
        look.rows = other_runs.rows_of(box, tuple(job.folder for job in place.jobs), LOOK)
        folders = (str(row.get("folder", "")) for row in look.rows)
        strangers = other_runs.ask_json(box, "runs.card_users", (BELOW, *folders), LOOK)
        if not isinstance(strangers, list):
            raise other_runs.NoRows(other_runs.UNREAD)
        look.answers = True
        look.strangers = tuple(shown(str(command), 80) for command in strangers)
    except (BadBox, other_runs.NoRows) as error:
        look.why, look.reason = str(error), getattr(error, "reason", "")
    return look


def _with_runs(seen: Seen, look: Look) -> Seen:
    """Return what a round sees with what the runs of the box say."""
    longer, ending, ended, late = [], [], [], []
    box, released = boxes.parse(look.place.name), ledger.releases(look.place.address)
    opened, jobs = look.place.opened, look.place.jobs
    known_since = max([opened.since if opened else 0.0, *(job.at for job in jobs)])
    for row in look.rows:
        status = other_runs.status_of(box, row)
        folder = str(row.get("folder", ""))
        if status.state == "nothing":
            look.refused += (folder,)
            continue
        name = other_runs.name_of(folder)
        lives = status.state in ("alive", "stalled", "unknown")
        if lives and (status.deadline is None or status.deadline > seen.now):
            longer.append(name)
        elif lives and status.deadline is not None:
            late.append(status.deadline)
            left = status.deadline + _end_seconds(row) - seen.now
            ending += [(name, left)] if left > 0 else []
        elif copy := other_runs.copy_of(row, released):
            look.relied[folder] = copy
        elif row.get("durable") is True:
            look.durable += (folder,)
        if not lives:
            ended.append(f"{name} ({status.state})")
    is_idle = not longer and not late
    return replace(
        seen,
        longer=tuple(longer),
        ending=tuple(ending),
        ended=tuple(ended) if is_idle else (),
        idle_since=known_since if is_idle and known_since else None,
        late=min(late, default=None),
    )


def _find_unproven(look: Look, kept: list[str]) -> tuple[str, ...]:
    """Return what a box has that its stop would destroy and that isn't known to be elsewhere: runs
    and files, and why that can't be told. `kept`: patterns of the mount points that the stop
    keeps."""
    sizes = {folder: read_sizes(copy) for folder, copy in look.relied.items()}
    folders = [str(row.get("folder", "")) for row in look.rows]
    asked = {
        "below": BELOW,
        "kept": kept,
        "seconds": WALK,
        "runs": folders,
        "durable": look.durable,
        "places": [place for held in sizes.values() for place in held if place],
    }
    try:
        args = (json.dumps(asked),)
        told = other_runs.ask_json(boxes.parse(look.place.name), "runs.files_at_stake", args,
                                   WALK * (1.5 + len(look.durable)))  # fmt: skip
        real = {folder: {"": folder, **told["real"]} for folder in sizes}
        known = {
            f"{real[folder][place].rstrip('/')}/{path}".rstrip("/"): size
            for folder, held in sizes.items()
            for place, paths in held.items()
            for path, size in paths.items()
        }
        files = [path for path, size in told["files"] if known.get(path) != size]
        runs = [run for run in told["runs"] if run not in {*look.relied, *look.refused}]
        why = str(told["why"])
    except (other_runs.NoRows, KeyError, TypeError, ValueError, AttributeError) as error:
        return (f"what lies there can't be looked at ({error or type(error).__name__})",)
    lone = [path for path in files if not any(path.startswith(f"{run}/") for run in runs)]
    found = [other_runs.name_of(run) for run in runs] + [shown(path, 200) for path in lone[:SHOWN]]
    more = len(lone) - SHOWN
    found += [f"{more} files more"] if more > 0 else []
    return (*found, *([f"more, maybe, as {shown(why, 300)}"] if why else []))


def _end_seconds(row: dict) -> float:
    """Return how long a run's own end may take, by the job that its box holds; a day at most."""
    told = finite(row.get("end_seconds"))
    return MOST_OF_AN_END if told is None else min(max(told, 0.0), DAY)


def candidate(
    provider: Provider, name: str, address: str, since: float, id: str, wins: str, now: float
) -> tuple[Confirmed, Item]:
    """Return what a user would confirm of a box, and its row of the provider's list.

    `since`: its first contact. `id`: '' for the one at its address. Raises Unfit and NoAnswer.
    """
    act = provider.commands.stop
    if act is None:
        raise Unfit(f"{provider.name} has no stop that keeps a disk; end the box yourself")
    listed = provider.boxes()
    names = names_of(boxes.parse(name), address)
    there = ids_at(listed, names)
    found = [box for box in listed if (box.id == id if id else box.id in there)]
    if len(found) != 1:
        what = id or f"a box at {address}"
        raise Unfit(f"{provider.name} shows {what} {len(found)} times; name its id with --id")
    box = found[0]
    if box.created is None:
        raise Unfit(f"{provider.name} doesn't say when a box was made, so another could be meant")
    if box.created > since + CLOCKS:
        again = f"rgt guard confirm {typed(name)} --provider {provider.name}"
        raise Unfit(
            f"{box.id} was made after {shown(name, 60)} was first reached; check the id; "
            f"{anew(name, again)}"
        )
    if box.standing != "running":
        raise Unfit(f"{box.id} is {box.state or 'in no known state'}; confirm a running box")
    if there != (box.id,):
        which = f", which is {', '.join(names[1:])}" if names[1:] else ""
        others = f" but {', '.join(there)}" if there else ""
        raise Unfit(
            f"{provider.name} doesn't show {box.id} at {shown(address, 80)}{which}{others}, where "
            f"ssh reaches {shown(name, 60)}, so the guard can only warn of that box, which it does "
            "already; check the id, or name the box by its address in the list"
        )
    words = provider.words(act, box)
    own = Confirmed(address, name, provider.name, box.id, box.created, box.kind, provider.account(),
                    hash_of(*words), words, now,
                    "stop" if wins == "stop" else "alarm")  # fmt: skip
    return own, box


def _boot() -> str:
    """Return which start of this machine it is, '' where it doesn't say."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return ""
