"""Literal texts of an entry against lines of a log: the layer before any ranking.

Lines and literals are compared in one normal form: lower case, single blanks, one kind of quote, no paths or
addresses. A wrapped message still matches, because literals are also looked for in the joined text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..logs.judging import Evidence
from ..logs.lines import Line
from ..text.records import record
from .entry import Signature
from .literals import runs

MAX_CHARS = 2000  # of a line, for regular expressions
MAX_TEXT = 400_000  # characters of a report that are joined
_QUOTES = '`"‘’“”´'


def normal(text: str) -> str:
    """The form in which lines and literals are compared."""
    return " ".join(_one_quote(text).lower().split())


def _single_blanks(text: str) -> list[str]:
    """The lines of a text, as `normal` leaves them; of a report's lines, whose only white space is blanks and tabs. All at once is faster than line by line."""
    text = text.replace("\t", " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return list(map(str.strip, text.split("\n")))


def _one_quote(text: str) -> str:
    """Every kind of quote as the plain one. To replace each is faster than one table for all: most texts hold none of them."""
    for quote in _QUOTES:
        text = text.replace(quote, "'")
    return text


class Pattern:
    """One signature. A regular expression is compiled when a line is first held against it; re.error is raised then."""

    __slots__ = ("_regex", "anchor", "hint", "literal", "part", "source", "words")

    def __init__(self, signature: Signature):
        self.source = signature
        self._regex: re.Pattern | None = None
        self.literal = "" if signature.is_regex else normal(signature.text)
        texts = runs(signature.text) if signature.is_regex else [self.literal]
        self.words = frozenset(
            [word for text in texts for word in _inner_words(text)]
        )  # each line of this signature holds them all
        self.hint = (
            normal(max(texts, key=len)) if signature.is_regex else self.literal
        )  # a text that it holds
        self.anchor = max(
            self.words, key=_longest, default=""
        )  # one of them; "" when there is none
        self.part = (
            ""
            if self.words
            else max(self.hint.translate(_LETTERS).split(), key=_longest, default="")
        )  # letters within a word of each such line

    def search(self, line: str) -> bool:
        """Whether the regular expression is found in a raw line."""
        if self._regex is None:
            self._regex = re.compile(self.source.text, re.I)
        return bool(self._regex.search(line[:MAX_CHARS]))

    def matches(self, line: str) -> bool:
        """Whether a raw line holds the text."""
        return self.search(line) if self.source.is_regex else self.literal in normal(line)


def _longest(word: str) -> tuple[int, str]:
    return len(word), word


def _words_of(lines: list[str]) -> list[str]:
    """The words of letters alone."""
    return " ".join(lines)[:MAX_TEXT].translate(_LETTERS).split()


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


@record
class Hit:
    """A signature of `entry_id` found in `line`. `decisive`: the line is one of those that decide, or none does."""

    entry_id: str
    signature: Signature
    line: Line
    decisive: bool

    @property
    def text(self) -> str:
        """What the line holds: the literal, or what the regular expression found in it."""
        found = (
            re.search(self.signature.text, self.line.text[:MAX_CHARS], re.I)
            if self.signature.is_regex
            else None
        )
        return found[0] if found else self.signature.text


class SignatureIndex:
    """All signatures of a catalogue, found by a word that each needs."""

    def __init__(self, signatures: Iterable[tuple[str, Iterable[Signature]]]):
        """`signatures`: (id, its signatures) of each entry."""
        self.patterns = [
            (id, Pattern(signature)) for id, found in signatures for signature in found
        ]
        self._by_anchor: dict[str, list[int]] = {}
        for place, (_, pattern) in enumerate(self.patterns):
            self._by_anchor.setdefault(pattern.anchor, []).append(place)

    def needles(self) -> list[bytes]:
        """The start of each literal, for the reader of large files."""
        return sorted({p.source.text[:40].encode() for _, p in self.patterns if p.literal})

    def find(self, evidence: Evidence) -> list[Hit]:
        """Every (entry, signature) at most once, at its most decisive line."""
        lines = evidence.lines
        whole = _one_quote("\n".join([line.text for line in lines])).lower()
        normals = _single_blanks(whole)
        joined = " ".join(normals)[:MAX_TEXT]
        # Apart, because a table is ten times slower on a text with a single letter beyond ASCII.
        held = {
            "",
            *_words_of([text for text in normals if text.isascii()]),
            *_words_of([text for text in normals if not text.isascii()]),
        }
        places = sorted(
            place for anchor in self._by_anchor.keys() & held for place in self._by_anchor[anchor]
        )
        vocabulary = " ".join(held)
        apart = any(line.kind == "routine" for line in lines)
        calm = (
            apart
            and not evidence.failed()
            and not any(line.kind == "told" for line in evidence.decisive)
        )
        # In a long log a warning decides where nothing failed and nobody says what is seen.
        decisive = {
            id(line)
            for line in evidence.decisive[:4]
            if calm or not (apart and line.kind == "warning")
        }
        hits = []
        for entry_id, pattern in map(self.patterns.__getitem__, places):
            if not pattern.words <= held or pattern.part not in vocabulary:
                continue
            if pattern.literal:
                if pattern.literal not in joined:
                    continue
                at = [i for i, text in enumerate(normals) if pattern.literal in text]
                if not at:  # a message that was wrapped over lines
                    at = [_line_at(normals, joined.find(pattern.literal))]
            else:
                if pattern.hint not in joined:
                    continue
                at = [
                    i
                    for i, text in enumerate(normals)
                    if pattern.hint in text and pattern.search(lines[i].text)
                ]
                if not at:
                    continue
            best = next((i for i in reversed(at) if id(lines[i]) in decisive), at[-1])
            decides = (
                not decisive
                or id(lines[best]) in decisive
                or (calm and lines[best].kind == "routine")
            )
            hits.append(Hit(entry_id, pattern.source, lines[best], decides))
        return hits


def _line_at(normals: list[str], place: int) -> int:
    for number, text in enumerate(normals):
        place -= len(text) + 1
        if place < 0:
            return number
    return len(normals) - 1
