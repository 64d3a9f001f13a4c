"""What an answer about runs says of money: the boxes that may still be billed, and what is left of
the job's budget. All of it is estimated by time and price."""

from __future__ import annotations

from typing import Any

from ..boxes import box as boxes
from ..boxes.box import Box
from . import known_jobs, ledger, status_cost
from .known_jobs import Known
from .ledger import Opened, Price
from .status_reply import Status

NOT_COUNTED = "storage, traffic and rounding aren't counted"
HERE = "local"  # what this machine is called


def about(
    now: float, box: Box | None = None, folder: str = "", status: Status | None = None
) -> dict[str, Any]:
    """Return the fields `cost` and `billed` of an answer.

    `cost`: as `status_cost.cost_of` returns it for the run in a `folder` of the box, or of this
    `status`; None where it isn't known. `billed`: every box that isn't confirmed gone, this one
    first, and this machine where it is a rented one. `now`: seconds since 1970.
    """
    opened = ledger.still_open()
    here = _this_machine(now, asked=box is not None and box.local)
    opened += [here] if here else []
    address = boxes.address(box) if box else ""
    told: dict[str, Any] = {"cost": None}
    if box:
        mine = next((one for one in opened if one.address == address), None)
        known = known_jobs.find(box, folder) if folder else None
        state = status or Status("unknown", box.name, folder)
        told["cost"] = status_cost.cost_of(state, known, mine, now)
    opened.sort(key=lambda one: box is None or one.address != address)
    jobs = _read_newest_jobs() if opened else {}
    return {**told, "billed": [billed(one, now, jobs.get(one.address)) for one in opened]}


def _read_newest_jobs() -> dict[str, Known]:
    """Return the job that was started last on each box from here, by the box's address."""
    return {known.address: known for known in sorted(known_jobs.every(), key=lambda one: one.at)}


def is_rented_here(profile: str = "") -> bool:
    """Whether this machine is a rented box.

    `profile`: the platform of a job that was started on it; '' where none was: then it is told by
    what only boxes of a platform have.
    """
    from ..platforms import profile as profiles  # half a second, which most answers don't need
    from .rendered import is_rented
    from .rendering import platform_of

    platform = profiles.load().get(profile) if profile else platform_of("", HERE)
    return platform is not None and is_rented(platform, HERE)


def is_known_rented(box: Box, folder: str) -> bool:
    """Whether a box is surely paid for: it isn't confirmed gone, and has a price, or its platform
    does nothing but rent. `folder`: of a run on it."""
    known = known_jobs.find(box, folder)
    if box.local:
        return is_rented_here(known.profile if known else "")
    address = boxes.address(box)
    opened = next((one for one in ledger.still_open() if one.address == address), None)
    if opened is None:
        return False
    if status_cost.price_of(known.given if known else {}, opened, "", "", 0):
        return True
    from ..platforms import profile as profiles  # half a second, which most answers don't need

    profile = profiles.load().get((known.profile if known else "") or opened.profile)
    return profile is not None and profile.kind == "rental"


def _this_machine(now: float, *, asked: bool) -> Opened | None:
    """Return this machine where it is a rented box, counted from the newest run's first start.

    `asked`: whether the answer is about it; else only what was started on it tells.
    """
    started = [known for known in known_jobs.every() if not known.address]
    known = max(started, key=lambda known: known.at, default=None)
    profile = known.profile if known else ""
    if profile == HERE or not (asked or known) or not is_rented_here(profile):
        return None
    told = status_cost.price_of(known.given if known else {}, None, "", "", 0)
    since = (known.first_start or known.at) if known else now
    prices = (Price(told["price"], told.get("currency", ""), since),) if told else ()
    return Opened("", HERE, since, profile, prices)


def in_words(told: dict[str, Any], box: str, *, is_rented: bool = False) -> str:
    """Return what `about` told of the box that it was asked of, in a sentence.

    `box`: its name, '' for this machine. `is_rented`: as `is_known_rented` found it just now.
    """
    mine = next((one for one in told["billed"] if one["box"] == (box or HERE)), None)
    if mine is None:
        what = box or "this machine"
        return f"whether {what} is billed isn't known here; end it yourself if you rent it"
    cost = f", about {mine['cost']:.2f} {mine['currency']}".rstrip() if "cost" in mine else ""
    what = box or HERE
    is_billed = "is still billed" if is_rented else "may still be billed"
    said = f"the box {is_billed}: {what}, {mine['hours']:.1f} h{cost} by time and price"
    if told["cost"] and "left" in told["cost"]:
        left = told["cost"]
        said += f"; {left['left']:.2f} and {left['hours_left']:.1f} h left of the budget"
    return f"{said} (estimated)"


def billed(box: Opened, now: float, known: Known | None = None) -> dict[str, Any]:
    """Return what a box that isn't confirmed gone has cost, by time and price, and what is left of
    the budget of its newest job, `known`."""
    cost = box.cost(now)
    told: dict[str, Any] = {"box": box.name, "hours": round(box.hours(now), 2), "estimated": True}
    if cost is not None:
        told |= {"cost": round(cost, 2), "currency": box.currency, "without": NOT_COUNTED}
    left = status_cost.cost_of(Status("unknown", box.name), known, box, now) if known else None
    if left and "left" in left:
        told |= {"left": round(left["left"], 2), "hours_left": left["hours_left"]}
    return told


def add_to(answer: dict[str, Any], now: float, most: int | None = None) -> dict[str, Any]:
    """Return an answer about something else with the field `billed`, where any box may be.

    `most`: of its rows, None: all. The first are those that cost the most so far.
    """
    rows = about(now)["billed"]
    rows.sort(key=lambda row: -row.get("cost", 0.0))
    told = {**answer, "billed": rows[:most]} if rows else answer
    return {**told, "billed_left_out": len(rows) - most} if most and len(rows) > most else told
