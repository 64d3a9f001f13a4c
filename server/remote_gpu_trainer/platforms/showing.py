"""The facts of a platform, for a terminal and as JSON.

Each fact that can't be relied on has a mark that says why.
"""

from __future__ import annotations

from datetime import date

from ..catalogue.freshness import LIMITS
from .profile import Fact, Facts, Profile


def mark(fact: Fact, on: date) -> str:
    """Why not to rely on a fact on this day; '' if it is confirmed and within its limit."""
    if fact.status != "confirmed" or fact.date is None:
        return "unconfirmed"
    days, limit = (on - fact.date).days, LIMITS[fact.kind]
    if days <= limit:
        return ""
    return f"stale: of {fact.date}, {days} days old, the limit is {limit}"


def as_dict(profile: Profile, on: date) -> dict:
    """The profile as JSON, with the `mark` of each fact."""
    shown = profile.model_dump(mode="json")
    for name, fact in shown["facts"].items():
        if fact is not None:
            fact["mark"] = mark(getattr(profile.facts, name), on)
    return shown


def as_text(profile: Profile, on: date) -> str:
    """The facts for a terminal."""
    out = [f"{profile.name}: {profile.title} ({profile.kind})"]
    for name in Facts.model_fields:
        fact = getattr(profile.facts, name)
        if fact is None:
            out.append(f"{name}: none here")
            continue
        doubt = mark(fact, on)
        out.append(f"{name}: [{doubt or f'confirmed {fact.date}'}] {fact.source}")
        for field, value in fact.value.model_dump().items():
            if value not in ("", None, []):
                text = ", ".join(map(str, value)) if isinstance(value, list) else value
                out.append(f"    {text}" if field == "text" else f"    {field}: {text}")
        if fact.note:
            out.append(f"    note: {fact.note}")
    return "\n".join(out)
