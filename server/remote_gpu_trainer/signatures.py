"""Literal texts of an entry against lines of a log: the layer before any ranking.

Lines and literals are compared in one normal form: lower case, single blanks, one kind of quote, no paths or
addresses. A wrapped message still matches, because literals are also looked for in the joined text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .entry import Entry, Signature
from .evidence import Evidence, Line

MAX_CHARS = 2000  # of a line, for regular expressions
MAX_TEXT = 400_000  # characters of a report that are joined
_QUOTES = str.maketrans({c: "'" for c in '`"‘’“”´'})
_BLANKS = re.compile(r"\s+")


def normal(text: str) -> str:
    """The form in which lines and literals are compared."""
    return _BLANKS.sub(" ", text.translate(_QUOTES)).strip().lower()


class Pattern:
    """One compiled signature. Raises re.error for a regular expression that doesn't compile."""

    __slots__ = ("literal", "regex", "source")

    def __init__(self, signature: Signature):
        self.source = signature
        self.literal = "" if signature.is_regex else normal(signature.text)
        self.regex = re.compile(signature.text, re.I) if signature.is_regex else None

    def matches(self, line: str) -> bool:
        """Whether a raw line holds the text."""
        if self.regex:
            return bool(self.regex.search(line[:MAX_CHARS]))
        return self.literal in normal(line)


@dataclass(frozen=True)
class Hit:
    """A signature of `entry_id` found in `line`. `decisive`: the line is one of those that decide, or none does."""

    entry_id: str
    signature: Signature
    line: Line
    decisive: bool


class SignatureIndex:
    """All signatures of a catalogue, compiled once."""

    def __init__(self, entries: tuple[Entry, ...]):
        self.patterns = [(entry.id, Pattern(signature)) for entry in entries for signature in entry.signatures]

    def needles(self) -> list[bytes]:
        """The start of each literal, for the reader of large files."""
        return sorted({p.source.text[:40].encode() for _, p in self.patterns if p.literal})

    def find(self, evidence: Evidence) -> list[Hit]:
        """Every (entry, signature) at most once, at its most decisive line."""
        lines = evidence.lines
        normals = [normal(line.text) for line in lines]
        joined = " ".join(normals)[:MAX_TEXT]
        decisive = {id(line) for line in evidence.decisive[:4]}
        hits = []
        for entry_id, pattern in self.patterns:
            if pattern.literal:
                if pattern.literal not in joined:
                    continue
                at = [i for i, text in enumerate(normals) if pattern.literal in text]
                if not at:  # a message that was wrapped over lines
                    at = [_line_at(normals, joined.find(pattern.literal))]
            else:
                at = [i for i, line in enumerate(lines) if pattern.regex.search(line.text[:MAX_CHARS])]
                if not at:
                    continue
            best = next((i for i in reversed(at) if id(lines[i]) in decisive), at[-1])
            hits.append(Hit(entry_id, pattern.source, lines[best], not decisive or id(lines[best]) in decisive))
        return hits


def _line_at(normals: list[str], place: int) -> int:
    for number, text in enumerate(normals):
        place -= len(text) + 1
        if place < 0:
            return number
    return len(normals) - 1
