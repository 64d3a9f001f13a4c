"""What an answer about runs says of money: the boxes that may still be billed, and what is left of
the job's budget. All of it is estimated by time and price."""

from __future__ import annotations

from typing import Any

from ..boxes import box as boxes
from ..boxes.box import Box
from . import known_jobs, ledger, status_cost
from .ledger import Opened
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
    return {**told, "billed": [billed(one, now) for one in opened]}


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


def _this_machine(now: float, *, asked: bool) -> Opened | None:
    """Return this machine where it is a rented box, counted from the newest run's first start.

    `asked`: whether the answer is about it; else only what was started on it tells.
    """
    started = [known for known in known_jobs.every() if not known.address]
    known = max(started, key=lambda known: known.at, default=None)
    profile = known.profile if known else ""
    if profile == HERE or not (asked or known) or not is_rented_here(profile):
        return None
    price = status_cost.price_of(known.given if known else {}, None, "", "", 0) or {}
    since = (known.first_start or known.at) if known else now
    return Opened("", HERE, since, profile, price.get("price"), price.get("currency", ""))


def in_words(told: dict[str, Any], box: str) -> str:
    """Return what `about` told of the box that it was asked of, in a sentence.

    `box`: its name, '' for this machine.
    """
    mine = next((one for one in told["billed"] if one["box"] == (box or HERE)), None)
    if mine is None:
        what = box or "this machine"
        return f"whether {what} is billed isn't known here; end it yourself if you rent it"
    cost = f", about {mine['cost']:.2f} {mine['currency']}".rstrip() if "cost" in mine else ""
    what = box or HERE
    said = f"the box may still be billed: {what}, {mine['hours']:.1f} h{cost} by time and price"
    if told["cost"] and "left" in told["cost"]:
        left = told["cost"]
        said += f"; {left['left']:.2f} and {left['hours_left']:.1f} h left of the budget"
    return f"{said} (estimated)"


def billed(box: Opened, now: float) -> dict[str, Any]:
    """Return what a box that isn't confirmed gone has cost, by time and price."""
    cost = box.cost(now)
    told: dict[str, Any] = {"box": box.name, "hours": round(box.hours(now), 2), "estimated": True}
    if cost is not None:
        told |= {"cost": round(cost, 2), "currency": box.currency, "without": NOT_COUNTED}
    return told
