"""One round of a guard: look at the boxes of the ledger, warn, and stop at most one of them.

It works without any agent's session. What it may stop is decided in `guard_decision`; here is what
it sees and does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from ..boxes import box as boxes
from ..boxes.box import BadBox
from ..platforms import provider as providers
from ..platforms.profile import Act, ProfileError
from ..platforms.provider import Item, NoAnswer, Provider
from ..runner.deadline import after
from ..text.masking import shown
from ..text.spans import shown_seconds
from . import guard_files, known_jobs, ledger, other_runs, overview
from .guard_decision import Confirmed, End, Seen, decide, warnings
from .guard_files import Last, Unfit
from .job_errors import JobError
from .job_reading import from_object
from .known_jobs import Known
from .overview import Place
from .run_ends import least_seconds

EVERY = 600.0  # seconds between two rounds
HOLD = 540.0  # seconds for which no box is judged after something odd: until the next round
JUMP = 60.0  # seconds by which two clocks may part between two rounds
SLACK = 300.0  # seconds by which this clock and a provider's may differ
LOOK = 30.0  # seconds for one box
AT_ONCE = 16  # boxes that are asked at the same time
DEAD = ("timeout", "refused", "lost")  # reasons of ssh for which a box counts as dead


@dataclass
class Look:
    """What one box said. `reason`: of ssh, where it said nothing; `why` in words."""

    place: Place
    rows: list[dict] = field(default_factory=list)
    strangers: tuple[str, ...] = ()
    answers: bool = False
    reason: str = ""
    why: str = ""


@dataclass
class Account:
    """What a provider said. `why`: what went wrong, '' if nothing did."""

    provider: Provider | None = None
    boxes: list[Item] = field(default_factory=list)
    mark: str = ""
    at: float | None = None
    why: str = ""


def work(environment: dict[str, str], now: float, say: Callable[[str], None]) -> Last:
    """Do a round. `now`: seconds since 1970. `say` gets each line as it comes. Raises Unfit."""
    with guard_files.only_one():
        guard_files.journal("round")
        return _Round(environment, now, say).work()


class _Round:
    def __init__(self, environment: dict[str, str], now: float, say: Callable[[str], None]):
        self.environment, self.now, self.say = environment, now, say
        self.began = time.monotonic()
        self.before = guard_files.last()
        self.last = Last(at=now, up=time.monotonic(), boot=_boot())
        self.confirmed = guard_files.confirmations()
        self.is_paused = guard_files.place("paused").exists()
        self.acted = self.damage = ""

    def tell(self, line: str) -> None:
        self.last.lines.append(line)
        self.last.code = max(self.last.code, 1)
        self.say(line)

    def time(self) -> float:
        """Return the time now: the round's, and what it has taken since."""
        return self.now + time.monotonic() - self.began

    def work(self) -> Last:
        places = self._places()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            looks = list(pool.map(_look, places))
            wanted = sorted({one.provider for one in self.confirmed.values()})
            accounts = dict(zip(wanted, pool.map(self._ask, wanted), strict=True))
        before = self.before.silent if self.before else {}
        for look in looks:
            if not look.answers:
                self.last.silent[look.place.address] = before.get(look.place.address, self.now)
        hold = self._hold(looks, accounts)
        if self.last.code == 2:  # no network: what each box says or doesn't means nothing
            for look in looks:
                look.reason = ""
        for account in accounts.values():
            if account.why:
                self.tell(f"a provider couldn't be asked: {account.why}")
        for look in looks:
            self._judge(look, accounts, hold)
        if self.damage or any(account.why for account in accounts.values()):
            self.last.code = 2
        guard_files.note_round(self.last)
        return self.last

    def _places(self) -> list[Place]:
        """Return the boxes of the ledger, and those that you confirmed and that it doesn't name."""
        places = [place for place in overview.places() if place.opened]
        unread, named = ledger.unread(), ledger.addresses()
        lost = [own for own in self.confirmed.values() if own.address not in named]
        if unread or lost:
            what = f"{unread} of its lines can't be read" if unread else "it lacks boxes"
            names = ", ".join(shown(own.name, 60) for own in lost)
            self.damage = (
                f"the list of boxes is damaged: {what}"
                + (f"; it doesn't have {names}, which you confirmed" if names else "")
                + f"; look at {ledger.place()}: a box that only it names isn't looked at"
            )
            self.tell(self.damage)
        jobs = known_jobs.every()
        for own in lost:
            here = [job for job in jobs if job.address == own.address]
            places.append(Place(own.address, own.name, jobs=here))
        return places

    def _hold(self, looks: list[Look], accounts: dict[str, Account]) -> str:
        """Return why no box may be judged now, '' if any may."""
        hold, before = self._why_asleep(), self.before
        fell = [look for look in looks if look.reason and not look.answers
                and (before is None or look.place.address not in before.silent)]  # fmt: skip
        network = bool(looks) and all(look.reason in (*DEAD, "name") for look in looks)
        heard = any(not account.why for account in accounts.values())
        if network and (len(looks) > 1 or accounts) and not heard:
            hold = "no box and no provider answers: this machine's own network may be down"
            self.tell(f"{hold}; nothing could be looked at, and boxes may be billed")
            self.last.code = 2
        elif len(fell) > 1 and not hold:
            hold = f"{len(fell)} boxes fell silent at once"
        elif self.damage and not hold:
            hold = "the list of boxes is damaged"
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
        account = Account()
        try:
            account.provider = providers.of(name, self.environment)
            account.mark = account.provider.account()
            account.boxes, account.at = account.provider.boxes(), self.time()
        except (NoAnswer, ProfileError) as error:
            account.why = str(error)
        return account

    def _judge(self, look: Look, accounts: dict[str, Account], hold: str) -> None:
        """Warn of a box, and stop it where all conditions hold."""
        own = self.confirmed.get(look.place.address)
        account = accounts.get(own.provider, Account()) if own else Account()
        seen = self._see(look, own, account, hold)
        decision = decide(seen)
        if decision.condition == "clocks agree" and account.provider and account.why == "":
            seen = self._see_again(seen, account.provider)
            decision = decide(seen)
        if decision.condition:
            self.last.blocked[shown(seen.name, 60)] = f"{decision.condition}: {decision.why}"
        for line in warnings(seen, decision):
            self.tell(line)
        if decision.acts and own and account.provider:
            self._stop(seen, own, account.provider)

    def _see(self, look: Look, own: Confirmed | None, account: Account, hold: str) -> Seen:
        place, opened = look.place, look.place.opened
        made = own.created if own else opened.since if opened else 0.0
        seen = Seen(
            self.time(),
            place.name,
            self.is_paused,
            hold,
            own,
            tuple(_end(job) for job in place.jobs if job.at >= made - SLACK),
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
            seen = replace(
                seen,
                listed=listed,
                listed_at=account.at,
                asked=place.address,
                at_address=_ids_at(account.boxes, place.address),
                account=account.mark,
                drilled=guard_files.drilled(own, act),
                command=command_hash(account.provider, act, listed[0]) if listed else own.command,
                asked_at=guard_files.asked_at(own),
            )
        return _with_runs(seen, look, act) if look.answers else seen

    def _see_again(self, seen: Seen, provider: Provider) -> Seen:
        """Return what is so just before the stop: the provider's list and clock, asked anew."""
        own = seen.confirmed
        try:
            ahead = provider.clock() - self.time()
            boxes = provider.boxes()
            return replace(
                seen,
                clock_ahead=ahead,
                listed=tuple(box for box in boxes if own and box.id == own.id),
                at_address=_ids_at(boxes, seen.asked),
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
        guard_files.journal("stop", address=own.address, id=own.id, created=own.created,
                            command=own.command, provider=own.provider)  # fmt: skip
        self.acted = name
        try:
            provider.change(act, seen.listed[0])
        except NoAnswer as error:
            guard_files.journal("stop failed", id=own.id, created=own.created, why=str(error))
            self.tell(f"{name} couldn't be stopped: {error}")
            self.last.code = 2
            return
        guard_files.journal("stop asked", id=own.id, created=own.created)
        self.tell(
            f"{name} was asked to stop, because its end has passed; the next round looks again"
        )


def _ids_at(boxes: list[Item], address: str) -> tuple[str, ...]:
    """Return the ids of the boxes that a provider's list shows at an address."""
    return tuple(sorted({box.id for box in boxes if box.is_at(address)}))


def _look(place: Place) -> Look:
    """Return what a box says of its runs."""
    look = Look(place)
    try:
        box = boxes.parse(place.name)
        if boxes.address(box, limit=LOOK) != place.address:
            look.why = "its name leads to another box now"
            return look
        look.rows = other_runs.rows_of(box, tuple(job.folder for job in place.jobs), LOOK)
        strangers = other_runs.ask_json(box, "runs.card_users", (), LOOK)
        if not isinstance(strangers, list):
            raise other_runs.NoRows(other_runs.UNREAD)
        look.answers = True
        look.strangers = tuple(shown(str(command), 80) for command in strangers)
    except (BadBox, other_runs.NoRows) as error:
        look.why, look.reason = str(error), getattr(error, "reason", "")
    return look


def _end(job: Known) -> End:
    """Return when a run from here ends at the latest."""
    with suppress(JobError, ValueError, TypeError, AttributeError, KeyError):
        known = from_object(job.given)
        allowance = least_seconds(known) + known.at_end.unproven_minutes * 60
        return End(job.name, after(known.ends, job.first_start or job.at), allowance)
    return End(job.name, None, 0.0)


def _with_runs(seen: Seen, look: Look, act: Act | None) -> Seen:
    """Return what a round sees with what the runs of the box say."""
    longer, unproven, ended, late = [], [], [], []
    kept = providers.kept(act, seen.listed[0]) if act and len(seen.listed) == 1 else []
    box = boxes.parse(look.place.name)
    marks = ledger.releases(look.place.address)
    for row in look.rows:
        status = other_runs.status_of(box, row)
        if status.state == "nothing":
            continue
        name = other_runs.name_of(str(row.get("folder", "")))
        lives = status.state in ("alive", "stalled", "unknown")
        if lives and (status.deadline is None or status.deadline > seen.now):
            longer.append(name)
        elif lives and status.deadline is not None:
            late.append(status.deadline)
        is_released = marks.get(str(row.get("folder"))) == str(row.get("mark"))
        is_safe = not lives and (row.get("saved") is True or is_released)
        if not is_safe and not _are_kept(row.get("mounts"), kept):
            unproven.append(name)
        if not lives:
            ended.append(f"{name} ({status.state})")
    if longer or len(ended) < len([row for row in look.rows if row.get("began")]):
        ended = []
    return replace(
        seen,
        longer=tuple(longer),
        unproven=tuple(unproven),
        ended=tuple(ended),
        late=min(late, default=None),
    )


def _are_kept(mounts: object, kept: list[str]) -> bool:
    """Return whether all of a run's files are on mount points that the stop keeps."""
    return (
        isinstance(mounts, list)
        and bool(mounts)
        and all(any(fnmatchcase(str(one), place) for place in kept) for one in mounts)
    )


def command_hash(provider: Provider, act: Act, box: Item) -> str:
    """Return the hash of the very command that ends a box."""
    return guard_files.hash_of(*provider.words(act, box))


def candidate(
    provider: Provider, name: str, address: str, since: float, id: str, wins: str, now: float
) -> tuple[Confirmed, Item]:
    """Return what a user would confirm of a box, and its row of the provider's list.

    `since`: its first contact. `id`: '' for the one at its address. Raises Unfit and NoAnswer.
    """
    act = provider.commands.stop
    if act is None:
        raise Unfit(f"{provider.name} has no stop that keeps a disk; end the box yourself")
    found = [box for box in provider.boxes() if (box.id == id if id else box.is_at(address))]
    if len(found) != 1:
        what = id or f"a box at {address}"
        raise Unfit(f"{provider.name} shows {what} {len(found)} times; name its id with --id")
    box = found[0]
    if box.created is None:
        raise Unfit(f"{provider.name} doesn't say when a box was made, so another could be meant")
    if box.created > since + SLACK:
        raise Unfit(f"{box.id} was made after {shown(name, 60)} was first reached; check the id")
    if box.standing != "running":
        raise Unfit(f"{box.id} is {box.state or 'in no known state'}; confirm a running box")
    if not box.is_at(address):
        raise Unfit(
            f"{provider.name} doesn't show {box.id} at {shown(address, 80)}, where ssh reaches "
            f"{shown(name, 60)}; check the id, or name the box by its address in the list"
        )
    words = provider.words(act, box)
    own = Confirmed(address, name, provider.name, box.id, box.created, box.kind, provider.account(),
                    guard_files.hash_of(*words), words, now,
                    "stop" if wins == "stop" else "alarm")  # fmt: skip
    return own, box


def _boot() -> str:
    """Return which start of this machine it is, '' where it doesn't say."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return ""
