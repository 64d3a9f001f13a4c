"""What a run's box has cost so far, and will have cost at the deadline."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ..boxes import box as boxes
from ..boxes.box import Box
from ..platforms.profile import Profile
from ..runner.deadline import after
from ..text.money import read_money
from ..text.spans import shown_seconds
from . import known_jobs, ledger, rendered, run_ends
from .job import Job
from .job_values import WrongValue, read_rented
from .sent_job import end_seconds
from .status_reply import Status

SPENT = 90.0  # seconds of a box that are worth a word


def add(box: Box, status: Status, now: float) -> None:
    """Add to a status the cost of its box, and what its job asked for, where that is known here.

    The time counts from the first command that reached the box, by the ledger; for a machine that
    isn't in it from the run's first start. `now`: seconds since 1970.
    """
    known = known_jobs.find(box, status.dir) if status.dir else None
    given = known.given if known else {}
    status.wanted = wanted_words(given)
    address = boxes.address(box)
    opened = next((one for one in ledger.still_open() if one.address == address), None)
    status.cost = cost_of(status, known, opened, now)


def cost_of(
    status: Status, known: known_jobs.Known | None, opened: ledger.Opened | None, now: float
) -> dict[str, Any] | None:
    """Return the cost of a run's box; None where its price or its first contact isn't known.

    `known`: the run's job. `opened`: what the ledger has of the box. All of it is estimated by time
    and price: storage, traffic and rounding aren't counted. `left` of the job's budget.
    """
    profile = (known.profile if known else "") or (opened.profile if opened else "")
    given = known.given if known else {}
    rate = price_of(given, opened, profile, status.gpu_name, len(status.gpus))
    since = _rented(given) or (opened.since if opened else status.first_start)
    if rate is None or since is None or since > now:
        return None
    price = rate["price"]
    so_far = round(price * (now - since) / 3600, 4)
    cost = {**rate, "estimated": True, "since": since, "so_far": so_far}
    if budget := read_money(given.get("budget")):
        cost["budget"] = budget.amount
        cost["left"] = round(max(0.0, budget.amount - so_far), 4)
        cost["hours_left"] = round(cost["left"] / price, 2)
    if status.state in ("alive", "stalled") and status.deadline and status.deadline > now:
        cost["at_deadline"] = round(price * (status.deadline - since) / 3600, 4)
    return cost


def worst(job: Job, platform: Profile, box: Box, began: float, now: float) -> str:
    """Return what the box of a run costs at most, in words; '' where no price is known.

    It is an estimate by time and price. A deadline or a budget is where a run begins to end: its
    saves, its copy and its end command come after that. `began`: the run's first start.
    """
    if box.local:
        return "not counted: this machine"
    until, address = after(job.ends, began), boxes.address(box)
    opened = next((one for one in ledger.still_open() if one.address == address), None)
    given = {"price": str(job.hourly)} if job.hourly else {}
    rate = price_of(given, opened, platform.name, "", job.gpus)
    if rate is None or until is None:
        return ""
    price, unit = rate["price"], f" {rate['currency']}" if rate.get("currency") else ""
    ending = rendered.end_of(job, platform)
    ends = bool(ending["end"]["command"]) and "deadline" in job.at_end.when
    first = opened.since if opened and job.rented is None else run_ends.paid_since(job, began)
    seconds, spent = max(0.0, until - now), max(0.0, now - first)
    parts = f"{price:g}{unit} an hour, {shown_seconds(seconds)} to its end at the latest"
    if ends:
        more = end_seconds(job.model_dump())
        parts += f" and {shown_seconds(more)} to save, copy and end the box"
        seconds += more
    whole = f", {price * (seconds + spent) / 3600:.2f}{unit} in all" if spent > SPENT else ""
    rest = ""
    if not ends:
        rest = "; then nothing ends the box, and it costs more until you do"
    elif not ending["end"]["keeps_disk"] and not ending["stop"]["command"]:
        rest = "; while nothing proves that all is safe the box stays on, and costs more"
    return f"{price * seconds / 3600:.2f}{unit} from now on{whole} ({parts}), estimated{rest}"


def price_of(
    given: dict[str, Any], opened: ledger.Opened | None, profile: str, card: str, cards: int
) -> dict[str, Any] | None:
    """Return the price of a box for an hour, `by` whom, and its currency where that is known; None
    for no price.

    `given`: the job. `card`: what the box's cards are called, '' while unknown.
    """
    return _of_job(given) or _of_ledger(opened) or _of_profile(profile, card, cards)


def _of_job(given: dict[str, Any]) -> dict[str, Any] | None:
    price = read_money(given.get("price"))
    if price is None:
        return None
    rate = {"price": price.amount, "by": "by the job"}
    return {**rate, "currency": price.currency} if price.currency else rate


def _rented(given: dict[str, Any]) -> float | None:
    """Return since when the job says that its box is paid for, in seconds since 1970."""
    with suppress(WrongValue):
        kind, _, at = read_rented(given.get("rented")).partition(":")
        return float(at) if kind == "at" else None
    return None


def _of_ledger(opened: ledger.Opened | None) -> dict[str, Any] | None:
    if opened is None or (price := read_money(opened.price)) is None:
        return None
    rate = {"price": price.amount, "by": "by the ledger"}
    return {**rate, "currency": opened.currency} if opened.currency else rate


def _of_profile(name: str, gpu_name: str, cards: int) -> dict[str, Any] | None:
    """The dated price of such cards on the platform's page, for as many as the box has."""
    if not name or not gpu_name:
        return None
    from ..platforms import profile as profiles  # half a second, which most runs don't need
    from ..platforms.cards import SeveralCards, gpu_named

    profile = profiles.load().get(name)
    fact = profile.facts.card_prices if profile else None
    card = None
    with suppress(SeveralCards):
        card = gpu_named(gpu_name)
    if fact is None or card is None or card[0] not in fact.value.an_hour:
        return None
    price = fact.value.an_hour[card[0]] * max(cards, 1)
    by = f"by {name}'s page of {fact.date}"
    return {"price": price, "by": by, "currency": fact.value.currency}


def wanted_words(given: dict[str, Any]) -> str:
    """What a job asked for, in a line."""
    from ..text.masking import shown

    command = given.get("command")
    words = [" ".join(map(str, command)) if isinstance(command, list) else str(command or "")]
    gpus = given.get("gpus")
    words += [f"{gpus} GPU{'' if gpus == 1 else 's'}"] if isinstance(gpus, int) and gpus else []
    words += [f"{given['nodes']} nodes"] if isinstance(given.get("nodes"), int) else []
    words += [f"deadline {given['deadline']}"] if given.get("deadline") else []
    return shown(", ".join(word for word in words if word), 200)
