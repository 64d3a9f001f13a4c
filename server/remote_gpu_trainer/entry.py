"""One entry of the catalogue: its grammar, Markdown in, `Entry` out.

    ### O3 — title
    **Symptom:** ...
    **Root cause:** ...

A page is read to its end: every fault is reported with its line, and an entry with a fault is left out
whole, never half-read. Standard library only, because every look-up starts here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date

SEVERITIES = ("blocks", "corrupts", "wastes", "misleads")
REQUIRED = ("Symptom", "Root cause", "Fix", "Check", "Reported as", "Severity", "Verified", "Sources")
OPTIONAL = ("Tell apart", "Signatures", "False alarm", "Applies to", "Needs")
FIELDS = (
    "Symptom", "Root cause", "Fix", "Check", "Tell apart", "Signatures", "Reported as", "False alarm",
    "Applies to", "Needs", "Severity", "Verified", "Sources",
)  # fmt: skip

_ID = r"(?:K8S|[A-Z]{1,6})[0-9]{1,3}[a-z]?"  # K8S is a family with a digit in its name
ID = re.compile(_ID)
_HEADING = re.compile(r"### (\S+) — (.+)")
_RETIRED = re.compile(r"### (\S+) → (\S+)")
_FIELD = re.compile(r"\*\*([^*:]{1,40}):\*\*(?: |$)")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_CODE = re.compile(r"``(.+?)``|`([^`]+)`")
_VERIFIED = re.compile(r"(\d{4}-\d{2}-\d{2}), (?:(read)|(ran) \(([^()]+)\))")
_APART = re.compile(rf"({_ID}): (.+)", re.S)


@dataclass(frozen=True)
class Fault:
    """Something on a page that breaks the grammar. `text` says what was found and what was expected."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Signature:
    """A text that a log holds when this failure happens; `is_regex` when it was written as /.../."""

    text: str
    is_regex: bool = False


@dataclass(frozen=True)
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
    section: str = field(default="", compare=False)
    path: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)
    markdown: str = field(default="", compare=False, repr=False)

    @property
    def family(self) -> str:
        """The letters of the id: `O` of `O7`."""
        return self.id.rstrip("abcdefghijklmnopqrstuvwxyz").rstrip("0123456789")


@dataclass(frozen=True)
class Retired:
    """An id that was given up; a look-up follows it to `successor`."""

    id: str
    successor: str
    path: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Page:
    """All that one Markdown file holds."""

    entries: tuple[Entry, ...]
    retired: tuple[Retired, ...]
    faults: tuple[Fault, ...]


class _Rejected(Exception):
    """Carries the faults of one entry out of its reading."""


def read_page(text: str, path: str) -> Page:
    """Read every entry of a Markdown page. `path` is only put into the results, nothing is opened."""
    entries: list[Entry] = []
    retired: list[Retired] = []
    faults: list[Fault] = []
    for number, lines, section in _sections(text):
        try:
            found = _read_section(number, lines, section, path)
        except _Rejected as rejected:
            faults.extend(rejected.args[0])
            continue
        (retired if isinstance(found, Retired) else entries).append(found)
    return Page(tuple(entries), tuple(retired), tuple(faults))


def _sections(text: str):
    """Yield (line number of the heading, its lines, the `##` heading above) for each `###` section."""
    start, lines, section, fence = 0, [], "", ""
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        mark = _FENCE.match(line)
        if mark:
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence and line.startswith(("# ", "## ", "### ")):
            if lines:
                yield start, lines, section
            lines = []
            if line.startswith("## "):
                section = line[3:].strip()
            if line.startswith("### "):
                start, lines = number, [line]
            continue
        if lines:
            lines.append(line)
    if lines:
        yield start, lines, section


def _read_section(number: int, lines: list[str], section: str, path: str) -> Entry | Retired:
    gone = _RETIRED.fullmatch(lines[0].rstrip())
    if gone:
        return Retired(gone[1], gone[2], path, number)
    head = _HEADING.fullmatch(lines[0].rstrip())
    if not head or not ID.fullmatch(head[1]):
        raise _Rejected([Fault(path, number, f"found heading {lines[0].strip()!r}, expected '### ID — title' or '### ID → NEW-ID'")])  # fmt: skip
    texts, places, faults = _fields(number, lines, path)
    for name in REQUIRED:
        if not texts.get(name):
            faults.append(Fault(path, number, f"{head[1]} has no {name}, expected a paragraph '**{name}:** …'"))
    values = _values(head[1], texts, places, path, faults) if not faults else {}
    if faults:
        raise _Rejected(faults)
    return Entry(
        id=head[1], title=head[2].strip(), symptom=texts["Symptom"], root_cause=texts["Root cause"],
        fix=texts["Fix"], check=texts["Check"], false_alarm=texts.get("False alarm", ""),
        section=section, path=path, line=number, markdown="\n".join(lines).strip() + "\n", **values,
    )  # fmt: skip


def _fields(number: int, lines: list[str], path: str):
    """Split a section into its fields: ({name: text}, {name: line}, faults)."""
    texts: dict[str, str] = {}
    places: dict[str, int] = {}
    faults: list[Fault] = []
    name, fence, kept = "", "", []

    def close() -> None:
        if name:
            texts[name] = "\n".join(kept).strip()

    for offset, line in enumerate(lines[1:], 1):
        mark = _FENCE.match(line)
        if mark:
            fence = "" if fence == mark[1] else fence or mark[1]
        found = None if fence or mark else _FIELD.match(line)
        if found:
            close()
            name, kept = found[1], [line[found.end() :]]
            if name not in FIELDS:
                faults.append(Fault(path, number + offset, f"found field {name!r}, expected one of {', '.join(FIELDS)}"))
            elif name in places:
                faults.append(Fault(path, number + offset, f"found field {name!r} again (first on line {places[name]}), expected it once"))  # fmt: skip
            elif [f for f in places if f in FIELDS and FIELDS.index(f) > FIELDS.index(name)]:
                later = next(f for f in places if f in FIELDS and FIELDS.index(f) > FIELDS.index(name))
                faults.append(Fault(path, number + offset, f"found field {name!r} after {later!r}, expected the order {', '.join(FIELDS)}"))  # fmt: skip
            places.setdefault(name, number + offset)
        elif name:
            kept.append(line)
        elif line.strip():
            faults.append(Fault(path, number + offset, f"found {line.strip()[:40]!r} before the first field, expected '**Symptom:** …'"))  # fmt: skip
    if fence:
        faults.append(Fault(path, number, f"found an open {fence} fence, expected it closed before the next heading"))
    close()
    return texts, places, faults


def _values(entry_id: str, texts: dict[str, str], places: dict[str, int], path: str, faults: list[Fault]) -> dict:
    """The fields that are more than prose, each fault added to `faults`."""

    def wrong(name: str, found: str, expected: str) -> None:
        faults.append(Fault(path, places[name], f"{entry_id} {name}: found {found!r}, expected {expected}"))

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
        wrong("Verified", texts["Verified"], "'2026-11-20, read' or '2026-11-20, ran (torch 2.13.0)'")
    else:
        values["ran"] = stamp[4] or ""
    values["signatures"] = _signatures(texts.get("Signatures", ""), lambda f, e: wrong("Signatures", f, e))
    for name, key in (("Reported as", "reported_as"), ("Sources", "sources")):
        values[key] = _items(texts[name])
    values["needs"] = tuple(i.strip() for i in texts.get("Needs", "").split(",") if i.strip())
    values["applies_to"] = tuple(i.strip().strip("`") for i in texts.get("Applies to", "").split(",") if i.strip())
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
    return tuple(item.strip() for item in re.split(r"\s+·\s+", text.replace("\n", " ")) if item.strip())


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
