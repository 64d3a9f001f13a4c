"""List what a provider bills: boxes that no run from here explains, stopped boxes, and disks.

Nothing is changed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ..platforms.provider import Item, NoAnswer, NotSetUp, Provider
from ..text.masking import shown
from ..text.spans import shown_moment
from . import known_jobs, ledger
from .guard_decision import CLOCKS
from .known_jobs import Known


@dataclass
class Swept:
    """What an account has. `explained`: why each box is there, by its id, '' for no reason known
    here. `why`: the provider couldn't be asked, '' if it was; not `is_set_up`: because this machine
    has no key or program for it."""

    provider: str
    boxes: list[Item] = field(default_factory=list)
    disks: list[Item] = field(default_factory=list)
    explained: dict[str, str] = field(default_factory=dict)
    why: str = ""
    is_set_up: bool = True

    @property
    def unexplained(self) -> list[Item]:
        """Return the boxes that run, or may, and that no run from here explains."""
        return [
            box
            for box in self.boxes
            if box.standing in ("running", "unknown") and not self.explained.get(box.id)
        ]

    @property
    def stopped(self) -> list[Item]:
        """Return the stopped boxes."""
        return [box for box in self.boxes if box.standing == "stopped"]

    @property
    def loose(self) -> list[Item]:
        """Return the disks that belong to no box of the list."""
        known = {box.id for box in self.boxes if box.standing != "ended"}
        return [disk for disk in self.disks if not known.intersection(disk.of)]

    @property
    def code(self) -> int:
        """Return the exit code: 0 all is explained, 1 something isn't, 2 couldn't be asked."""
        return 2 if self.why else 1 if self.unexplained or self.stopped or self.loose else 0

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, as `sweep --json` prints them."""
        groups = {"unexplained": self.unexplained, "stopped": self.stopped, "disks": self.loose}
        rows = {name: [{**asdict(i), "month": self.month(i)} for i in items]
                for name, items in groups.items()}  # fmt: skip
        return {"provider": self.provider, "why": self.why, "boxes": len(self.boxes), **rows}

    def month(self, item: Item) -> float | None:
        """Return what an item's disks cost a month in USD, None where that isn't known."""
        own = [disk.month for disk in self.disks if item.id in disk.of]
        known = [cost for cost in (item.month, *own) if cost is not None]
        return sum(known) if known else None


def sweep(provider: Provider) -> Swept:
    """Return what an account has. It never raises: `why` says what went wrong."""
    swept = Swept(provider.name)
    try:
        swept.boxes, swept.disks = provider.boxes(), provider.disks()
    except NoAnswer as error:
        swept.why, swept.is_set_up = str(error), not isinstance(error, NotSetUp)
    jobs = known_jobs.every()
    swept.explained = {box.id: explain(box, jobs) for box in swept.boxes}
    return swept


def explain(item: Item, jobs: list[Known]) -> str:
    """Return the run from here that a box of a list is there for, '' for none known."""
    for rental in ledger.still_open():
        if not item.is_at(rental.address) and item.id not in ledger.ids_of(rental.address):
            continue
        runs = [job.name for job in jobs if job.address == rental.address
                and (item.created is None or job.at >= item.created - CLOCKS)]  # fmt: skip
        if runs:
            return f"{shown(runs[-1], 60)} on {shown(rental.name, 60)}"
    return ""


def as_text(swept: Swept) -> str:
    """Return what was found, for a terminal."""
    name = swept.provider
    if swept.why:
        what = "what it bills isn't known" if swept.is_set_up else "not asked"
        return f"{what}: {swept.why}"
    here = sum(box.standing != "ended" for box in swept.boxes)
    counts = f"{here} box{'' if here == 1 else 'es'}"
    out = [f"{name}: {counts}, {len(swept.unexplained)} that no run from here explains"]
    for box in swept.unexplained:
        cost = "" if box.hourly is None else f", {box.hourly:.2f} USD an hour"
        out.append(f"    {_named(box)}: {box.state or 'no state'}{_since(box)}{cost}")
    for box in swept.stopped:
        out.append(f"    {_named(box)}: {box.state}, its disk may be billed{_month(swept, box)}")
    out += [f"    disk {_named(disk)}: no box has it{_month(swept, disk)}" for disk in swept.loose]
    return "\n".join(out)


def _named(item: Item) -> str:
    return f"{item.id}{f' ({item.name})' if item.name else ''}" + (
        f" in {item.region}" if item.region else ""
    )


def _since(box: Item) -> str:
    if box.created is None:
        return ""
    return f" since {shown_moment(box.created)}"


def _month(swept: Swept, item: Item) -> str:
    cost, size = swept.month(item), "" if item.gb is None else f", {item.gb:.0f} GB"
    return f"{size}, price unknown" if cost is None else f"{size}, about {cost:.2f} USD a month"
