"""How long a fact or an entry counts as fresh, and what is past its limit on a day.

Prices change within weeks, mechanisms within years. This project chose the limits by how soon the
sources of the catalogue had changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from .entry import Entry
from .facts import FactHead

# Days by kind. A profile gives the kind of each fact; `kind_of` gives the kind of an entry.
LIMITS: dict[str, int] = {
    "price": 90,
    "quota": 90,
    "platform": 180,
    "library": 365,
    "mechanism": 730,
}


class BadQuestion(Exception):
    """An option or argument can't be used. The text is one line: what is wrong; what to do."""


@dataclass(frozen=True)
class Stale:
    """A fact or an entry with the date of its last check, and the page to open for the next one."""

    id: str
    what: str
    checked: date
    limit_days: int
    source: str
    matters: str = ""  # of a fact: whether its age can change a decision

    @property
    def due(self) -> date:
        """The last day on which it counts as fresh."""
        return self.checked + timedelta(self.limit_days)

    def past(self, on: date) -> bool:
        """Whether it is stale on this day; the last day of the limit still counts as fresh."""
        return (on - self.checked).days > self.limit_days

    def as_dict(self) -> dict[str, object]:
        """The finding as an item of the JSON answer."""
        item = {
            "id": self.id,
            "what": self.what,
            "checked": self.checked.isoformat(),
            "limit_days": self.limit_days,
            "source": self.source,
        }
        return {**item, "matters": self.matters} if self.matters else item


def read_day(text: str | None) -> date:
    """The date of a YYYY-MM-DD text; today for None. Raises BadQuestion."""
    if text is None:
        return date.today()
    try:
        if text.strip()[4:8:3] == "--":  # newer Pythons also read 20261120 and 2026-W47-5
            return date.fromisoformat(text.strip())
    except ValueError:
        pass
    raise BadQuestion(f"{text[:40]!r} isn't a date; write it as YYYY-MM-DD")


def read_limits(overrides: Iterable[str]) -> dict[str, int]:
    """`LIMITS`, changed by each `KIND=DAYS`. Raises BadQuestion."""
    limits = dict(LIMITS)
    for item in overrides:
        kind, _, days = item.partition("=")
        if kind not in limits or not days.isascii() or not days.isdigit():
            raise BadQuestion(
                f"{item[:40]!r} isn't a limit; write KIND=DAYS with one of {', '.join(limits)}"
            )
        limits[kind] = int(days)
    return limits


def kind_of(entry: Entry) -> str:
    """`platform`, `library` (when `Applies to` names a package) or `mechanism`."""
    if entry.path.startswith("profiles/") or any(
        item.startswith("platform:") for item in entry.applies_to
    ):
        return "platform"
    return "library" if any(":" not in item for item in entry.applies_to) else "mechanism"


def stale_entry(entry: Entry, on: date, limits: Mapping[str, int] = LIMITS) -> Stale | None:
    """The entry as a finding if it is past its limit on this day, otherwise None."""
    finding = Stale(
        entry.id,
        entry.title.replace("`", ""),
        entry.verified,
        limits[kind_of(entry)],
        entry.sources[0] if entry.sources else "",
    )
    return finding if finding.past(on) else None


def stale_fact(fact: FactHead, on: date, limits: Mapping[str, int] = LIMITS) -> Stale | None:
    """The fact as a finding if it is past its limit on this day, otherwise None.

    A fact without a date has no age: it is in doubt, never stale.
    """
    if fact.date is None:
        return None
    finding = Stale(
        fact.id,
        f"{fact.kind} fact of {fact.profile}",
        fact.date,
        limits[fact.kind],
        fact.source,
        fact.matters,
    )
    return finding if finding.past(on) else None


def past(
    entries: Iterable[Entry],
    facts: Iterable[FactHead],
    on: date,
    limits: Mapping[str, int] = LIMITS,
) -> list[Stale]:
    """Everything past its limit on this day, sorted by the day on which it became stale."""
    findings = [stale_entry(entry, on, limits) for entry in entries] + [
        stale_fact(fact, on, limits) for fact in facts
    ]
    return sorted(filter(None, findings), key=lambda finding: (finding.due, finding.id))
