"""One entry of the catalogue: what it holds, and the names of its fields. Standard library, Python 3.8.

`grammar.py` reads entries from the Markdown of a page.
"""

from __future__ import annotations

import re
from datetime import date

from ..text.records import record

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
FIELDS = (
    "Symptom", "Root cause", "Fix", "Check", "Tell apart", "Signatures", "Reported as", "False alarm",
    "Applies to", "Needs", "Severity", "Verified", "Sources",
)  # fmt: skip

ID = re.compile(r"(?:K8S|[A-Z]{1,6})[0-9]{1,3}[a-z]?")  # K8S is a family with a digit in its name


@record
class Fault:
    """Something on a page that breaks the grammar. `text` says what was found and what was expected."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


@record
class Signature:
    """A text that a log holds when this failure happens; `is_regex` when it was written as /.../."""

    text: str
    is_regex: bool = False


@record
class Entry:
    """One failure. Texts are Markdown as written; tuples hold the items of the list fields."""

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


@record
class Retired:
    """An id that was given up; a look-up follows it to `successor`."""

    id: str
    successor: str
    path: str = ""
    line: int = 0
