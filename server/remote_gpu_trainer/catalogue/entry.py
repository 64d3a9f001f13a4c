"""An entry of the catalogue: the names of its fields, and how long it counts as fresh.

Prices change within weeks, mechanisms within years. This project chose the limits: each is about
the time after which the sources of the catalogue were found to have changed.

`grammar.py` reads entries from the Markdown of a page. scripts/check_staleness.py imports this
module: Python 3.8 and its standard library suffice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from ..text import UserError

SEVERITIES = ("blocks", "corrupts", "wastes", "misleads")
DOMAINS = ("code", "data", "environment", "box", "platform")
RETRIES = ("pointless", "may help", "helps after …")
RETRY = re.compile(r"pointless|may help|helps after \S.*")
ROLES = ("root", "cascade", "advice")
SEEN_BY = ("probe",)  # scripts/probe.py, in the first steps of a training
REQUIRED = (
    "Symptom",
    "Root cause",
    "Fix",
    "Check",
    "Reported as",
    "Domain",
    "Retry",
    "Severity",
    "Verified",
    "Sources",
)
OPTIONAL = (
    "Tell apart",
    "Signatures",
    "False alarm",
    "Applies to",
    "Needs",
    "Seen by",
)
# In their order on a page.
FIELDS = (
    "Symptom",
    "Root cause",
    "Fix",
    "Check",
    "Tell apart",
    "Signatures",
    "Reported as",
    "False alarm",
    "Applies to",
    "Needs",
    "Seen by",
    "Domain",
    "Retry",
    "Severity",
    "Verified",
    "Sources",
)

ID = re.compile(r"(?:K8S|[A-Z]{1,6})[0-9]{1,3}[a-z]?")  # K8S is a family with a digit in its name


@dataclass(frozen=True)
class Fault:
    """Something on a page that breaks the grammar. `text` says what is wrong and what to write."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Signature:
    """A text that a log holds when this failure happens.

    `is_regex`: `text` is a regular expression, which the page has between slashes. `role`: `root`
    if the text alone names the cause; `cascade` if others print it because of the failure;
    `advice` if it is a library's suggestion, which names no cause.
    """

    text: str
    is_regex: bool = False
    role: str = "root"


@dataclass(frozen=True)
class Entry:
    """One failure, as its page describes it.

    Texts are Markdown as written. The list fields are tuples of their items; `tell_apart` holds
    (id, how that one differs). `ran` names the versions that a proof ran on, and is empty when
    the entry was only checked by reading. `seen_by` names the programs of SEEN_BY that can show the
    failure where no log does. `section` is the `##` heading above the entry, `path`
    the page below the catalogue's root, `line` the line of the heading. `domain` is one of
    DOMAINS, where the cause lies; `retry` has a form of RETRIES, whether the same run again helps.
    """

    id: str
    title: str
    symptom: str
    root_cause: str
    fix: str
    check: str
    reported_as: tuple[str, ...]
    domain: str
    retry: str
    severity: str
    verified: date
    sources: tuple[str, ...]
    tell_apart: tuple[tuple[str, str], ...] = ()
    signatures: tuple[Signature, ...] = ()
    false_alarm: str = ""
    applies_to: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    seen_by: tuple[str, ...] = ()
    ran: str = ""
    section: str = ""
    path: str = ""
    line: int = 0
    markdown: str = ""

    @property
    def family(self) -> str:
        """The letters of the id: `O` of `O7`."""
        return self.id.rstrip("abcdefghijklmnopqrstuvwxyz").rstrip("0123456789")


@dataclass(frozen=True)
class Retired:
    """An id that is no longer used; `successor` replaces it."""

    id: str
    successor: str
    path: str = ""
    line: int = 0


KINDS = ("platform", "price", "quota")
_NAME = re.compile(r"  ([a-z_]+):\s*(null|~)?\s*$")
_FIELD = re.compile(r"    (source|date|status|kind):\s*(.*?)\s*$")


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


def split(text: str) -> tuple[str, str]:
    """(front matter, body) of a page. The front matter is empty when the page has none."""
    text = text.replace("\r\n", "\n")
    if not text.startswith("---\n"):
        return "", text
    head, mark, body = text[4:].partition("\n---\n")
    return (head, body) if mark else ("", text)


def heads(text: str, profile: str) -> list[FactHead]:
    """The heads of all facts of a page. Raises FactError for a bad date or kind."""
    found: list[FactHead] = []
    inside, name, fields = False, "", {}

    def close() -> None:
        if name and fields:
            found.append(_head(profile, name, fields))

    for line in split(text)[0].split("\n"):
        if line[:1].strip():
            inside = line.startswith("facts:")
            continue
        if not inside:
            continue
        start = _NAME.match(line)
        if start:
            close()
            name, fields = start[1], {}
            continue
        field = _FIELD.match(line)
        if field and name:
            fields[field[1]] = _bare(field[2])
    close()
    return found


def value(head: str, name: str, field: str = "") -> str | None:
    """The value of a fact, or of one of its fields, if it is on one line of the front matter.

    None if it needs a YAML parser: a list, a text of several lines, an escaped quote.
    """
    key = f"      {field}:" if field else "    value:"
    deeper = " " * (len(key) - len(key.lstrip()) + 1)
    inside = False
    lines = [*head.partition("\nfacts:")[2].split("\n")[1:], ""]
    for at, line in enumerate(lines[:-1]):
        if line[:1].strip():
            return None
        start = _NAME.match(line)
        if start:
            inside = start[1] == name
        elif inside and line.startswith(key):
            told = line[len(key) :].strip()
            if (
                lines[at + 1].startswith(deeper)
                or told in ("", "null", "~")
                or any(mark in told for mark in "[{\\|>")
                or "''" in told
            ):
                return None
            return _bare(told)
    return None


def _bare(text: str) -> str:
    """A plain YAML value without its quotes or the comment after it."""
    if text.startswith(("'", '"')) and text.find(text[0], 1) > 0:
        return text[1 : text.find(text[0], 1)]
    return text.split(" #")[0].strip()


def _head(profile: str, name: str, fields: dict[str, str]) -> FactHead:
    told, kind = fields.get("date", ""), fields.get("kind", KINDS[0])
    place = f"profiles/{profile}.md: {name}"
    if kind not in KINDS:
        raise FactError(f"{place}: unknown kind {kind!r}; write one of {', '.join(KINDS)}")
    try:
        day = None if told in ("", "null", "~") else date.fromisoformat(told)
    except ValueError:
        raise FactError(f"{place}: {told!r} isn't a date; write YYYY-MM-DD or null") from None
    return FactHead(
        profile, name, fields.get("source", ""), day, fields.get("status", "unconfirmed"), kind
    )


def pages(root: Path) -> list[Path]:
    """The pages that hold facts, by name; `_schema.md` holds none."""
    return sorted((root / "profiles").glob("[a-z]*.md"))


def read_all(root: Path) -> list[FactHead]:
    """The heads of every page under `root`/profiles, by name. Raises FactError."""
    return [
        head for path in pages(root) for head in heads(path.read_text(encoding="utf-8"), path.stem)
    ]


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

    @property
    def due(self) -> date:
        """The last day on which it counts as fresh."""
        return self.checked + timedelta(self.limit_days)

    def past(self, on: date) -> bool:
        """Whether it is stale on this day; the last day of the limit still counts as fresh."""
        return (on - self.checked).days > self.limit_days

    def as_dict(self) -> dict[str, object]:
        """The finding as an item of the JSON answer."""
        return {
            "id": self.id,
            "what": self.what,
            "checked": self.checked.isoformat(),
            "limit_days": self.limit_days,
            "source": self.source,
        }


def read_day(told: str | None) -> date:
    """The date of a YYYY-MM-DD text; today for None. Raises BadQuestion."""
    if told is None:
        return date.today()
    try:
        if told.strip()[4:8:3] == "--":  # newer Pythons also read 20261120 and 2026-W47-5
            return date.fromisoformat(told.strip())
    except ValueError:
        pass
    raise BadQuestion(f"{told[:40]!r} isn't a date; write it as YYYY-MM-DD")


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
    found = Stale(
        entry.id,
        entry.title.replace("`", ""),
        entry.verified,
        limits[kind_of(entry)],
        entry.sources[0] if entry.sources else "",
    )
    return found if found.past(on) else None


def stale_fact(fact: FactHead, on: date, limits: Mapping[str, int] = LIMITS) -> Stale | None:
    """The fact as a finding if it is past its limit on this day, otherwise None.

    A fact without a date has no age: it is in doubt, never stale.
    """
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
    """Everything past its limit on this day, sorted by the day on which it became stale."""
    found = [stale_entry(entry, on, limits) for entry in entries] + [
        stale_fact(fact, on, limits) for fact in facts
    ]
    return sorted((item for item in found if item), key=lambda item: (item.due, item.id))
