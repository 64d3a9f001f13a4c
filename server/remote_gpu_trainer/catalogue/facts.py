"""The facts in the front matter of a page: what each says, where it comes from, and how old it is.

scripts/check_staleness.py imports this module, and runs where PyYAML may be missing: Python 3.8
and its standard library suffice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from ..text import UserError

KINDS = ("platform", "price", "quota")
_NAME = re.compile(r"  ([a-z_]+):\s*(null|~)?\s*$")
_FIELD = re.compile(r"    (source|date|status|kind):\s*(.*?)\s*$")


class FactError(UserError):
    """The facts of a page can't be read. The text names the page and the fact."""


@dataclass(frozen=True)
class FactHead:
    """Where a fact comes from and how old it is. `date` is None if no dated page states it."""

    profile: str
    name: str
    source: str
    date: date | None
    status: str
    kind: str

    @property
    def id(self) -> str:
        """The name that answers use: PLATFORM.fact."""
        return f"{self.profile}.{self.name}"


def split(text: str) -> tuple[str, str]:
    """(front matter, body) of a page. The front matter is empty when the page has none."""
    text = text.replace("\r\n", "\n")
    if not text.startswith("---\n"):
        return "", text
    head, mark, body = text[4:].partition("\n---\n")
    return (head, body) if mark else ("", text)


def heads(text: str, profile: str) -> list[FactHead]:
    """The heads of all facts of a page. Raises FactError for a bad date or kind."""
    found: list[FactHead] = []
    inside, name, fields = False, "", {}

    def close() -> None:
        if name and fields:
            found.append(_head(profile, name, fields))

    for line in split(text)[0].split("\n"):
        if line[:1].strip():
            inside = line.startswith("facts:")
            continue
        if not inside:
            continue
        start = _NAME.match(line)
        if start:
            close()
            name, fields = start[1], {}
            continue
        field = _FIELD.match(line)
        if field and name:
            fields[field[1]] = _bare(field[2])
    close()
    return found


def value(head: str, name: str, field: str = "") -> str | None:
    """The value of a fact, or of one of its fields, if it is on one line of the front matter.

    None if it needs a YAML parser: a list, a text of several lines, an escaped quote.
    """
    key = f"      {field}:" if field else "    value:"
    deeper = " " * (len(key) - len(key.lstrip()) + 1)
    inside = False
    lines = [*head.partition("\nfacts:")[2].split("\n")[1:], ""]
    for at, line in enumerate(lines[:-1]):
        if line[:1].strip():
            return None
        start = _NAME.match(line)
        if start:
            inside = start[1] == name
        elif inside and line.startswith(key):
            told = line[len(key) :].strip()
            if (
                lines[at + 1].startswith(deeper)
                or told in ("", "null", "~")
                or any(mark in told for mark in "[{\\|>")
                or "''" in told
            ):
                return None
            return _bare(told)
    return None


def _bare(text: str) -> str:
    """A plain YAML value without its quotes or the comment after it."""
    if text.startswith(("'", '"')) and text.find(text[0], 1) > 0:
        return text[1 : text.find(text[0], 1)]
    return text.split(" #")[0].strip()


def _head(profile: str, name: str, fields: dict[str, str]) -> FactHead:
    told, kind = fields.get("date", ""), fields.get("kind", KINDS[0])
    place = f"profiles/{profile}.md: {name}"
    if kind not in KINDS:
        raise FactError(f"{place}: unknown kind {kind!r}; write one of {', '.join(KINDS)}")
    try:
        day = None if told in ("", "null", "~") else date.fromisoformat(told)
    except ValueError:
        raise FactError(f"{place}: {told!r} isn't a date; write YYYY-MM-DD or null") from None
    return FactHead(
        profile, name, fields.get("source", ""), day, fields.get("status", "unconfirmed"), kind
    )


def pages(root: Path) -> list[Path]:
    """The pages that hold facts, by name; `_schema.md` holds none."""
    return sorted((root / "profiles").glob("[a-z]*.md"))


def read_all(root: Path) -> list[FactHead]:
    """The heads of every page under `root`/profiles, by name. Raises FactError."""
    return [
        head for path in pages(root) for head in heads(path.read_text(encoding="utf-8"), path.stem)
    ]
