"""A limit on what all boxes together may cost. An estimate by time and price.

The limit is a file of its own, written whole: damage to another file can't lift it. It knows the
list of boxes as it was at the last reservation, and that list knows when the purse was set: where
one of them was lost, cut or put back from a copy, nobody can say what is left.
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
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..boxes.box import Box, address
from ..runner.deadline import after
from ..text import BadRequest, UserError
from ..text.locking import lock
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

    `since`: when it was set. `here`: the mark of this machine and of these files. `size`, `digest`:
    of the ledger at the last reservation, at `at`; `counted`: what was spent or reserved then.
    """

    amount: float
    currency: str
    since: Seconds
    here: str
    size: int
    digest: str
    at: Seconds
    counted: float

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
        if money is None and not _is_there() and not ledger.limited_since():
            return
        with _locked():  # who reserves now writes the file, too
            if not ledger.limited(moment if money else 0.0, moment):
                raise OSError
            if money is None:
                place().unlink(missing_ok=True)
            else:
                here = this_machine.make()
                counted = _count(money, moment, ledger.rentals(), moment)
                _write(_Limit(*money, moment, here, 0, "", moment, 0.0), counted, moment)
    except (OSError, OverPurse):
        raise BadRequest(f"can't write {place()}; check its permissions and the disk") from None


def _is_there() -> bool:
    """Return whether a file of a purse is there. Raises OSError where nobody can say."""
    try:
        place().lstat()
    except FileNotFoundError:
        return False
    return True


def _write(limit: _Limit, counted: Account, now: float) -> None:
    """Write the purse, with the ledger as it is now. Raises OSError."""
    size, digest = ledger.fingerprint()
    told = counted.spent + counted.reserved
    limit = replace(limit, size=size, digest=digest, at=now, counted=told)
    local_files.write(place(), json.dumps(asdict(limit)).encode())


def account(now: float) -> Account | None:
    """Return what is spent and reserved at a moment; None without a purse. Raises OverPurse."""
    limit = _purse()
    if limit is None:
        return None
    counted = _count(limit.money, limit.since, ledger.rentals(), now)
    return replace(counted, lost=sorted(known_jobs.lost(known_jobs.every())))


def _purse() -> _Limit | None:
    """Return the purse, None without one. Raises OverPurse where it or the ledger can't be read, or
    isn't what was written last: what that held may be a box that spends it."""
    try:
        limit = local_files.read(place(), _Limit, ANEW)
        told = str(ledger.damage() or "") if limit else ""
    except Damaged as error:
        limit, told = None, str(error)
    if told := told or _what_is_lost(limit):
        raise OverPurse(f"purse: {told}; until then nothing is reserved, and no run is started")
    return limit


def _what_is_lost(limit: _Limit | None) -> str:
    """Return which of the files isn't what was written last and what to do, '' for none."""
    since = ledger.limited_since()
    if limit is None:
        missing = f"{place()} is missing, and a purse was set at {shown_moment(since)}; {ANEW}"
        return missing if since else ""
    looks = f"look at your boxes, then {ANEW}"
    if limit.here != this_machine.mark():
        return f"it was set on another machine, or its files were copied or restored since; {looks}"
    known = f"{limit.counted:.2f} of {limit.money} were spent or reserved at "
    known += shown_moment(limit.at)
    if ledger.fingerprint(limit.size) != (limit.size, limit.digest):
        return (
            f"the list of boxes, {ledger.place()}, isn't what it was: it is missing, or lines were "
            f"lost or changed; {known}. Put it back, or {looks}"
        )
    if since != limit.since:
        return f"{place()} isn't the purse that was set last; {looks}"
    lost = known_jobs.lost([job for job in known_jobs.every() if job.at >= limit.since])
    if lost:
        return (
            f"the list of boxes, {ledger.place()}, doesn't have {', '.join(sorted(lost))}, where a "
            f"run was started since; {known}. Put it back, or {looks}"
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

    def note(self, until: float, now: float | None, since: float = 0.0) -> bool:
        """Note in the ledger what is reserved. False when it can't be written."""
        return ledger.reserve(self.address, self.folder, until, now, **self._told(since))

    def event(self, until: float, now: float, since: float = 0.0) -> ledger.Event:
        """Return what `note` would note."""
        told = {"address": self.address, "folder": self.folder, "until": until}
        return ledger.Event(now, ledger.RESERVED, **told, **self._told(since))

    def _told(self, since: float) -> dict[str, Any]:
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
        for event in (wanted.event(now, now, since=now), wanted.event(wanted.until, now))
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
        wanted.note(wanted.until, now)
        return None
    with _locked():
        limit, found = _purse(), None
        if limit:
            found = _check(limit, wanted, moment)
            file = ledger.place()
            try:
                if not wanted.note(wanted.until, now):
                    raise OSError
                file = place()
                _write(limit, found, moment)
            except OSError:
                raise OverPurse(
                    f"purse: can't write {file}, so nothing is reserved; check its permissions and "
                    "the disk"
                ) from None
    return found


def begun(wanted: Wanted, now: float | None = None) -> None:
    """Note that a start let its run begin: the starts of this run before it are over."""
    moment = time.time() if now is None else now
    wanted.note(wanted.until, moment, moment)


def give_back(wanted: Wanted, now: float | None = None) -> None:
    """Give back what a start reserved that let no run begin."""
    wanted.note(0.0, now)


@contextmanager
def _locked() -> Iterator[None]:
    """Let one process at a time reserve. Raises OverPurse."""
    file, held = ledger.place().with_name("purse.lock"), ExitStack()
    with held:
        try:
            local_files.make_folder(file.parent)
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
            held.callback(os.close, descriptor)
            lock(descriptor)
        except OSError as error:
            raise OverPurse(
                f"purse: can't lock {file} ({error.strerror}), so nothing is reserved; try again, "
                "or check its permissions and the disk"
            ) from None
        yield
