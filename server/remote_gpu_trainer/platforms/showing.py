"""The facts of a platform, for a person and as JSON.

Each fact that can't be relied on has a mark that says why. In words it also says whether the age
can change a decision.
"""

from __future__ import annotations

import difflib
import textwrap
from datetime import date

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
}
DELETED = "What that deletes"  # a field of stop_billing, with a heading of its own
FIELDS = {
    "still_billed": "still billed",
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
# What a wrong fact costs: money or data, before anybody sees it; only an amount; or a failed try.
DEAR = ("stop_billing", "self_stop", "survives", "limits", "preemption")
AMOUNTS = ("price", "card_prices", "quota", "egress", "spot")


def mark(fact: Fact, on: date) -> str:
    """Why not to rely on a fact on this day; '' if it is confirmed and within its limit."""
    if fact.status != "confirmed" or fact.date is None:
        return "unconfirmed"
    days, limit = (on - fact.date).days, LIMITS[fact.kind]
    if days <= limit:
        return ""
    return f"stale: of {fact.date}, {days} days old, the limit is {limit}"


def matters(name: str) -> str:
    """Whether the age of a fact can change a decision."""
    if name in DEAR:
        return "a change can cost money or data unseen, so open the page before you rely on it"
    if name in AMOUNTS:
        return "amounts may differ by now, which matters where a choice hangs on one"
    return "no money or data hangs on it, and if it has changed, the first try shows it"


def trust(name: str, fact: Fact, on: date) -> str:
    """In words how far to rely on a fact on this day, with its source."""
    if fact.status != "confirmed" or fact.date is None:
        return f"Unconfirmed, no dated page of the platform says it; {matters(name)}: {fact.source}"
    days, limit = (on - fact.date).days, LIMITS[fact.kind]
    if days <= limit:
        return f"Confirmed {fact.date}: {fact.source}"
    return (
        f"Checked {fact.date}, {days - limit} days past its limit of {limit}; {matters(name)}: "
        f"{fact.source}"
    )


def as_dict(profile: Profile, on: date) -> dict:
    """The profile as JSON, with the `mark` of each fact, and whether its age `matters`."""
    shown = profile.model_dump(mode="json")
    for name, fact in shown["facts"].items():
        if fact is not None:
            fact["mark"] = mark(getattr(profile.facts, name), on)
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
    values = fact.value.model_dump()
    deleted = values.pop("deletes", "")
    out = [title]
    for field, value in values.items():
        if value not in ("", None, []):
            out += _value(name, field, value)
    out += _wrapped(f"note: {fact.note}") if fact.note else []
    out += _wrapped(trust(name, fact, on))
    return [*out, "", DELETED, *_wrapped(deleted)] if deleted else out


def in_a_sentence(platform: str, name: str, fact: Fact | None, on: date) -> str:
    """One fact in a line, with how far to rely on it."""
    if fact is None:
        return f"{platform} {name}: there is none here."
    values = [
        _named(field, _plain(value).rstrip("."))
        for field, value in fact.value.model_dump().items()
        if value not in ("", None, [])
    ]
    return f"{platform} {name}: {'; '.join(values)}. {trust(name, fact, on)}"


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
