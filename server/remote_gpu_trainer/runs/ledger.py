"""The boxes that may still cost money, in a local file: one JSON object a line, under a lock.

A box is on the list from the first command that reaches it until it is confirmed gone, or until the
user says that it is gone or their own. If the home is missing or read-only, nothing is remembered,
and commands work all the same. A corrupt or foreign line is skipped, and `damage` tells of it to
those who act on money. A box is known by the address of its name at that time. So a name that leads
elsewhere later doesn't hide the old box.

Lines are only ever added. Another file, beside the mark of this machine, has what it held when it
was written last: so a ledger that was deleted, cut or put back from a backup is no empty one.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shlex
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..text import BadRequest
from ..text.spans import shown_moment
from . import local_files
from .home_copy import Copy
from .local_files import Damaged, Seconds

if TYPE_CHECKING:
    from ..boxes.ssh import Box

MOST_BYTES = 64 << 20  # of the file's end, some 300,000 events: what is older is forgotten
OPENED, GONE, OWN, REMINDED, LISTED = "opened", "gone", "own", "reminded", "listed"
RELEASED = "released"
RESERVED = "reserved"
DAMAGED = "delete that line; boxes and runs that only it names may still be billed"
DAMAGED_LAST = "delete it, look at your boxes, and set a purse anew if you have one"
ABOUT_BOXES = ("status", "release", "health")  # the commands that print the reminder
DAY = 24 * 3600  # seconds between two reminders


@dataclass(frozen=True)
class Event:
    """A line of the ledger. `t`: seconds since 1970. The rest: as the writer of its kind has it."""

    t: Seconds
    event: str
    address: str | None = None
    name: str = ""
    profile: str = ""
    price: float | None = None
    currency: str = ""
    id: str = ""
    folder: str = ""
    mark: str = ""
    to: str = ""
    manifest: str = ""
    until: Seconds | None = None
    since: Seconds = 0.0

    __pydantic_config__ = local_files.LINE

    def __post_init__(self) -> None:
        if self.address is None and self.event in (OPENED, GONE, OWN, LISTED, RELEASED, RESERVED):
            raise ValueError("no address")
        if self.event == RESERVED and (not self.folder or self.until is None):
            raise ValueError("no run, or no end")


@dataclass(frozen=True)
class Counted:
    """What was counted last of a purse. `since`: when that was set, in seconds since 1970; `told`:
    what was spent or reserved, in words."""

    since: Seconds
    told: str


@dataclass(frozen=True)
class LastWritten:
    """What the ledger held when it was written last.

    `size`, `digest`: of its bytes. `boxes`: the name of each that was open, by its address, and of
    each that it lost since. `counted`: of the purse that was set last, None for none. `is_cut`:
    lines were lost or changed since that was set.
    """

    size: int
    digest: str
    boxes: dict[str, str]
    counted: Counted | None = None
    is_cut: bool = False

    __pydantic_config__ = local_files.STRICT


class Price(NamedTuple):
    """What an hour of a box costs; `amount` is None where a run names no price.

    `at`: when it was typed; `until`: when the run that it is for ends at the latest, inf for one
    that holds until another is typed. Seconds since 1970.
    """

    amount: float | None
    currency: str
    at: float
    until: float = inf


@dataclass(frozen=True)
class Opened:
    """A box that may still be billed.

    `since`: seconds since 1970, of the first contact, or of its rental where a job tells an earlier
    one. `prices`: all that were typed, and those of its runs.
    """

    address: str
    name: str
    since: float
    profile: str = ""
    prices: tuple[Price, ...] = ()

    @property
    def price(self) -> float | None:
        """Return the price of an hour that was typed last, in `currency`; None: not known."""
        return self._typed[-1].amount if self._typed else None

    @property
    def currency(self) -> str:
        """Return the currency of `price`, '' where none is known."""
        return self._typed[-1].currency if self._typed else ""

    @property
    def _typed(self) -> list[Price]:
        return [one for one in self.prices if one.until == inf]

    def hours(self, now: float) -> float:
        """Return the hours that it is paid for."""
        return max(0.0, (now - self.since) / 3600)

    def cost(self, now: float) -> float | None:
        """Return what the box has cost; None where no price is known of all of it."""
        cost, is_all = self.cost_between(self.since, now, self.currency)
        return cost if is_all else None

    def cost_between(self, begin: float, end: float, currency: str) -> tuple[float, bool]:
        """Return what the box costs from a moment to another in a currency, and whether that is all
        of it: not where it has no price in this currency at any time."""
        begin = max(begin, self.since)
        end = max(begin, end)
        turns = {moment for one in self.prices for moment in (one.at, one.until)}
        marks = sorted({begin, end, *(one for one in turns if begin < one < end)})
        rates = [self._rate(moment, currency) for moment in marks[:-1] or marks]
        spans = [later - earlier for earlier, later in zip(marks, marks[1:], strict=False)]
        cost = sum(rate * span / 3600 for rate, span in zip(rates, spans, strict=False) if rate)
        return cost, None not in rates

    def _rate(self, at: float, currency: str) -> float | None:
        """Return the price that holds at a moment: the highest of the one that was typed last, of
        which the first holds before, too, and of those of its runs that may still live."""
        last = [one for one in self._typed if one.at <= at][-1:] or self._typed[:1]
        holding = [one for one in self.prices if one.at <= at < one.until < inf]
        found = [one.amount for one in (*last, *holding) if one.currency == currency]
        return max((amount for amount in found if amount is not None), default=None)


def place() -> Path:
    """Return the ledger's file."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = (
        Path(state) if os.path.isabs(state) else Path(os.path.expanduser("~")) / ".local" / "state"
    )
    return base / "remote-gpu-trainer" / "ledger.jsonl"


def is_there() -> bool:
    """Return whether a box or a job was ever noted on this machine."""
    return place().exists() or jobs_place().exists()


def jobs_place() -> Path:
    """Return the folder of the jobs that were started from here."""
    return place().parent / "jobs"


def opened(
    address: str,
    name: str,
    *,
    profile: str = "",
    price: float | None = None,
    currency: str = "",
    since: float = 0.0,
    now: float | None = None,
) -> bool:
    """Remember a box. False when the ledger can't be written.

    `since`: when it was rented, in seconds since 1970; 0 where that isn't known. Nothing is written
    when nothing new is known. The user's own machine isn't remembered, unless a platform is named
    for it.
    """
    if address in _own() and not profile:
        return True
    box = next((one for one in still_open() if one.address == address), None)
    is_same = box and profile in ("", box.profile) and price in (None, box.price)
    if box and is_same and not 0 < since < box.since:
        return True
    more: dict[str, Any] = {"currency": currency} if currency else {}
    more |= {"since": since} if since else {}
    return _append(OPENED, now, address=address, name=name, profile=profile, price=price, **more)


def gone(address: str, name: str, why: str, now: float | None = None) -> bool:
    """Forget a box that is gone; `why` stays in the file. False when it can't be written."""
    return _append(GONE, now, address=address, name=name, why=why)


def shown_as(address: str, name: str, now: float | None = None) -> bool:
    """Note the id by which a provider's list shows a box. False when it can't be written."""
    last = _listed(address)[-1:]
    return any(one.id == name for one in last) or _append(LISTED, now, address=address, id=name)


def ids_of(address: str) -> set[str]:
    """Return the ids by which lists have shown a box since it was last gone; '' for one without any
    box."""
    return {event.id for event in _listed(address)}


def shown_empty(address: str) -> float | None:
    """Return since when lists that were to show a box had none, None where the last had some."""
    return next((one.t for one in _listed(address)[-1:] if not one.id), None)


def _listed(address: str) -> list[Event]:
    """Return what lists have shown of a box since it was last gone."""
    found: list[Event] = []
    for event in _events():
        if event.address == address and event.event in (GONE, OWN, LISTED):
            found = [*found, event] if event.event == LISTED else []
    return found


def released(address: str, folder: str, mark: str, copy: Copy, now: float | None = None) -> bool:
    """Note that a run's results are verified here. False when it can't be written.

    `folder`: of the run, on the box. `mark`: by it the box tells that the run didn't go on since.
    `copy`: where they lie, for a later look.
    """
    to, whole = copy.folder, copy.manifest
    return _append(RELEASED, now, address=address, folder=folder, mark=mark, to=to, manifest=whole)


def releases(address: str) -> dict[str, tuple[str, Copy]]:
    """Return of each run of a box that was released its mark and where its copy lies, by its folder
    there. Whether the copy is still there, `home_copy.why_lost` tells."""
    mine = (one for one in _events() if one.event == RELEASED and one.address == address)
    return {event.folder: (event.mark, Copy(event.to, event.manifest)) for event in mine}


def forget(name: str, address: str, *, own: bool, now: float | None = None) -> str:
    """Forget a box that the user says is gone (`own` False) or is their own machine (`own` True).

    `name`: as the reminder shows it, or an address; `address`: where the name leads today, '' for
    this machine or when it isn't known. An own machine isn't remembered again. Returns the address
    of the box, '' when it isn't on the list. Raises BadRequest.
    """
    from ..text.masking import shown  # as in `reminder`

    boxes = still_open()
    named = [box for box in boxes if name in (box.name, shown(box.name, 60), box.address)]
    named = named or [box for box in boxes if box.address == address]
    if len(named) > 1:
        places = ", ".join(box.address for box in named)
        raise BadRequest(f"{shown(name, 60)} stands for {len(named)} boxes; pick one of {places}")
    at = named[0].address if named else address if own else ""
    why = "the user says so"
    if at and not _append(OWN if own else GONE, now, address=at, name=name, why=why):
        raise BadRequest(f"can't write {place()}; check its permissions and the disk")
    return at


def with_its_line(box: Box) -> Box:
    """Return a box that is named by host and port with the options of the ssh line that named it
    before; as it is where no line did, or several that differ."""
    from ..boxes.ssh import BadBox, parse

    found = {}
    for name in (*(one.name for one in still_open()), *own_machines().values()):
        with suppress(BadBox):
            known = parse(name)
            if known.name != known.short and box.short in (known.short, known.short.split("@")[-1]):
                found[known.host, known.options] = known
    if len(found) != 1:
        return box
    known = next(iter(found.values()))
    return replace(known, name=box.name, line=known.name)


def own_machines() -> dict[str, str]:
    """Return the machines that the user calls their own: {address: name}."""
    own, names = _own(), {}
    for event in _events():
        address = event.address
        # What --mine was given may be an address.
        if address in own and event.name and (event.event == OPENED or address not in names):
            names[address] = event.name
    return names


def still_open() -> list[Opened]:
    """Return the boxes that aren't known to be gone, the oldest first."""
    found = (rental.box for rental in rentals() if rental.end is None)
    return sorted(found, key=lambda box: box.since)


def addresses() -> set[str]:
    """Return the address of each box that the ledger has ever named, gone or not."""
    return {event.address for event in _events() if event.address}


def damage() -> Damaged | None:
    """Return what is wrong with the ledger and what to do, None for nothing."""
    try:
        last_written()
    except Damaged as error:
        return _read_lines()[1] or error
    return _read_lines()[1]


def last_written() -> LastWritten:
    """Return what the ledger held when it was written last. Raises Damaged."""
    kept = local_files.read(_last_place(), LastWritten, DAMAGED_LAST) or _nothing()
    with suppress(OSError):  # a list that can't be read now may be whole
        is_cut = kept.is_cut or _digest(kept.size) != kept.digest
        return replace(kept, is_cut=is_cut)
    return kept


def lost() -> dict[str, str]:
    """Return the boxes that the ledger held, and doesn't name any more: {address: name}."""
    with suppress(Damaged):
        known = addresses()
        return {
            address: name for address, name in last_written().boxes.items() if address not in known
        }
    return {}


def note_written(**change: Any) -> None:
    """Note what the ledger holds now, and what changes of the rest. Raises OSError.

    A damaged note stays as it is, and is told, until its `counted` changes.
    """
    with _locked():
        _note_written(**change)


def _note_written(**change: Any) -> None:
    try:
        before = last_written()
    except Damaged:
        if "counted" not in change:
            return
        before = _nothing()
    known = addresses()
    boxes = {address: name for address, name in before.boxes.items() if address not in known}
    boxes |= {box.address: box.name for box in still_open()}
    size = place().stat().st_size if place().exists() else 0
    told = replace(before, **{"size": size, "digest": _digest(size), "boxes": boxes, **change})
    local_files.write(_last_place(), json.dumps(asdict(told), ensure_ascii=False).encode())


def _last_place() -> Path:
    return place().parent / "guard" / "ledger.json"


def _locked() -> AbstractContextManager[None]:
    return local_files.locked(place().with_name("ledger.lock"))


def reminder(
    command: str = "", as_json: bool = False, now: float | None = None, before: float | None = None
) -> str:
    """Return a line about the boxes that may still be billed, at most once a day; '' for none.

    `command` has run. Only those in ABOUT_BOXES remind, and none that prints JSON; '' is an unknown
    command, which reminds. `before`: only of boxes that were first reached before this moment. The
    ledger notes that the line was printed.
    """
    if as_json or command not in ("", *ABOUT_BOXES):
        return ""
    reminded = [event.t for event in _events() if event.event == REMINDED]
    last = reminded[-1] if reminded else -inf  # by its place: a clock may have gone back
    moment = _now(now)
    boxes = [box for box in still_open() if before is None or box.since < before]
    if not boxes or 0 <= moment - last < DAY:
        return ""
    from ..text.masking import shown  # most commands start without a box

    parts = []
    names = [box.name for box in boxes]
    for box in boxes[:5]:
        cost = box.cost(moment)
        unit = f" {box.currency}".rstrip()
        price = "" if cost is None else f", {box.price:g}{unit} an hour, about {cost:.2f} so far"
        since = shown_moment(box.since)
        name = box.address if names.count(box.name) > 1 else box.name
        parts.append(f"{shown(name, 60)} since {since} ({box.hours(moment):.1f} h{price})")
    more = f" and {len(boxes) - 5} more" if len(boxes) > 5 else ""
    _append(REMINDED, now)
    which = shlex.quote(shown(names[0], 1000)) if len(boxes) == 1 else "BOX"
    return (
        f"may still be billed: {'; '.join(parts)}{more}; once it is gone, or if it is your own: "
        f"rgt release {which} --forget, or --mine"
    )


@dataclass(frozen=True)
class Rental:
    """The time of a box from its first contact until it was confirmed gone.

    `end`: seconds since 1970; None for a box that isn't known to be gone. `reserved`: what each
    start of each of its runs has reserved, by the run's folder and the start's id.
    """

    box: Opened
    end: float | None = None
    reserved: dict[str, dict[str, Price]] = field(default_factory=dict)

    @property
    def ends(self) -> dict[str, float]:
        """Return when each of its runs ends at the latest, by the run's folder."""
        return {
            folder: max(one.until for one in starts.values())
            for folder, starts in self.reserved.items()
            if starts
        }


def rentals(*more: Event) -> list[Rental]:
    """Return all rentals that the ledger remembers, those of own machines left out. `more`: events
    that aren't in it yet."""
    ended: list[Rental] = []
    open_: dict[str, Rental] = {}
    for event in (*_events(), *more):
        kind, address = event.event, event.address or ""
        if kind == OPENED:
            before = open_.get(address)
            box = _opened(event, before.box if before else None)
            open_[address] = Rental(box, None, before.reserved if before else {})
        elif kind == RESERVED and address in open_:
            _note_reserved(open_[address].reserved.setdefault(event.folder, {}), event)
        elif kind in (GONE, OWN) and address in open_:
            rental = open_.pop(address)
            if kind == GONE:
                ended.append(replace(rental, end=event.t))
    return [_with_prices(rental) for rental in (*ended, *open_.values())]


def _note_reserved(starts: dict[str, Price], event: Event) -> None:
    """Note what a start has reserved for a run, that it began, or that it gives it back."""
    if event.since:  # it began, so the starts before it are over
        for id, one in starts.items():
            starts[id] = one._replace(until=min(one.until, event.since))
    if event.until:
        at = starts[event.id].at if event.id in starts else event.t
        starts[event.id] = Price(event.price, event.currency, at, event.until)
    else:
        starts.pop(event.id, None)


def _with_prices(rental: Rental) -> Rental:
    """Return a rental whose box knows the prices of its runs, too."""
    own = [one for starts in rental.reserved.values() for one in starts.values()]
    return replace(rental, box=replace(rental.box, prices=(*rental.box.prices, *own)))


def _nothing() -> LastWritten:
    return LastWritten(0, hashlib.sha256(b"").hexdigest(), {})


def _digest(size: int) -> str:
    """Return the digest of the first bytes of the file. Raises OSError."""
    data = b""
    if place().exists():
        if not place().is_file():  # a pipe would be read without an end
            raise OSError(errno.EINVAL, "it is no plain file")
        with place().open("rb") as file:
            data = file.read(size)
    return hashlib.sha256(data).hexdigest()


def reserve(address: str, folder: str, until: float, now: float | None = None, **more: Any) -> bool:
    """Note when a run of a box ends at the latest. False when the ledger can't be written.

    `until`: 0 where this start gives back what it reserved. `more`: `id` of this start, `price` and
    `currency` of an hour, and `since`, when it began: then the starts of this run before it are
    over. `counted`: of the purse with it.
    """
    return _append(RESERVED, now, address=address, folder=folder, until=until, **more)


def _now(now: float | None) -> float:
    return time.time() if now is None else now


def _own() -> set[str]:
    """Return the addresses of the user's own machines."""
    own: set[str] = set()
    for event in _events():
        if event.event in (OPENED, GONE, OWN):
            (own.add if event.event == OWN else own.discard)(event.address or "")
    return own


def _opened(event: Event, before: Opened | None) -> Opened:
    """Return a box by an event that tells of it; `before`: what is known of it already."""
    address, first = event.address or "", before.since if before else event.t
    prices = before.prices if before else ()
    if event.price is not None:
        prices = (*prices, Price(event.price, event.currency, event.t))
    return Opened(
        address,
        event.name or address,
        min(first, event.since or first),
        event.profile or (before.profile if before else ""),
        prices,
    )


def _events() -> list[Event]:
    return _read_lines()[0]


def _read_lines() -> tuple[list[Event], Damaged | None]:
    return local_files.read_lines(place(), Event, DAMAGED, MOST_BYTES)


def _append(
    event: str, now: float | None, counted: Counted | None = None, **fields: object
) -> bool:
    line = json.dumps({"t": _now(now), "event": event, **fields}, ensure_ascii=False)
    try:
        with _locked():
            local_files.append(place(), line.encode("utf-8", "replace"))
            _note_written(**({"counted": counted} if counted else {}))
    except (OSError, ValueError):
        return False
    return True
