"""A limit on what all boxes together may cost. An estimate by time and price.

The limit is a file of its own, written whole: damage to another file can't lift it.
`start` reserves the worst case of a run, that is the price of its box until the run ends at the
latest, and refuses what doesn't fit. A box that isn't confirmed gone goes on counting; one that is
gone counts by its hours. It is a brake for whoever keeps to it: it stops no box, and knows only
boxes that a command of this user reached from this machine.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..boxes.box import Box, address
from ..runner.deadline import after
from ..text import BadRequest, UserError
from ..text.locking import lock
from ..text.money import Money
from ..text.spans import shown_seconds
from . import known_jobs, ledger, local_files
from .local_files import Damaged, Seconds
from .rendered import billed

if TYPE_CHECKING:
    from .job_start import Plan

ANEW = "set it anew with rgt purse set AMOUNT, or take it away with rgt purse clear"
NOT_COUNTED = "estimated by time and price: storage, traffic and rounding aren't counted"


class OverPurse(UserError):
    """A run that the purse has no money for. One line: what is wrong; what to do."""


@dataclass(frozen=True)
class _Limit:
    """The file of a purse. `since`: when it was set, seconds since 1970."""

    amount: float
    currency: str
    since: Seconds

    __pydantic_config__ = local_files.STRICT

    def __post_init__(self) -> None:
        if self.amount <= 0 or len(self.currency) != 3 or not self.currency.isalpha():
            raise ValueError("no limit")


@dataclass(frozen=True)
class Account:
    """What is spent of a purse. Amounts are in its currency, times in seconds since 1970.

    `reserved`: what the boxes cost until their runs end at the latest. `uncounted`: names of boxes
    without a price in this currency, and addresses of those that the list of boxes lost.
    """

    purse: Money
    since: float
    spent: float
    reserved: float
    uncounted: list[str]

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
        }

    def in_words(self) -> str:
        """Return all amounts in a line."""
        unit = self.purse.currency
        missing = f"; not counted, without a price in {unit}: {', '.join(self.uncounted)}"
        return (
            f"{self.purse}: about {self.spent:.2f} spent, {self.reserved:.2f} reserved, "
            f"{self.left:.2f} left ({NOT_COUNTED}){missing if self.uncounted else ''}"
        )


def place() -> Path:
    """Return the file of the limit."""
    return ledger.place().with_name("purse.json")


def set_limit(money: Money | None, now: float | None = None) -> None:
    """Limit what all boxes together may cost from now on, None for no limit. Raises BadRequest."""
    try:
        if money is None:
            place().unlink(missing_ok=True)
        else:
            limit = _Limit(*money, time.time() if now is None else now)
            local_files.write(place(), json.dumps(asdict(limit)).encode())
    except OSError:
        raise BadRequest(f"can't write {place()}; check its permissions and the disk") from None


def account(now: float) -> Account | None:
    """Return what is spent and reserved at a moment; None without a purse. Raises OverPurse."""
    found = _purse()
    if found is None:
        return None
    counted, lost = _count(*found, ledger.rentals(), now), known_jobs.lost(known_jobs.every())
    return replace(counted, uncounted=sorted({*counted.uncounted, *lost}))


def _purse() -> tuple[Money, float] | None:
    """Return the purse and when it was set, None without one. Raises OverPurse where its file can't
    be read, or the ledger: what that held may be a box that spends it."""
    try:
        limit = local_files.read(place(), _Limit, ANEW)
        told = ledger.damage() if limit else None
    except Damaged as error:
        limit, told = None, error
    if told:
        raise OverPurse(f"purse: {told}; until then nothing is reserved, and no run is started")
    return limit and (Money(limit.amount, limit.currency), limit.since)


def _count(money: Money, since: float, rentals: list[ledger.Rental], now: float) -> Account:
    """Return what rentals have spent and reserved of a purse that was set at `since`."""
    spent = reserved = 0.0
    uncounted = set()
    for rental in rentals:
        end = now if rental.end is None else rental.end
        if end <= since and rental.end is not None:
            continue
        box = rental.box
        if box.price is None or box.currency != money.currency:
            uncounted.add(box.name)
            continue
        spent += box.price * max(0.0, end - max(box.since, since)) / 3600
        if rental.end is None:
            last = max(rental.reserved.values(), default=now)
            reserved += box.price * max(0.0, last - now) / 3600
    return Account(money, since, spent, reserved, sorted(uncounted))


@dataclass(frozen=True)
class Wanted:
    """What a run needs of the purse. `until`: when it ends at the latest, seconds since 1970."""

    address: str
    name: str
    folder: str
    until: float
    hourly: Money | None


def wanted_by(box: Box, plan: Plan, began: float) -> Wanted | None:
    """Return what a run needs of the purse; None on a box that nobody bills by the hour.

    `began`: the run's first start, seconds since 1970.
    """
    job = plan.job
    until = after(job.ends, began)
    if box.local or until is None or not billed(job, plan.platform, "ssh"):
        return None
    return Wanted(address(box), box.name, job.folder, until, job.hourly)


def check(wanted: Wanted, now: float) -> Account | None:
    """Return the account as it is with this run; None without a purse. Raises OverPurse."""
    found = _purse()
    if found is None:
        return None
    hourly, unit = wanted.hourly, found[0].currency
    if hourly is None or hourly.currency != unit:
        raise OverPurse(
            f"purse: the job names no price in {unit}, so it can't be reserved; add "
            f"price: 1.99 {unit}, or take the limit away with rgt purse clear"
        )
    mine = ledger.Opened(
        wanted.address, wanted.name, now, price=hourly.amount, currency=hourly.currency
    )
    others, reserved = [], {}
    for rental in ledger.rentals():
        if rental.end is None and rental.box.address == wanted.address:
            mine = replace(mine, since=rental.box.since)
            reserved = {**rental.reserved}
        else:
            others.append(rental)
    reserved.pop(wanted.folder, None)
    before, after = (
        _count(*found, [*others, ledger.Rental(mine, None, {**reserved, **more})], now)
        for more in ({}, {wanted.folder: wanted.until})
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

    Of two that reserve at once the second counts what the first has taken.
    """
    if _purse() is None:
        return None
    with _locked():
        found = check(wanted, time.time() if now is None else now)
        if found and not ledger.reserve(wanted.address, wanted.folder, wanted.until, now):
            raise OverPurse(
                f"purse: can't write {ledger.place()}, so nothing is reserved; check its "
                "permissions and the disk"
            )
    return found


def give_back(wanted: Wanted, now: float | None = None) -> None:
    """Give back what was reserved for a run that didn't begin."""
    ledger.reserve(wanted.address, wanted.folder, 0.0, now)


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
