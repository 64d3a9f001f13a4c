"""Literal texts of an entry against lines of a log: the layer before any ranking.

Lines and literals are compared in one normal form: lower case, single blanks, one kind of quote, no paths or
addresses. A wrapped message still matches, because literals are also looked for in the joined text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .entry import Entry, Signature
from .evidence import Evidence, Line
from .literals import runs

MAX_CHARS = 2000  # of a line, for regular expressions
MAX_TEXT = 400_000  # characters of a report that are joined
_QUOTES = str.maketrans({c: "'" for c in '`"‘’“”´'})


def normal(text: str) -> str:
    """The form in which lines and literals are compared."""
    return " ".join(text.translate(_QUOTES).lower().split())


class Pattern:
    """One signature. A regular expression is compiled when a line is first held against it; re.error is raised then."""

    __slots__ = ("_regex", "anchor", "hint", "literal", "source")

    def __init__(self, signature: Signature):
        self.source = signature
        self._regex: re.Pattern | None = None
        self.literal = "" if signature.is_regex else normal(signature.text)
        texts = runs(signature.text) if signature.is_regex else [self.literal]
        whole = [word for text in texts for word in _inner_words(text)]
        self.hint = normal(max(texts, key=len))  # a text that it holds
        self.anchor = max(whole, key=len, default="")  # a word that every line of this signature holds; "" when there is none

    def search(self, line: str) -> bool:
        """Whether the regular expression is found in a raw line."""
        if self._regex is None:
            self._regex = re.compile(self.source.text, re.I)
        return bool(self._regex.search(line[:MAX_CHARS]))

    def matches(self, line: str) -> bool:
        """Whether a raw line holds the text."""
        return self.search(line) if self.source.is_regex else self.literal in normal(line)


def _inner_words(run: str) -> list[str]:
    """The words of a text whose both ends lie within it: the first and the last may be parts of longer ones."""
    letters = run.lower().translate(_LETTERS)
    return letters[letters.find(" ") : letters.rfind(" ")].split() if " " in letters else []


class _Letters(dict):
    """Everything but letters to a blank, for str.translate."""

    def __missing__(self, code: int) -> str:
        self[code] = found = chr(code) if chr(code).isalpha() else " "
        return found


_LETTERS = _Letters()


@dataclass(frozen=True)
class Hit:
    """A signature of `entry_id` found in `line`. `decisive`: the line is one of those that decide, or none does."""

    entry_id: str
    signature: Signature
    line: Line
    decisive: bool


class SignatureIndex:
    """All signatures of a catalogue, found by a word that each needs."""

    def __init__(self, entries: tuple[Entry, ...]):
        self.patterns = [(entry.id, Pattern(signature)) for entry in entries for signature in entry.signatures]
        self._by_anchor: dict[str, list[int]] = {}
        for place, (_, pattern) in enumerate(self.patterns):
            self._by_anchor.setdefault(pattern.anchor, []).append(place)

    def needles(self) -> list[bytes]:
        """The start of each literal, for the reader of large files."""
        return sorted({p.source.text[:40].encode() for _, p in self.patterns if p.literal})

    def find(self, evidence: Evidence) -> list[Hit]:
        """Every (entry, signature) at most once, at its most decisive line."""
        lines = evidence.lines
        whole = "\n".join([line.text for line in lines]).translate(_QUOTES).lower()
        normals = [" ".join(text.split()) for text in whole.split("\n")]
        joined = " ".join(normals)[:MAX_TEXT]
        held = {"", *joined.translate(_LETTERS).split()}
        places = sorted(place for anchor in self._by_anchor.keys() & held for place in self._by_anchor[anchor])
        decisive = {id(line) for line in evidence.decisive[:4]}
        hits = []
        for entry_id, pattern in map(self.patterns.__getitem__, places):
            if pattern.literal:
                if pattern.literal not in joined:
                    continue
                at = [i for i, text in enumerate(normals) if pattern.literal in text]
                if not at:  # a message that was wrapped over lines
                    at = [_line_at(normals, joined.find(pattern.literal))]
            else:
                if pattern.hint not in joined:
                    continue
                at = [i for i, text in enumerate(normals) if pattern.anchor in text and pattern.search(lines[i].text)]
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
