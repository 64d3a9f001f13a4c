"""An entry of the catalogue: its fields, their names on a page, and the values they may have.

`grammar.py` reads entries from the Markdown of a page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

SEVERITIES = ("blocks", "corrupts", "wastes", "misleads")
DOMAINS = ("code", "data", "environment", "box", "platform")
RETRIES = ("pointless", "may help", "helps after …")
RETRY = re.compile(r"pointless|may help|helps after \S.*")
ROLES = ("root", "cascade", "advice")
# What Verified says before the versions, and the fields that the proof ran.
RAN = {
    "ran": ("Check", "Fix"),
    "Check ran, Fix read": ("Check",),
    "Check read, Fix ran": ("Fix",),
}
SEEN_BY = ("probe",)  # scripts/probe.py, which watches the first steps of a training run
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
HINT = "<optional: "  # begins what the form of a new entry says in a field that may be deleted
# All fields, in the order that a page must have.
FIELDS = (
    "Symptom",
    "Check",
    "Fix",
    "Tell apart",
    "False alarm",
    "Root cause",
    "Signatures",
    "Reported as",
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


def family_of(entry_id: str) -> str:
    """Return the family of an id: `O` for `O7` and `O7a`, `K8S` for `K8S12`."""
    return entry_id.rstrip("abcdefghijklmnopqrstuvwxyz").rstrip("0123456789")


@dataclass(frozen=True)
class Fault:
    """Something on a page to correct. `text` says what is wrong and what to write instead."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Signature:
    """A text that a log holds when this failure happens.

    With `is_regex`, `text` is a regular expression; the page writes it between slashes. `role` is
    one of ROLES: `root` if the text alone names the cause, `cascade` if other ranks print it as a
    consequence of the failure, and `advice` if it is a library's suggestion, which names no cause.
    """

    text: str
    is_regex: bool = False
    role: str = "root"


@dataclass(frozen=True)
class Entry:
    """One failure, as its page describes it.

    Texts are Markdown, exactly as the page has them.

    `domain`, one of DOMAINS, is where the cause lies. `retry` says whether it helps to run the same
    thing again, in one of the forms of RETRIES. `tell_apart` holds pairs of a neighbour's id and
    how that entry differs. `seen_by` names the programs of SEEN_BY that can show the failure when
    no log does. `verified` is the day of the last check. `ran_fields` names the fields that the
    entry's proof ran, `Check` or `Fix` or both, and `ran` the versions on which it did. Both are
    empty if the entry was checked only by reading.

    `section` is the `##` heading above the entry, `path` is the page relative to the catalogue's
    root, and `line` is the line of the heading.
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
    ran_fields: tuple[str, ...] = ()
    ran: str = ""
    section: str = ""
    path: str = ""
    line: int = 0
    markdown: str = ""

    @property
    def how_verified(self) -> str:
        """How the entry was checked, as its page writes it behind the date."""
        how = next((text for text, fields in RAN.items() if fields == self.ran_fields), "read")
        return f"{how} ({self.ran})" if self.ran else how

    @property
    def family(self) -> str:
        """The family of the id: `O` for `O7`."""
        return family_of(self.id)


@dataclass(frozen=True)
class Retired:
    """An id that is no longer used. `successor` is the id that replaces it."""

    id: str
    successor: str
    path: str = ""
    line: int = 0
