"""How long a thing may go unchecked, by its kind, and what is past that. Standard library, Python 3.8.

Prices change by the week and mechanisms by the decade. The limits are ours: about the time after which the pages that this catalogue was
made from were found to differ from what circulates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta

from ..catalogue.entry import Entry
from ..catalogue.front_matter import FactHead
from ..text.records import record

# Kind: days. Kinds of facts stand in their pages, those of entries follow from `kind_of`.
LIMITS: dict[str, int] = {
    "price": 90,
    "quota": 90,
    "platform": 180,
    "library": 365,
    "mechanism": 730,
}


class BadQuestion(Exception):
    """The question can't be answered as it is. One line: what was found, what was expected."""


@record
class Stale:
    """A fact or an entry that was last checked more than `limit_days` ago. `source`: the page to open again."""

    id: str
    what: str
    checked: date
    limit_days: int
    source: str

    @property
    def due(self) -> date:
        """The last day on which it still counted as fresh."""
        return self.checked + timedelta(self.limit_days)

    def past(self, on: date) -> bool:
        """Whether it is stale on that day. On the limit itself it still counts."""
        return (on - self.checked).days > self.limit_days

    def as_dict(self) -> dict[str, object]:
        """The finding as the answers hold it."""
        return {
            "id": self.id,
            "what": self.what,
            "checked": self.checked.isoformat(),
            "limit_days": self.limit_days,
            "source": self.source,
        }


def read_day(told: str | None) -> date:
    """A day as YYYY-MM-DD; today when none is told. Raises BadQuestion."""
    if told is None:
        return date.today()
    try:
        if told.strip()[4:8:3] == "--":  # newer Pythons also read 20261120 and 2026-W47-5
            return date.fromisoformat(told.strip())
    except ValueError:
        pass
    raise BadQuestion(f"found day {told[:40]!r}, expected YYYY-MM-DD")


def read_limits(overrides: Iterable[str]) -> dict[str, int]:
    """The table of limits with `KIND=DAYS` put over it. Raises BadQuestion."""
    limits = dict(LIMITS)
    for item in overrides:
        kind, _, days = item.partition("=")
        if kind not in limits or not days.isascii() or not days.isdigit():
            raise BadQuestion(
                f"found limit {item[:40]!r}, expected KIND=DAYS with one of {', '.join(limits)}"
            )
        limits[kind] = int(days)
    return limits


def kind_of(entry: Entry) -> str:
    """What an entry speaks about: a platform, a library (any name in `Applies to`), else a mechanism."""
    if entry.path.startswith("profiles/") or any(
        item.startswith("platform:") for item in entry.applies_to
    ):
        return "platform"
    return "library" if any(":" not in item for item in entry.applies_to) else "mechanism"


def stale_entry(entry: Entry, on: date, limits: Mapping[str, int] = LIMITS) -> Stale | None:
    """The entry as a finding when it is past its limit on that day, else None. On the limit itself it still counts."""
    found = Stale(
        entry.id,
        entry.title.replace("`", ""),
        entry.verified,
        limits[kind_of(entry)],
        entry.sources[0] if entry.sources else "",
    )
    return found if found.past(on) else None


def stale_fact(fact: FactHead, on: date, limits: Mapping[str, int] = LIMITS) -> Stale | None:
    """The fact as a finding when it is past its limit on that day. One without a date has no age: it is in doubt, not stale."""
    if fact.date is None:
        return None
    found = Stale(
        fact.id, f"{fact.kind} fact of {fact.profile}", fact.date, limits[fact.kind], fact.source
    )
    return found if found.past(on) else None


def past(
    entries: Iterable[Entry],
    facts: Iterable[FactHead],
    on: date,
    limits: Mapping[str, int] = LIMITS,
) -> list[Stale]:
    """Everything past its limit, what came due first at the head."""
    found = [stale_entry(entry, on, limits) for entry in entries] + [
        stale_fact(fact, on, limits) for fact in facts
    ]
    return sorted((item for item in found if item), key=lambda item: (item.due, item.id))
