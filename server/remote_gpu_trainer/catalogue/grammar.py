"""The grammar of an entry: the Markdown of a page in, `Entry` out. Standard library, Python 3.8.

    ### O3 — title
    **Symptom:** ...
    **Root cause:** ...

The whole page is read, and every fault is reported with its line. An entry with a fault is left
out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date

from .entry import (
    DOMAINS,
    FIELDS,
    ID,
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
# Both begin with a line feed: searching for it is many times faster than for the start of a line.
_PART = re.compile(r"\n(?: {0,3}(```|~~~)|(#{1,3}) (.*))")
_FIELD = re.compile(r"\n(?: {0,3}(```|~~~)|\*\*([^*:\n]{1,40}):\*\*(?: |$))", re.M)
_SIGNATURES = "\n**Signatures:**"
_FENCED = re.compile(r"\n {0,3}(?:```|~~~)")
_SIGNATURE = re.compile(r"(?:``(.+?)``|`([^`]+)`)(?: \((.+)\))?")
_VERIFIED = re.compile(r"(\d{4}-\d{2}-\d{2}), (?:(read)|(ran) \(([^()]+)\))")
_APART = re.compile(rf"({ID.pattern}): (.+)", re.S)


@dataclass(frozen=True)
class Page:
    """The content of one Markdown file."""

    entries: tuple[Entry, ...]
    retired: tuple[Retired, ...]
    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class Section:
    """The Markdown under one `###` heading, not yet read.

    `line` is the line of the heading, `section` the `##` heading above it.
    """

    line: int
    text: str
    section: str
    path: str

    @property
    def id(self) -> str:
        """The id in the heading; '' if it isn't the heading of an entry."""
        head = _HEADING.match(self.text)
        return head[1] if head else ""

    def read(self) -> Entry | Retired | list[Fault]:
        """The entry or the redirect, or the list of all its faults."""
        try:
            return _read_section(self.line, self.text, self.section, self.path)
        except _Rejected as rejected:
            return rejected.args[0]

    def signatures(self) -> tuple[Signature, ...]:
        """Only the signatures; for an entry without a fault, the same as `read` finds."""
        start = self.text.find(_SIGNATURES)
        if start < 0:
            return ()
        if _FENCED.search(self.text, 0, start):
            found = _fields(self.line, self.text, self.path)[0].get("Signatures", "")
        else:
            after = _FIELD.search(self.text, start + 1)
            found = self.text[start + len(_SIGNATURES) : after.start() if after else None]
        return _signatures(found.strip(), lambda *_: None)


class _Rejected(Exception):
    """Raised with the faults of one entry while it is read."""


def read_page(text: str, path: str) -> Page:
    """Read every entry of a Markdown page. `path` only names the page in the results."""
    entries: list[Entry] = []
    retired: list[Retired] = []
    faults: list[Fault] = []
    for section in sections(text, path):
        found = section.read()
        if isinstance(found, list):
            faults.extend(found)
        else:
            (retired if isinstance(found, Retired) else entries).append(found)
    return Page(tuple(entries), tuple(retired), tuple(faults))


def sections(text: str, path: str) -> Iterator[Section]:
    """The `###` sections of a Markdown page, in order. `path` only names the page in them."""
    text = "\n" + text.replace("\r\n", "\n")
    number, counted, start, section, fence = 0, 0, -1, "", ""
    for mark in _PART.finditer(text):
        if mark[1]:
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence:
            if start >= 0:
                yield Section(number, text[start : mark.start()], section, path)
            start = -1
            if mark[2] == "##":
                section = mark[3].strip()
            if mark[2] == "###":
                start = mark.start() + 1
                number, counted = number + text.count("\n", counted, start), start
    if start >= 0:
        yield Section(number, text[start:], section, path)


def _read_section(number: int, part: str, section: str, path: str) -> Entry | Retired:
    line = part.partition("\n")[0].rstrip()
    gone = _RETIRED.fullmatch(line)
    if gone:
        return Retired(gone[1], gone[2], path, number)
    head = _HEADING.fullmatch(line)
    if not head or not ID.fullmatch(head[1]):
        text = f"can't read the heading {line!r}; write '### ID — title' or '### ID → NEW-ID'"
        raise _Rejected([Fault(path, number, text)])
    texts, places, faults = _fields(number, part, path)
    faults += [
        Fault(path, number, f"{head[1]} has no {name}; add a paragraph '**{name}:** …'")
        for name in REQUIRED
        if not texts.get(name)
    ]
    values = _values(head[1], texts, places, path, faults) if not faults else {}
    if faults:
        raise _Rejected(faults)
    return Entry(
        id=head[1],
        title=head[2].strip(),
        symptom=texts["Symptom"],
        root_cause=texts["Root cause"],
        fix=texts["Fix"],
        check=texts["Check"],
        false_alarm=texts.get("False alarm", ""),
        section=section,
        path=path,
        line=number,
        markdown=part.strip() + "\n",
        **values,
    )


def _fields(
    number: int, part: str, path: str
) -> tuple[dict[str, str], dict[str, int], list[Fault]]:
    """Split a section into its fields: ({name: text}, {name: line}, faults)."""
    texts: dict[str, str] = {}
    places: dict[str, int] = {}
    faults: list[Fault] = []
    name, fence, last, line, counted, at = "", "", 0, number, 0, 0
    for mark in _FIELD.finditer(part):
        if mark[1]:
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence:
            if name:
                texts[name] = part[at : mark.start()].strip()
            else:
                faults += _before(number, part[: mark.start()], path)
            name, at = mark[2], mark.end()
            line, counted = line + part.count("\n", counted, at), at
            wrong = _misplaced(name, places, last)
            if wrong:
                faults.append(Fault(path, line, wrong))
            else:
                last = FIELDS.index(name)
            places.setdefault(name, line)
    if name:
        texts[name] = part[at:].strip()
    else:
        faults += _before(number, part, path)
    if fence:
        text = f"the {fence} fence is never closed; close it before the next heading"
        faults.append(Fault(path, number, text))
    return texts, places, faults


def _misplaced(name: str, places: dict[str, int], last: int) -> str:
    """What is wrong with a field here, or ''.

    `places` has the lines of the fields so far, `last` the index in FIELDS of the last correct one.
    """
    if name not in FIELDS:
        return f"unknown field {name!r}; the fields are {', '.join(FIELDS)}"
    if name in places:
        return f"field {name!r} is there twice, first on line {places[name]}; keep one"
    if FIELDS.index(name) < last:
        later = next(f for f in places if f in FIELDS and FIELDS.index(f) > FIELDS.index(name))
        return f"field {name!r} comes after {later!r}; the order is {', '.join(FIELDS)}"
    return ""


def _before(number: int, text: str, path: str) -> list[Fault]:
    """A fault for each line between the heading, on line `number`, and the first field."""
    return [
        Fault(
            path,
            at,
            f"{line.strip()[:40]!r} comes before the first field; begin with '**Symptom:** …'",
        )
        for at, line in enumerate(text.split("\n")[1:], number + 1)
        if line.strip()
    ]


def _values(
    entry_id: str, texts: dict[str, str], places: dict[str, int], path: str, faults: list[Fault]
) -> dict:
    """The fields that aren't plain prose. Adds each fault to `faults`."""

    def wrong(name: str, found: str, right: str) -> None:
        text = f"{entry_id} {name}: can't read {found!r}; write {right}"
        faults.append(Fault(path, places[name], text))

    values: dict = {}
    values["severity"] = texts["Severity"].strip()
    if values["severity"] not in SEVERITIES:
        wrong("Severity", values["severity"], "one of " + ", ".join(SEVERITIES))
    for name, form, right in (("Domain", "|".join(DOMAINS), DOMAINS), ("Retry", RETRY, RETRIES)):
        values[name.lower()] = told = texts[name].strip()
        if not re.fullmatch(form, told):
            wrong(name, told, "one of " + ", ".join(right))
    stamp = _VERIFIED.fullmatch(texts["Verified"].strip())
    try:
        values["verified"] = date.fromisoformat(stamp[1]) if stamp else None
    except ValueError:
        stamp = None
    if not stamp:
        forms = "'2026-11-20, read' or '2026-11-20, ran (torch 2.13.0)'"
        wrong("Verified", texts["Verified"], forms)
    else:
        values["ran"] = stamp[4] or ""
    values["signatures"] = _signatures(
        texts.get("Signatures", ""), lambda found, right: wrong("Signatures", found, right)
    )
    for name, key in (("Reported as", "reported_as"), ("Sources", "sources")):
        values[key] = _items(texts[name])
    values["needs"] = tuple(i.strip() for i in texts.get("Needs", "").split(",") if i.strip())
    values["seen_by"] = tuple(i.strip() for i in texts.get("Seen by", "").split(",") if i.strip())
    if "Seen by" in texts and {*values["seen_by"]} != {*SEEN_BY}:
        wrong("Seen by", texts["Seen by"], "one of " + ", ".join(SEEN_BY))
    values["applies_to"] = tuple(
        i.strip().strip("`") for i in texts.get("Applies to", "").split(",") if i.strip()
    )
    apart = []
    for item in _items(texts.get("Tell apart", "")):
        match = _APART.fullmatch(item)
        if match:
            apart.append((match[1], match[2]))
        else:
            wrong("Tell apart", item[:60], "'ID: how that one differs', items separated by ' · '")
    values["tell_apart"] = tuple(apart)
    return values


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.replace("\n", " ").split(" · ") if item.strip())


def _signatures(text: str, wrong: Callable[[str, str], None]) -> tuple[Signature, ...]:
    """The items in backticks of a Signatures field; calls `wrong` with anything else.

    Double backticks quote a text that contains single ones. Behind the backticks a role may stand
    in parentheses.
    """
    found = []
    for item in _items(text):
        code = _SIGNATURE.fullmatch(item)
        inner = (code[1] or code[2]).strip() if code else ""
        role = (code and code[3]) or ROLES[0]
        if not inner:
            wrong(item[:60], "texts in backticks, separated by ' · '")
        elif code[3] and role not in ROLES[1:]:
            wrong(item[-60:], "(cascade) or (advice) behind the text, or nothing")
        elif len(inner) > 2 and inner.startswith("/") and inner.endswith("/"):
            found.append(Signature(inner[1:-1], True, role))
        else:
            found.append(Signature(inner, False, role))
    return tuple(found)
