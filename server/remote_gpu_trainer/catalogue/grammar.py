"""The grammar of an entry: the Markdown of a page in, `Entry` out. Standard library, Python 3.8.

    ### O3 — title
    **Symptom:** ...
    **Root cause:** ...

A page is read to its end: every fault is reported with its line, and an entry with a fault is left out
whole, never half-read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from ..text.records import record
from .entry import FIELDS, ID, REQUIRED, SEVERITIES, Entry, Fault, Retired, Signature

_HEADING = re.compile(r"### (\S+) — (.+)")
_RETIRED = re.compile(r"### (\S+) → (\S+)")
# Both start with a line feed, for which a page is searched many times faster than for the start of a line.
_PART = re.compile(r"\n(?: {0,3}(```|~~~)|(#{1,3}) (.*))")
_FIELD = re.compile(r"\n(?: {0,3}(```|~~~)|\*\*([^*:\n]{1,40}):\*\*(?: |$))", re.M)
_SIGNATURES = "\n**Signatures:**"
_FENCED = re.compile(r"\n {0,3}(?:```|~~~)")
_CODE = re.compile(r"``(.+?)``|`([^`]+)`")
_VERIFIED = re.compile(r"(\d{4}-\d{2}-\d{2}), (?:(read)|(ran) \(([^()]+)\))")
_APART = re.compile(rf"({ID.pattern}): (.+)", re.S)


@record
class Page:
    """All that one Markdown file holds."""

    entries: tuple[Entry, ...]
    retired: tuple[Retired, ...]
    faults: tuple[Fault, ...]


@record
class Section:
    """The Markdown of one `###` heading, not looked at yet. `line`: of the heading; `section`: the `##` heading above."""

    line: int
    text: str
    section: str
    path: str

    @property
    def id(self) -> str:
        """The id that the heading names; '' for one that names no entry."""
        head = _HEADING.match(self.text)
        return head[1] if head else ""

    def read(self) -> Entry | Retired | list[Fault]:
        """The entry or redirect that it is, or all that is wrong with it."""
        try:
            return _read_section(self.line, self.text, self.section, self.path)
        except _Rejected as rejected:
            return rejected.args[0]

    def signatures(self) -> tuple[Signature, ...]:
        """The signatures alone, as `read` finds them in an entry without a fault."""
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
    """Carries the faults of one entry out of its reading."""


def read_page(text: str, path: str) -> Page:
    """Read every entry of a Markdown page. `path` is only put into the results, nothing is opened."""
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
    """The `###` sections of a Markdown page, in order. `path` is only put into the results, nothing is opened."""
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
        raise _Rejected(
            [
                Fault(
                    path,
                    number,
                    f"found heading {line!r}, expected '### ID — title' or '### ID → NEW-ID'",
                )
            ]
        )
    texts, places, faults = _fields(number, part, path)
    for name in REQUIRED:
        if not texts.get(name):
            faults.append(
                Fault(
                    path, number, f"{head[1]} has no {name}, expected a paragraph '**{name}:** …'"
                )
            )
    values = _values(head[1], texts, places, path, faults) if not faults else {}
    if faults:
        raise _Rejected(faults)
    return Entry(
        id=head[1], title=head[2].strip(), symptom=texts["Symptom"], root_cause=texts["Root cause"],
        fix=texts["Fix"], check=texts["Check"], false_alarm=texts.get("False alarm", ""),
        section=section, path=path, line=number, markdown=part.strip() + "\n", **values,
    )  # fmt: skip


def _fields(number: int, part: str, path: str):
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
            if name not in FIELDS:
                faults.append(
                    Fault(path, line, f"found field {name!r}, expected one of {', '.join(FIELDS)}")
                )
            elif name in places:
                faults.append(
                    Fault(
                        path,
                        line,
                        f"found field {name!r} again (first on line {places[name]}), expected it once",
                    )
                )
            elif FIELDS.index(name) < last:
                later = next(
                    f for f in places if f in FIELDS and FIELDS.index(f) > FIELDS.index(name)
                )
                faults.append(
                    Fault(
                        path,
                        line,
                        f"found field {name!r} after {later!r}, expected the order {', '.join(FIELDS)}",
                    )
                )
            else:
                last = FIELDS.index(name)
            places.setdefault(name, line)
    if name:
        texts[name] = part[at:].strip()
    else:
        faults += _before(number, part, path)
    if fence:
        faults.append(
            Fault(
                path,
                number,
                f"found an open {fence} fence, expected it closed before the next heading",
            )
        )
    return texts, places, faults


def _before(number: int, text: str, path: str) -> list[Fault]:
    """A fault for each line between the heading, which is line `number`, and the first field."""
    lines = enumerate(text.split("\n")[1:], number + 1)
    return [
        Fault(
            path,
            at,
            f"found {line.strip()[:40]!r} before the first field, expected '**Symptom:** …'",
        )
        for at, line in lines
        if line.strip()
    ]


def _values(
    entry_id: str, texts: dict[str, str], places: dict[str, int], path: str, faults: list[Fault]
) -> dict:
    """The fields that are more than prose, each fault added to `faults`."""

    def wrong(name: str, found: str, expected: str) -> None:
        faults.append(
            Fault(path, places[name], f"{entry_id} {name}: found {found!r}, expected {expected}")
        )

    values: dict = {}
    values["severity"] = texts["Severity"].strip()
    if values["severity"] not in SEVERITIES:
        wrong("Severity", values["severity"], "one of " + ", ".join(SEVERITIES))
    stamp = _VERIFIED.fullmatch(texts["Verified"].strip())
    try:
        values["verified"] = date.fromisoformat(stamp[1]) if stamp else None
    except ValueError:
        stamp = None
    if not stamp:
        wrong(
            "Verified", texts["Verified"], "'2026-11-20, read' or '2026-11-20, ran (torch 2.13.0)'"
        )
    else:
        values["ran"] = stamp[4] or ""
    values["signatures"] = _signatures(
        texts.get("Signatures", ""), lambda f, e: wrong("Signatures", f, e)
    )
    for name, key in (("Reported as", "reported_as"), ("Sources", "sources")):
        values[key] = _items(texts[name])
    values["needs"] = tuple(i.strip() for i in texts.get("Needs", "").split(",") if i.strip())
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


def _signatures(text: str, wrong) -> tuple[Signature, ...]:
    """The back-ticked items of a Signatures field. A double back-tick quotes a text that holds single ones."""
    found = []
    for item in _items(text):
        code = _CODE.fullmatch(item)
        inner = (code[1] or code[2]).strip() if code else ""
        if not inner:
            wrong(item[:60], "a text in back-ticks, items separated by ' · '")
        elif len(inner) > 2 and inner.startswith("/") and inner.endswith("/"):
            found.append(Signature(inner[1:-1], True))
        else:
            found.append(Signature(inner))
    return tuple(found)
