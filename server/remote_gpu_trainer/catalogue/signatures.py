"""Find the signatures of entries in the lines of a log, before any ranking.

Lines and literal texts are compared in one normal form: lower case, single blanks, one kind of
quote. Literals are also searched in the joined text, so a wrapped message still matches.

A regular expression is compiled only if a line may match it. `literal_runs` extracts the plain
texts that such a line must contain: a look-up needs these texts of all expressions, but compiles
few.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass

from ..logs.ends import as_shell_says
from ..logs.evidence import Evidence
from ..logs.kinds import FAILED, FAILURE, ROUTINE, TOLD, WARNING
from ..logs.lines import Line
from .entry import Signature

MAX_CHARS = 2000  # of a line, for regular expressions
MAX_TEXT = 400_000  # characters of a report that are joined
BEHIND = 3  # lines after the one that says what failed, which may say more about it
_QUOTES = '`"‘’“”´'
_ATOM = re.compile(
    r"""
    (?P<run>[^\\[\](){}|.^$*+?]+(?![*+?{]))
    | (?: (?P<mark>[|()])
        | \\(?P<escaped>[^\w\s])
        | \\.
        | \[\^?\]?(?:\\.|[^\]\\])*\]
        | [.^$]
        | (?P<plain>.)
      )
      (?P<repeat>(?:[*+?]|\{\d*,?\d*\})[?+]?)?
    """,
    re.S | re.X,
)
_VERBOSE = re.compile(r"\(\?[a-zA-Z]*x")  # blanks mean nothing in such an expression


def literal_runs(pattern: str) -> list[str]:
    """Texts, in order, that every match of the regular expression contains.

    It leaves out everything in a group, a set or a repeat. An expression with branches at its top
    level gives [""].
    """
    if _VERBOSE.search(pattern):
        return [""]
    runs, run, depth = [], "", 0
    for atom in _ATOM.finditer(pattern):
        whole, mark, escaped, plain, repeat = atom.groups()
        text = whole or ("" if repeat else escaped or plain)
        if text and not depth:
            run += text
            continue
        if run:
            runs.append(run)
            run = ""
        if mark == "|" and not depth:
            return [""]
        depth += (mark == "(") - (mark == ")")
    return [*runs, run]


def normal(text: str) -> str:
    """The form in which lines and literals are compared."""
    return " ".join(_one_quote(text).lower().split())


def _single_blanks(text: str) -> list[str]:
    """The lines of a report as `normal` leaves them, all at once.

    The only white space within its lines is blanks and tabs.
    """
    text = text.replace("\t", " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return list(map(str.strip, text.split("\n")))


def _one_quote(text: str) -> str:
    """Replace every kind of quote by the plain one.

    One `replace` per quote is faster than one table for all: most texts contain none of them.
    """
    for quote in _QUOTES:
        text = text.replace(quote, "'")
    return text


class Pattern:
    """One signature, and the words and texts that every matching line contains.

    A regular expression is compiled at the first `search`, which raises re.error for a bad one.
    """

    __slots__ = ("_regex", "anchor", "hint", "literal", "part", "source", "words")

    def __init__(self, signature: Signature, row: Sequence[str] | None = None):
        """`row` has what `row` of an equal pattern returned, and saves finding it again."""
        self.source = signature
        self._regex: re.Pattern | None = None
        if row is not None:
            self.literal, self.anchor, self.hint, self.part, words = row
            self.words = frozenset(words.split())
            return
        self.literal = "" if signature.is_regex else normal(signature.text)
        texts = literal_runs(signature.text) if signature.is_regex else [self.literal]
        # The whole words that every matching line contains, and one of them, or "".
        self.words = frozenset([word for text in texts for word in _inner_words(text)])
        self.anchor = max(self.words, key=_longest, default="")
        # A text that each matching line contains, in normal form.
        self.hint = normal(max(texts, key=len)) if signature.is_regex else self.literal
        # If there are no whole words: letters within a word of each matching line.
        parts = [] if self.words else self.hint.translate(_LETTERS).split()
        self.part = max(parts, key=_longest, default="")

    def row(self) -> tuple[str, str, str, str, str]:
        """What follows from the signature, for `__init__`."""
        return self.literal, self.anchor, self.hint, self.part, " ".join(sorted(self.words))

    def search(self, line: str) -> bool:
        """Whether the regular expression matches in a raw line."""
        if self._regex is None:
            self._regex = re.compile(self.source.text, re.I)
        return bool(self._regex.search(line[:MAX_CHARS]))

    def matches(self, line: str) -> bool:
        """Whether a raw line contains the text."""
        return self.search(line) if self.source.is_regex else self.literal in normal(line)


def _longest(word: str) -> tuple[int, str]:
    return len(word), word


def _words_of(lines: list[str]) -> list[str]:
    """The words of these lines; everything but letters ends a word."""
    return " ".join(lines)[:MAX_TEXT].translate(_LETTERS).split()


def _inner_words(run: str) -> list[str]:
    """The words of a text without its first and last, which may be parts of longer ones."""
    letters = run.lower().translate(_LETTERS)
    return letters[letters.find(" ") : letters.rfind(" ")].split() if " " in letters else []


class _Letters(dict):
    """A table for str.translate that turns everything but letters into a blank."""

    def __missing__(self, code: int) -> str:
        self[code] = letter = chr(code) if chr(code).isalpha() else " "
        return letter


_LETTERS = _Letters()


@dataclass(frozen=True)
class Hit:
    """A signature of `entry_id`, found in `line`.

    `decisive`: the text is a root one, and the line is among those that show what failed, or there
    are no such lines.
    """

    entry_id: str
    signature: Signature
    line: Line
    decisive: bool

    @property
    def text(self) -> str:
        """The literal, or what the regular expression matched in the line."""
        if not self.signature.is_regex:
            return self.signature.text
        for text in (self.line.text[:MAX_CHARS], as_shell_says(self.line)):
            match = re.search(self.signature.text, text, re.I)
            if match:
                return match[0]
        return self.signature.text


class SignatureIndex:
    """All signatures of a catalogue, each found by a word that its lines contain.

    `signatures` gives (id, its signatures) of each entry.
    """

    def __init__(self, signatures: Iterable[tuple[str, Iterable[Signature]]]):
        self._keep((id, Pattern(signature)) for id, texts in signatures for signature in texts)

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence]) -> SignatureIndex:
        """The index whose `rows` these are."""
        index = cls(())
        index._keep((id, Pattern(Signature(*signature), row)) for id, signature, row in rows)
        return index

    def rows(self) -> list[tuple[str, tuple, tuple]]:
        """All patterns in values for JSON: the entry's id, the signature's fields, and the rest."""
        return [(id, astuple(pattern.source), pattern.row()) for id, pattern in self.patterns]

    def _keep(self, patterns: Iterable[tuple[str, Pattern]]) -> None:
        self.patterns = list(patterns)
        self._by_anchor: dict[str, list[int]] = {}
        for place, (_, pattern) in enumerate(self.patterns):
            self._by_anchor.setdefault(pattern.anchor, []).append(place)

    def needles(self) -> list[bytes]:
        """The start of each literal; the reader of large files chooses lines by them."""
        return sorted({p.source.text[:40].encode() for _, p in self.patterns if p.literal})

    def find(self, evidence: Evidence) -> list[Hit]:
        """The signatures of every role in these lines, each once, at its most decisive line."""
        report = _Report.of(evidence)
        deciding = _Deciding.of(evidence)
        hits = []
        for entry_id, pattern in self._possible(report):
            places = report.places_of(pattern)
            if places:
                line = deciding.best([report.lines[place] for place in places])
                decisive = pattern.source.role == "root" and deciding.decides(line)
                hits.append(Hit(entry_id, pattern.source, line, decisive))
        return hits

    def _possible(self, report: _Report) -> Iterator[tuple[str, Pattern]]:
        """(entry id, pattern) of those whose words are all in a report, in the order of entries."""
        numbers = sorted(
            number
            for anchor in self._by_anchor.keys() & report.words
            for number in self._by_anchor[anchor]
        )
        for number in numbers:
            entry_id, pattern = self.patterns[number]
            if pattern.words <= report.words and pattern.part in report.vocabulary:
                yield entry_id, pattern


@dataclass(frozen=True)
class _Report:
    """The lines of a report in the forms in which patterns are looked for.

    `texts` are theirs. A line in which a launcher tells an end by a signal is there twice, first
    with what a shell says of it. `normals` has the normal form of each text. `joined` is all of
    them, for messages that are wrapped. `words` are those of the report and "", which is the anchor
    of a pattern without a whole word. `vocabulary` is the words as one text.
    """

    lines: Sequence[Line]
    texts: list[str]
    normals: list[str]
    joined: str
    words: set[str]
    vocabulary: str

    @classmethod
    def of(cls, evidence: Evidence) -> _Report:
        """The report of these lines, of a long one `MAX_TEXT` characters."""
        failures = [(as_shell_says(line), line) for line in evidence.lines if line.kind == FAILURE]
        failures = [(text, line) for text, line in failures if text]
        lines = [*[line for _, line in failures], *evidence.lines]
        texts = [*[text for text, _ in failures], *[line.text for line in evidence.lines]]
        whole = _one_quote("\n".join(texts)).lower()
        normals = _single_blanks(whole)
        joined, searched = " ".join(normals), normals
        if len(joined) > MAX_TEXT:  # put what failed first; it may be near the end
            failing = [normals[at + len(failures)] for at in _failing(evidence)]
            joined = f"{' '.join(failing)[:MAX_TEXT]} {joined[:MAX_TEXT]}"
            searched = [*failing, *normals]
        # In two parts: `translate` is ten times slower on a text with a letter beyond ASCII.
        words = {
            "",
            *_words_of([text for text in searched if text.isascii()]),
            *_words_of([text for text in searched if not text.isascii()]),
        }
        return cls(lines, texts, normals, joined, words, " ".join(words))

    def places_of(self, pattern: Pattern) -> list[int]:
        """The numbers of the lines that a pattern matches."""
        if pattern.hint not in self.joined:
            return []
        at = [number for number, text in enumerate(self.normals) if pattern.hint in text]
        if pattern.literal:  # its hint is the literal itself; in no line means wrapped
            return at or [_line_at(self.normals, self.joined.find(pattern.literal))]
        return [number for number in at if pattern.search(self.texts[number])]


@dataclass(frozen=True)
class _Deciding:
    """Which lines of a report decide: a root text in one of them names the cause.

    `lines` are those that say what failed. `calm`: a long log in which nothing failed and nobody
    says what they see. There a routine line decides as well.
    """

    lines: frozenset[Line]
    calm: bool

    @classmethod
    def of(cls, evidence: Evidence) -> _Deciding:
        """The deciding lines of this evidence: the first four that it calls decisive."""
        is_long = any(line.kind == ROUTINE for line in evidence.lines)
        somebody_tells = any(line.kind == TOLD for line in evidence.decisive)
        calm = is_long and not evidence.failed() and not somebody_tells
        # In a long log a warning counts only if nothing failed and nobody says what they see.
        return cls(
            frozenset(
                line
                for line in evidence.decisive[:4]
                if calm or not (is_long and line.kind == WARNING)
            ),
            calm,
        )

    def best(self, lines: Sequence[Line]) -> Line:
        """The last of these lines that decides, otherwise the last line."""
        return next((line for line in reversed(lines) if line in self.lines), lines[-1])

    def decides(self, line: Line) -> bool:
        """Whether a root text in this line decides. If no line says what failed, all do."""
        return not self.lines or line in self.lines or (self.calm and line.kind == ROUTINE)


def _failing(evidence: Evidence) -> list[int]:
    """The places of the lines that say what failed, and of the few after each."""
    decisive, last, places = set(evidence.decisive), -1, []
    for at, line in enumerate(evidence.lines):
        if line in decisive or line.kind in FAILED:
            last = at + BEHIND
        elif at > last or line.kind == ROUTINE:
            continue
        places.append(at)
    return places


def _line_at(normals: list[str], place: int) -> int:
    for number, text in enumerate(normals):
        place -= len(text) + 1
        if place < 0:
            return number
    return len(normals) - 1
