"""Read the entries of a page: Markdown in, `Entry` out. Standard library, Python 3.8.

An entry looks like this:

    ### O3 — title
    **Symptom:** ...
    **Check:** ...

`read_page` always reads the whole page. It reports every fault with its line, and leaves out the
entries that have one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from .entry import (
    DOMAINS,
    FIELDS,
    HINT,
    ID,
    RAN,
    REQUIRED,
    RETRIES,
    RETRY,
    ROLES,
    SEEN_BY,
    SEVERITIES,
    Entry,
    Fault,
    Retired,
    Signature,
)

_HEADING = re.compile(r"### (\S+) — (.+)")
_RETIRED = re.compile(r"### (\S+) → (\S+)")
# The patterns below begin with a line feed, because the search for one is many times faster than
# the search for the start of a line.
_PART = re.compile(r"\n(?: {0,3}(```|~~~)|(#{1,3}) (.*))")
_FIELD = re.compile(r"\n(?: {0,3}(```|~~~)|\*\*([^*:\n]{1,40}):\*\*(?: |$))", re.M)
_SIGNATURES = "\n**Signatures:**"
_FENCED = re.compile(r"\n {0,3}(?:```|~~~)")
_SIGNATURE = re.compile(r"(?:``(.+?)``|`([^`]+)`)(?: \((.+)\))?")
_VERIFIED = re.compile(rf"(\d{{4}}-\d{{2}}-\d{{2}}), (?:read|({'|'.join(RAN)}) \(([^()]+)\))")
_APART = re.compile(rf"({ID.pattern}): (.+)", re.S)


@dataclass(frozen=True)
class Page:
    """The content of one Markdown file."""

    entries: tuple[Entry, ...]
    retired: tuple[Retired, ...]
    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class Section:
    """One `###` heading with the Markdown under it, as text.

    `line` is the line of the heading. `section` is the text of the `##` heading above it.
    """

    line: int
    text: str
    section: str
    path: str

    @property
    def id(self) -> str:
        """The id in the heading, or '' for a heading that begins no entry."""
        head = _HEADING.match(self.text)
        return head[1] if head else ""

    def read(self) -> Entry | Retired | list[Fault]:
        """Return the entry or the retired id, or a list of every fault in it."""
        first = self.text.partition("\n")[0].rstrip()
        retired = _RETIRED.fullmatch(first)
        if retired:
            return Retired(retired[1], retired[2], self.path, self.line)
        heading = _HEADING.fullmatch(first)
        if not heading or not ID.fullmatch(heading[1]):
            text = f"can't read the heading {first!r}; write '### ID — title' or '### ID → NEW-ID'"
            return [Fault(self.path, self.line, text)]
        return _read_entry(self, heading[1], heading[2].strip())

    def signatures(self) -> tuple[Signature, ...]:
        """Return the signatures alone, without the time that `read` takes.

        For an entry without a fault they are the same as those that `read` finds.
        """
        start = self.text.find(_SIGNATURES)
        if start < 0:
            return ()
        if _FENCED.search(self.text, 0, start):
            text = _fields(self.line, self.text, self.path)[0].get("Signatures", "")
        else:
            after = _FIELD.search(self.text, start + 1)
            text = self.text[start + len(_SIGNATURES) : after.start() if after else None]
        return _signatures(text.strip(), lambda *_: None)


def read_page(text: str, path: str) -> Page:
    """Read every entry of a Markdown page.

    `path` is copied into the results to name the page. No file is opened.
    """
    entries: list[Entry] = []
    retired: list[Retired] = []
    faults: list[Fault] = []
    for section in sections(text, path):
        content = section.read()
        if isinstance(content, Entry):
            entries.append(content)
        elif isinstance(content, Retired):
            retired.append(content)
        else:
            faults.extend(content)
    return Page(tuple(entries), tuple(retired), tuple(faults))


def sections(text: str, path: str) -> Iterator[Section]:
    """Yield the `###` sections of a Markdown page in order. `path` is copied into each."""
    text = "\n" + text.replace("\r\n", "\n")
    line = counted = 0  # the line of the last heading, and how far line feeds were counted for it
    start, section, fence = -1, "", ""
    for mark in _PART.finditer(text):
        if mark[1]:
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence:
            if start >= 0:
                yield Section(line, text[start : mark.start()], section, path)
            start = -1
            if mark[2] == "##":
                section = mark[3].strip()
            if mark[2] == "###":
                start = mark.start() + 1
                line += text.count("\n", counted, start)
                counted = start
    if start >= 0:
        yield Section(line, text[start:], section, path)


def _read_entry(section: Section, entry_id: str, title: str) -> Entry | list[Fault]:
    """Read the entry under a valid heading. Return a list of every fault if it has any."""
    texts, places, faults = _fields(section.line, section.text, section.path)
    faults += [
        Fault(
            section.path, section.line, f"{entry_id} has no {name}; add a paragraph '**{name}:** …'"
        )
        for name in REQUIRED
        if not texts.get(name)
    ]
    faults += [
        Fault(
            section.path,
            places[name],
            f"{entry_id} {name} holds the form's hint; fill it in, or delete the field",
        )
        for name, text in texts.items()
        if text.startswith(HINT)
    ]
    if faults:
        return faults
    fields = _Fields(entry_id, texts, places, section.path)
    severity, domain = fields.one_of("Severity", SEVERITIES), fields.one_of("Domain", DOMAINS)
    retry = fields.retry()
    verified, ran_fields, ran = fields.verified()
    entry = Entry(
        id=entry_id,
        title=title,
        symptom=texts["Symptom"],
        root_cause=texts["Root cause"],
        fix=texts["Fix"],
        check=texts["Check"],
        severity=severity,
        domain=domain,
        retry=retry,
        verified=verified,
        ran_fields=ran_fields,
        ran=ran,
        signatures=fields.signatures(),
        reported_as=_items(texts["Reported as"]),
        sources=_items(texts["Sources"]),
        needs=fields.list_of("Needs"),
        seen_by=fields.seen_by(),
        applies_to=tuple(item.strip("`") for item in fields.list_of("Applies to")),
        tell_apart=fields.tell_apart(),
        false_alarm=texts.get("False alarm", ""),
        section=section.section,
        path=section.path,
        line=section.line,
        markdown=section.text.strip() + "\n",
    )
    return fields.faults or entry


def _fields(
    heading_line: int, markdown: str, path: str
) -> tuple[dict[str, str], dict[str, int], list[Fault]]:
    """Split a section into its fields: ({name: text}, {name: line}, faults)."""
    texts: dict[str, str] = {}
    places: dict[str, int] = {}
    faults: list[Fault] = []
    name, start = "", 0  # the field that is open, and where its text starts
    line, counted = heading_line, 0  # its line, and how far line feeds were counted for it
    fence, last = "", 0
    for mark in _FIELD.finditer(markdown):
        if mark[1]:
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence:
            if name:
                texts[name] = markdown[start : mark.start()].strip()
            else:
                faults += _faults_before_fields(heading_line, markdown[: mark.start()], path)
            name, start = mark[2], mark.end()
            line += markdown.count("\n", counted, start)
            counted = start
            wrong = _misplaced(name, places, last)
            if wrong:
                faults.append(Fault(path, line, wrong))
            else:
                last = FIELDS.index(name)
            places.setdefault(name, line)
    if name:
        texts[name] = markdown[start:].strip()
    else:
        faults += _faults_before_fields(heading_line, markdown, path)
    if fence:
        text = f"the {fence} fence is never closed; close it before the next heading"
        faults.append(Fault(path, heading_line, text))
    return texts, places, faults


def _misplaced(name: str, places: dict[str, int], last: int) -> str:
    """Say what is wrong with a field in this place, or return ''.

    `places` holds the lines of the fields above it. `last` is the index in FIELDS of the last field
    without a fault.
    """
    if name not in FIELDS:
        return f"unknown field {name!r}; the fields are {', '.join(FIELDS)}"
    if name in places:
        return f"field {name!r} is there twice, first on line {places[name]}; keep one"
    if FIELDS.index(name) < last:
        later = next(f for f in places if f in FIELDS and FIELDS.index(f) > FIELDS.index(name))
        return f"field {name!r} comes after {later!r}; the order is {', '.join(FIELDS)}"
    return ""


def _faults_before_fields(heading_line: int, text: str, path: str) -> list[Fault]:
    """Return a fault for each line between the heading and the first field."""
    return [
        Fault(
            path,
            number,
            f"{line.strip()[:40]!r} comes before the first field; begin with '**Symptom:** …'",
        )
        for number, line in enumerate(text.split("\n")[1:], heading_line + 1)
        if line.strip()
    ]


class _Fields:
    """The fields of an entry that aren't plain prose. `faults` collects what is wrong with them.

    A method that finds a fault still returns a value of its type. Nobody uses that value, because
    an entry with a fault is left out.
    """

    def __init__(self, entry_id: str, texts: dict[str, str], places: dict[str, int], path: str):
        self._id, self._texts, self._places, self._path = entry_id, texts, places, path
        self.faults: list[Fault] = []

    def _wrong(self, name: str, text: str, right: str) -> None:
        fault = f"{self._id} {name}: can't read {text!r}; write {right}"
        self.faults.append(Fault(self._path, self._places[name], fault))

    def one_of(self, name: str, values: Sequence[str]) -> str:
        """Return a field that must be one of `values`."""
        text = self._texts[name].strip()
        if text not in values:
            self._wrong(name, text, "one of " + ", ".join(values))
        return text

    def retry(self) -> str:
        """Return whether it helps to run the same thing again, in one of the forms of RETRIES."""
        text = self._texts["Retry"].strip()
        if not RETRY.fullmatch(text):
            self._wrong("Retry", text, "one of " + ", ".join(RETRIES))
        return text

    def verified(self) -> tuple[date, tuple[str, ...], str]:
        """Return the day of the last check, the fields that a proof ran, and its versions or ''."""
        text = self._texts["Verified"]
        stamp = _VERIFIED.fullmatch(text.strip())
        try:
            if stamp:
                return date.fromisoformat(stamp[1]), RAN.get(stamp[2], ()), stamp[3] or ""
        except ValueError:  # no such day
            pass
        right = "'2026-11-20, read' or '2026-11-20, ran (torch 2.13.0)', and instead of 'ran' "
        self._wrong("Verified", text, f"{right}'Check ran, Fix read' or 'Check read, Fix ran'")
        return date.min, (), ""

    def signatures(self) -> tuple[Signature, ...]:
        """Return the texts to look for in a log."""
        return _signatures(
            self._texts.get("Signatures", ""),
            lambda text, right: self._wrong("Signatures", text, right),
        )

    def list_of(self, name: str) -> tuple[str, ...]:
        """Return the items of a comma-separated field."""
        items = (item.strip() for item in self._texts.get(name, "").split(","))
        return tuple(item for item in items if item)

    def seen_by(self) -> tuple[str, ...]:
        """Return the programs that can show the failure when no log does."""
        names = self.list_of("Seen by")
        if "Seen by" in self._texts and {*names} != {*SEEN_BY}:
            self._wrong("Seen by", self._texts["Seen by"], "one of " + ", ".join(SEEN_BY))
        return names

    def tell_apart(self) -> tuple[tuple[str, str], ...]:
        """Return pairs of a neighbour's id and how that entry differs."""
        pairs = []
        for item in _items(self._texts.get("Tell apart", "")):
            match = _APART.fullmatch(item)
            if match:
                pairs.append((match[1], match[2]))
            else:
                right = "'ID: how that one differs', items separated by ' · '"
                self._wrong("Tell apart", item[:60], right)
        return tuple(pairs)


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.replace("\n", " ").split(" · ") if item.strip())


def _signatures(text: str, wrong: Callable[[str, str], None]) -> tuple[Signature, ...]:
    """Return the signatures of a Signatures field.

    Each item is a text in backticks, and may have a role in parentheses after it. A text that
    contains backticks has double ones around it. For any other item `wrong` is called with the item
    and what to write instead.
    """
    signatures = []
    for item in _items(text):
        code = _SIGNATURE.fullmatch(item)
        inner = (code[1] or code[2]).strip() if code else ""
        role = code[3] if code else None
        if not inner:
            wrong(item[:60], "texts in backticks, separated by ' · '")
        elif role and role not in ROLES[1:]:
            wrong(item[-60:], "(cascade) or (advice) behind the text, or nothing")
        else:
            is_regex = len(inner) > 2 and inner.startswith("/") and inner.endswith("/")
            source = inner[1:-1] if is_regex else inner
            signatures.append(Signature(source, is_regex, role or ROLES[0]))
    return tuple(signatures)
