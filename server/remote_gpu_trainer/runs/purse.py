"""A limit on what all boxes together may cost. An estimate by time and price.

The limit is a file of its own, written whole: damage to another file can't lift it. A third file
knows what the list of boxes held last, and when the purse was set: where one of them was lost, cut
or put back from a copy, nobody can say what is left.
`start` reserves the worst case of a run, that is the price of its box until the run ends at the
latest, and refuses what doesn't fit. A box that isn't confirmed gone goes on counting; one that is
gone counts by its hours. It is a brake for whoever keeps to it: it stops no box, and knows only
boxes that a command of this user reached from this machine.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..boxes.box import Box, address
from ..runner.deadline import after
from ..text import BadRequest, UserError
from ..text.money import Money
from ..text.spans import shown_moment, shown_seconds
from . import known_jobs, ledger, local_files, this_machine
from .local_files import Damaged, Seconds
from .rendered import billed

if TYPE_CHECKING:
    from ..platforms.profile import Profile
    from .job import Job

ANEW = "set it anew with rgt purse set AMOUNT, or take it away with rgt purse clear"
NOT_COUNTED = "estimated by time and price: storage, traffic and rounding aren't counted"


class OverPurse(UserError):
    """A run that the purse has no money for. One line: what is wrong; what to do."""


@dataclass(frozen=True)
class _Limit:
    """The file of a purse. Times: seconds since 1970.

    `since`: when it was set. `here`: the mark of this machine and of these files.
    """

    amount: float
    currency: str
    since: Seconds
    here: str

    @property
    def money(self) -> Money:
        """Return what the purse was set to."""
        return Money(self.amount, self.currency)

    __pydantic_config__ = local_files.STRICT

    def __post_init__(self) -> None:
        if self.amount <= 0 or len(self.currency) != 3 or not self.currency.isalpha():
            raise ValueError("no limit")


@dataclass(frozen=True)
class Account:
    """What is spent of a purse. Amounts are in its currency, times in seconds since 1970.

    `reserved`: what the boxes cost until their runs end at the latest. `uncounted`: names of boxes
    without a price in this currency; `lost`: addresses of those that the list of boxes lost before
    the purse was set.
    """

    purse: Money
    since: float
    spent: float
    reserved: float
    uncounted: list[str]
    lost: list[str] = field(default_factory=list)

    @property
    def left(self) -> float:
        """Return what may still be reserved, never below 0."""
        return max(0.0, self.purse.amount - self.spent - self.reserved)

    def noted(self, at: float) -> ledger.Counted:
        """Return what is noted of it, counted at a moment."""
        told = f"{self.spent + self.reserved:.2f} of {self.purse} were spent or reserved"
        return ledger.Counted(self.since, f"{told} at {shown_moment(at)}")

    def as_dict(self) -> dict[str, Any]:
        """Return all amounts, as `purse --json` prints them."""
        return {
            "purse": self.purse.amount,
            "currency": self.purse.currency,
            "since": self.since,
            "spent": round(self.spent, 4),
            "reserved": round(self.reserved, 4),
            "left": round(self.left, 4),
            "estimated": True,
            "uncounted": self.uncounted,
            "lost": self.lost,
        }

    def in_words(self) -> str:
        """Return all amounts in a line."""
        unit = self.purse.currency
        said = (
            f"{self.purse}: about {self.spent:.2f} spent, {self.reserved:.2f} reserved, "
            f"{self.left:.2f} left ({NOT_COUNTED})"
        )
        for what, names in (
            (f"without a price in {unit}", self.uncounted),
            ("as the list of boxes lost them", self.lost),
        ):
            said += f"; not counted, {what}: {', '.join(names)}" if names else ""
        return said


def place() -> Path:
    """Return the file of the limit."""
    return ledger.place().with_name("purse.json")


def set_limit(money: Money | None, now: float | None = None) -> None:
    """Limit what all boxes together may cost from now on, None for no limit. Raises BadRequest."""
    moment = time.time() if now is None else now
    try:
        with suppress(Damaged):
            if money is None and not os.path.lexists(place()) and not ledger.last_written().counted:
                return
        with _locked():
            if money is None:
                ledger.note_written(counted=None, is_cut=False)
                place().unlink(missing_ok=True)
            else:
                limit = _Limit(*money, moment, this_machine.make())
                found = _count(money, moment, ledger.rentals(), moment)
                ledger.note_written(counted=found.noted(moment), is_cut=False)
                local_files.write(place(), json.dumps(asdict(limit)).encode())
    except (OSError, OverPurse):
        raise BadRequest(f"can't write {place()}; check its permissions and the disk") from None


def account(now: float) -> Account | None:
    """Return what is spent and reserved at a moment; None without a purse. Raises OverPurse."""
    limit = _purse()
    if limit is None:
        return None
    counted = _count(limit.money, limit.since, ledger.rentals(), now)
    return replace(counted, lost=sorted({*known_jobs.lost(known_jobs.every()), *ledger.lost()}))


def _purse() -> _Limit | None:
    """Return the purse, None without one. Raises OverPurse where it or the ledger can't be read, or
    isn't what was written last: what that held may be a box that spends it."""
    try:
        limit = local_files.read(place(), _Limit, ANEW)
        told = str((limit and ledger.damage()) or "")
    except Damaged as error:
        limit, told = None, str(error)
    with suppress(Damaged):  # told above where a purse is set
        told = told or _what_is_lost(limit, ledger.last_written())
    if told:
        raise OverPurse(f"purse: {told}; until then nothing is reserved, and no run is started")
    return limit


def _what_is_lost(limit: _Limit | None, written: ledger.LastWritten) -> str:
    """Return which of the files isn't what was written last and what to do, '' for none."""
    looks, last = f"look at your boxes, then {ANEW}", written.counted
    if limit is None:
        return f"{place()} is missing; {last.told}; {ANEW}" if last else ""
    if limit.here != this_machine.mark():
        return f"it was set on another machine, or its files were copied or restored since; {looks}"
    if last is None or last.since != limit.since:
        return f"{place()} isn't the purse that was set last; {looks}"
    if written.is_cut:
        return (
            f"the list of boxes, {ledger.place()}, isn't what it was: it is missing, or lines were "
            f"lost or changed; {last.told}. Put it back, or {looks}"
        )
    lost = known_jobs.lost([job for job in known_jobs.every() if job.at >= limit.since])
    if lost:
        return (
            f"the list of boxes, {ledger.place()}, doesn't have {', '.join(sorted(lost))}, where a "
            f"run was started since; {last.told}. Put it back, or {looks}"
        )
    return ""


def _count(money: Money, since: float, rentals: list[ledger.Rental], now: float) -> Account:
    """Return what rentals have spent and reserved of a purse that was set at `since`."""
    spent = reserved = 0.0
    uncounted = set()
    for rental in rentals:
        end = now if rental.end is None else rental.end
        if end <= since and rental.end is not None:
            continue
        cost, is_all = rental.box.cost_between(since, end, money.currency)
        spent += cost
        if not is_all:
            uncounted.add(rental.box.name)
        if rental.end is None:
            last = max(rental.ends.values(), default=now)
            reserved += rental.box.cost_between(now, last, money.currency)[0]
    return Account(money, since, spent, reserved, sorted(uncounted))


@dataclass(frozen=True)
class Wanted:
    """What a start of a run needs of the purse.

    `until`: when the run ends at the latest, seconds since 1970. `id`: of this start, for of two
    that race for a run each gives back its own.
    """

    address: str
    name: str
    folder: str
    until: float
    hourly: Money | None
    id: str = field(default_factory=lambda: secrets.token_hex(6))

    def note_reservation(
        self, until: float, now: float | None, since: float = 0.0, **more: Any
    ) -> bool:
        """Note in the ledger what is reserved. False when it can't be written."""
        return ledger.reserve(
            self.address, self.folder, until, now, **self._reserved_fields(since), **more
        )

    def make_event(self, until: float, now: float, since: float = 0.0) -> ledger.Event:
        """Return the event that `note_reservation` would note."""
        told = {"address": self.address, "folder": self.folder, "until": until}
        return ledger.Event(now, ledger.RESERVED, **told, **self._reserved_fields(since))

    def _reserved_fields(self, since: float) -> dict[str, Any]:
        price, currency = self.hourly or (None, "")
        return {"id": self.id, "since": since, "price": price, "currency": currency}


def wanted_by(box: Box, job: Job, platform: Profile, began: float) -> Wanted | None:
    """Return what a run needs of the purse; None on a box that nobody bills by the hour.

    `began`: the run's first start, seconds since 1970.
    """
    until = after(job.ends, began)
    if box.local or until is None or not billed(job, platform, "ssh"):
        return None
    return Wanted(address(box), box.name, job.folder, until, job.hourly)


def check(wanted: Wanted, now: float) -> Account | None:
    """Return the account as it is with this run; None without a purse. Raises OverPurse."""
    limit = _purse()
    return _check(limit, wanted, now) if limit else None


def _check(limit: _Limit, wanted: Wanted, now: float) -> Account:
    """Return the account of a purse as it is with this run. Raises OverPurse."""
    hourly, unit = wanted.hourly, limit.currency
    if hourly is None or hourly.currency != unit:
        raise OverPurse(
            f"purse: the job names no price in {unit}, so it can't be reserved; add "
            f"price: 1.99 {unit}, or take the limit away with rgt purse clear"
        )
    opened = ledger.Event(
        now, ledger.OPENED, wanted.address, wanted.name, price=hourly.amount, currency=unit
    )
    before, after = (
        _count(limit.money, limit.since, ledger.rentals(opened, event), now)
        for event in (wanted.make_event(now, now, since=now), wanted.make_event(wanted.until, now))
    )
    if after.spent + after.reserved > after.purse.amount:
        cost = after.reserved - before.reserved
        seconds = before.left / hourly.amount * 3600
        raise OverPurse(
            f"purse: {before.left:.2f} of {after.purse} are left, and this run may cost "
            f"{cost:.2f} until its end at the latest; a deadline {shown_seconds(seconds)} from now "
            "fits, or rgt purse set AMOUNT gives more"
        )
    return after


def reserve(wanted: Wanted, now: float | None = None) -> Account | None:
    """Reserve what a run may cost at most; None without a purse. Raises OverPurse.

    Of two that reserve at once the second counts what the first has taken. Its end is noted without
    a purse too, for one that is set later.
    """
    moment = time.time() if now is None else now
    if _purse() is None:
        wanted.note_reservation(wanted.until, now)
        return None
    with _locked():
        limit, found = _purse(), None
        if limit:
            found = _check(limit, wanted, moment)
            if not wanted.note_reservation(wanted.until, now, counted=found.noted(moment)):
                raise OverPurse(
                    f"purse: can't write {ledger.place()}, so nothing is reserved; check its "
                    "permissions and the disk"
                )
    return found


def begun(wanted: Wanted, now: float | None = None) -> None:
    """Note that a start let its run begin: the starts of this run before it are over."""
    moment = time.time() if now is None else now
    wanted.note_reservation(wanted.until, moment, moment)


def give_back(wanted: Wanted, now: float | None = None) -> None:
    """Give back what a start reserved that let no run begin."""
    wanted.note_reservation(0.0, now)


@contextmanager
def _locked() -> Iterator[None]:
    """Let one process at a time reserve. Raises OverPurse."""
    file = ledger.place().with_name("purse.lock")
    with ExitStack() as stack:
        try:
            stack.enter_context(local_files.locked(file))
        except OSError as error:
            raise OverPurse(
                f"purse: can't lock {file} ({error.strerror}), so nothing is reserved; try again, "
                "or check its permissions and the disk"
            ) from None
        yield
