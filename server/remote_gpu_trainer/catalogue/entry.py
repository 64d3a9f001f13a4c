"""An entry of the catalogue: its fields, their names on a page, and the values they may have.

`grammar.py` reads entries from the Markdown of a page. scripts/check_staleness.py imports this
module: Python 3.8 and its standard library suffice.
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


def family_of(entry_id: str) -> str:
    """The letters of an id: `O` of `O7` and of `O7a`."""
    return entry_id.rstrip("abcdefghijklmnopqrstuvwxyz").rstrip("0123456789")


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
        return family_of(self.id)


@dataclass(frozen=True)
class Retired:
    """An id that is no longer used; `successor` replaces it."""

    id: str
    successor: str
    path: str = ""
    line: int = 0
