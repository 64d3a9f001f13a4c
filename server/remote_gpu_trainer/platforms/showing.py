"""The facts of a platform, for a person and as JSON.

Each fact that can't be relied on has a mark that says why. In words it also says whether the age
can change a decision.
"""

from __future__ import annotations

import difflib
import textwrap
from datetime import date

from ..catalogue.facts import AMOUNT, DECIDES, HARDLY, matters
from ..catalogue.freshness import LIMITS
from .profile import Fact, Facts, Profile, ProfileError

WIDTH = 96  # characters of a line of prose; commands aren't wrapped, so that they can be copied
# What a person asks first, with the heading, then the rest.
HEADINGS = {
    "stop_billing": "What stops the bill",
    "survives": "What survives",
    "ssh": "How to get in",
    "self_stop": "Whether a box stops itself",
    "listing": "What runs and is billed",
    "price": "Prices",
    "card_prices": "What one card costs an hour",
    "quota": "Disks and their limits",
    "paths": "Where to put files",
    "limits": "How long a box may run",
    "preemption": "Whether the box is taken away",
    "spot": "The interruptible kind",
    "egress": "Traffic out",
    "network": "Mirrors and proxies",
    "scheduler": "Scheduler",
    "ports": "Ports",
    "container": "Container",
    "driver": "Driver",
    "commands": "What rgt sweep, guard and drill run",
}
DELETED = "What that deletes"  # a field of stop_billing, with a heading of its own
FIELDS = {
    "still_billed": "still billed",
    "while_stopped": "billed while it is off",
    "possible": "possible",
    "stop": "after a stop",
    "destroy": "after the end of the box",
    "outlives": "some storage outlives the box",
    "stop_keeps_disk": "a stopped box keeps its disk",
    "keeps_disk": "the disk is kept",
    "disk_gb": "largest disk of a box, GB",
    "inodes": "most files in the durable place",
    "full": "scp, rsync and port forwarding work",
    "most_hours": "ends after, hours",
    "idle_minutes": "ends when idle for, minutes",
    "on_demand": "boxes on demand can be taken too",
    "notice_seconds": "notice, seconds",
    "form": "how the box learns of it",
    "free": "free",
    "offered": "offered",
    "an_hour": "an hour",
}
COMMANDS = {("stop_billing", "command"), ("self_stop", "command"), ("ssh", "form")}
BARE = ("text", "storage")  # fields that need no name beside the heading
# What to do with a fact that may be out of date, by what hangs on it.
ADVICE = {
    DECIDES: "a change can cost money or data unseen, so open the page before you rely on it",
    AMOUNT: "amounts may differ by now, which matters where a choice hangs on one",
    HARDLY: "no money or data hangs on it, and if it has changed, the first try shows it",
}
GUESS = "a guess"  # what a fact is called that nobody known says
# Who says an unconfirmed fact.
GRADES = {
    "undated page": "from the provider's page, which has no date",
    "sister site": "from the provider's sister site",
    "several users": "from several users",
    "one user": "from one user",
}


def standing(fact: Fact) -> str:
    """What a fact is by its source: confirmed, who says it, unconfirmed, or a guess."""
    if fact.by and fact.status != "confirmed":
        return GRADES[fact.by]
    return GUESS if fact.date is None else fact.status


def mark(name: str, fact: Fact, on: date) -> str:
    """Why not to rely on the fact of this name on this day; '' if it is confirmed and fresh.

    A fact that nobody known says is a guess. The mark of a stale one says whether its age can
    change a decision.
    """
    if fact.by and fact.status != "confirmed":
        return f"{GRADES[fact.by]}{f' ({fact.date})' if fact.date else ''}"
    if fact.date is None:
        return f"{GUESS}, no dated source"
    if fact.status != "confirmed":
        return "unconfirmed"
    limit = LIMITS[fact.kind]
    if (on - fact.date).days <= limit:
        return ""
    return f"stale ({matters(name)}): {_age(fact.date, on)}, the limit is {limit}"


def trust(name: str, fact: Fact, on: date) -> str:
    """In words how far to rely on a fact on this day, with its source."""
    advice = ADVICE[matters(name)]
    if fact.by and fact.status != "confirmed":
        when = f" ({fact.date})" if fact.date else ""
        said = GRADES[fact.by]
        return f"{said[0].upper()}{said[1:]}{when}; {advice}: {fact.source}"
    if fact.date is None:
        return f"{GUESS.capitalize()}: no page with a date says it; {advice}: {fact.source}"
    tried = f"Drilled on a real account on {fact.drilled}. " if fact.drilled else ""
    if name == "commands" and not fact.drilled:
        tried = "Never tried on a real account. "
    read, limit = _age(fact.date, on).capitalize(), LIMITS[fact.kind]
    if fact.status != "confirmed":
        return f"{tried}Unconfirmed, {read.lower()}; {advice}: {fact.source}"
    read = f"{tried}{read}"
    if (on - fact.date).days <= limit:
        return f"{read}: {fact.source}"
    return f"{read}, the limit is {limit}; {advice}: {fact.source}"


def _age(day: date, on: date) -> str:
    """How long ago a page was read: `read 98 days ago (2026-08-20)`."""
    days = (on - day).days
    ago = "today" if days < 1 else "1 day ago" if days == 1 else f"{days} days ago"
    return f"read {ago} ({day})"


def as_dict(profile: Profile, on: date) -> dict:
    """The profile as JSON, with the `mark` of each fact, and whether its age `matters`."""
    shown = profile.model_dump(mode="json")
    for name, fact in shown["facts"].items():
        if fact is not None:
            fact["mark"] = mark(name, getattr(profile.facts, name), on)
            if fact["mark"]:
                fact["matters"] = matters(name)
    return shown


def fact_of(profile: Profile, typed: str) -> tuple[str, Fact | None]:
    """The name and the fact that a person means: `stop_billing` or `stop-billing`.

    Raises ProfileError for an unknown name.
    """
    name = typed.strip().lower().replace("-", "_").replace(" ", "_")
    if name not in Facts.model_fields:
        near = difflib.get_close_matches(name, Facts.model_fields, 1, 0.6)
        hint = f"did you mean {near[0]}?" if near else f"use one of {', '.join(HEADINGS)}"
        raise ProfileError(f"no fact {typed[:40]!r} on a platform's page; {hint}")
    return name, getattr(profile.facts, name)


def as_text(profile: Profile, on: date) -> str:
    """The facts for a person: what stops the bill, what survives, how to get in, then the rest."""
    out = [*textwrap.wrap(f"{profile.name}: {profile.title}", WIDTH)]
    for name in HEADINGS:
        out += ["", *section(name, getattr(profile.facts, name), on)]
    return "\n".join(out)


def section(name: str, fact: Fact | None, on: date) -> list[str]:
    """One fact for a person: its heading, its values, its note, and how far to rely on it."""
    title = f"{HEADINGS[name]} ({name})"
    if fact is None:
        return [f"{title}: there is none here"]
    guess = "" if fact.date or fact.by else f": {GUESS}"
    values = fact.value.model_dump()
    deleted = values.pop("deletes", "")
    out = [title + guess]
    for field, value in values.items():
        if name == "commands":
            value = value.get("command") if isinstance(value, dict) else ""
        if value not in ("", None, []):
            out += _value(name, field, value)
    out += _wrapped(f"note: {fact.note}") if fact.note else []
    out += _wrapped(trust(name, fact, on))
    return [*out, "", DELETED + guess, *_wrapped(deleted)] if deleted else out


def in_a_sentence(platform: str, name: str, fact: Fact | None, on: date) -> str:
    """One fact in a line, with how far to rely on it."""
    if fact is None:
        return f"{platform} {name}: there is none here."
    values = [
        _named(field, _plain(value).rstrip("."))
        for field, value in fact.value.model_dump().items()
        if value not in ("", None, [])
    ]
    said = f"{platform} {name}{'' if fact.date or fact.by else f' ({GUESS})'}"
    return f"{said}: {'; '.join(values)}. {trust(name, fact, on)}"


def _value(name: str, field: str, value: object) -> list[str]:
    """The lines of one value."""
    if (name, field) in COMMANDS:
        return [f"    {line}" for line in str(value).splitlines()]
    text = _plain(value)
    return _wrapped(_named(field, text))


def _named(field: str, text: str) -> str:
    return text if field in BARE else f"{FIELDS.get(field, field)}: {text}"


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(each)}" for name, each in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent="    ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )
