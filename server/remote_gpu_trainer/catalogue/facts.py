"""What the facts of a platform's page have in common: the page, the source, the date and the kind.

`front_matter.py` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from ..text import UserError

KINDS = ("platform", "price", "quota")
HEAD_FIELDS = ("source", "date", "status", "kind")
# What a change of a fact does to a decision that rests on it: it costs money or data before anybody
# sees it, it changes an amount, or hardly anything, because the first try shows it.
DECIDES, AMOUNT, HARDLY = "decides", "amount", "hardly"
_MATTERS = {
    **dict.fromkeys(
        ("stop_billing", "self_stop", "survives", "limits", "preemption", "commands"), DECIDES
    ),
    **dict.fromkeys(("price", "card_prices", "quota", "egress", "spot"), AMOUNT),
}


class FactError(UserError):
    """The facts of a page can't be read. The text names the page and the fact."""


@dataclass(frozen=True)
class FactHead:
    """Where a fact comes from and how old it is. `date` is None if no dated page states it."""

    profile: str
    name: str
    source: str
    date: date | None
    status: str
    kind: str

    @property
    def id(self) -> str:
        """The name that answers use: PLATFORM.fact."""
        return f"{self.profile}.{self.name}"

    @property
    def matters(self) -> str:
        """Whether its age can change a decision: see `matters`."""
        return matters(self.name)


def matters(name: str) -> str:
    """Whether the age of a fact of this name can change a decision: DECIDES, AMOUNT or HARDLY."""
    return _MATTERS.get(name, HARDLY)


def fact_head(profile: str, name: str, fields: Mapping[str, str]) -> FactHead:
    """The head of a fact from its HEAD_FIELDS as texts. Raises FactError for a bad date or kind."""
    kind, day = fields.get("kind", KINDS[0]), fields.get("date", "")
    place = f"profiles/{profile}.md: {name}"
    if kind not in KINDS:
        raise FactError(f"{place}: unknown kind {kind!r}; write one of {', '.join(KINDS)}")
    try:
        checked = None if day in ("", "null", "~") else date.fromisoformat(day)
    except ValueError:
        raise FactError(f"{place}: {day!r} isn't a date; write YYYY-MM-DD or null") from None
    return FactHead(
        profile, name, fields.get("source", ""), checked, fields.get("status", "unconfirmed"), kind
    )


def split(text: str) -> tuple[str, str]:
    """(front matter, body) of a page. The front matter is empty when the page has none."""
    text = text.replace("\r\n", "\n")
    if not text.startswith("---\n"):
        return "", text
    head, mark, body = text[4:].partition("\n---\n")
    return (head, body) if mark else ("", text)


def pages(root: Path) -> list[Path]:
    """The pages that hold facts, by name; `_schema.md` holds none."""
    return sorted((root / "profiles").glob("[a-z]*.md"))
