"""What one entry of the catalogue holds, and the names of its fields.

`grammar.py` reads entries from the Markdown of a page. Standard library, Python 3.8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

SEVERITIES = ("blocks", "corrupts", "wastes", "misleads")
REQUIRED = (
    "Symptom",
    "Root cause",
    "Fix",
    "Check",
    "Reported as",
    "Severity",
    "Verified",
    "Sources",
)
OPTIONAL = ("Tell apart", "Signatures", "False alarm", "Applies to", "Needs")
# In the order in which a page has them.
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

    `is_regex`: `text` is a regular expression, written between slashes on the page.
    """

    text: str
    is_regex: bool = False


@dataclass(frozen=True)
class Entry:
    """One failure, as its page describes it.

    Texts are Markdown as written. The list fields are tuples of their items; `tell_apart` holds
    (id, how that one differs). `ran` names the versions that a proof ran on, and is empty when
    the entry was only checked by reading. `section` is the `##` heading above the entry, `path`
    the page below the catalogue's root, `line` the line of the heading.
    """

    id: str
    title: str
    symptom: str
    root_cause: str
    fix: str
    check: str
    reported_as: tuple[str, ...]
    severity: str
    verified: date
    sources: tuple[str, ...]
    tell_apart: tuple[tuple[str, str], ...] = ()
    signatures: tuple[Signature, ...] = ()
    false_alarm: str = ""
    applies_to: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
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
    """An id that is no longer used. A look-up answers with `successor` instead."""

    id: str
    successor: str
    path: str = ""
    line: int = 0
