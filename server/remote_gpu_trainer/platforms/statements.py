"""Places that state the value of one machine-readable thing, so that two that disagree can be found.

A page says in a comment what its prose says in words: `<!-- fact: runpod.preemption.notice_seconds = 5 -->`. Beside those marks count the
front matter of the platform that the mark names, the tokens by which platforms are told apart, and the version of the bundle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .. import __version__
from ..catalogue import bundle, front_matter
from .staleness import Statement

MARK = re.compile(r"<!-- fact: ([a-z0-9-]+\.[a-z_]+(?:\.[a-z_]+)?) = ([^\n]{1,80}?) -->")
_TOKENS = re.compile(r"^tokens:\s*\[(.*)\]\s*$", re.M)
_VERSION = re.compile(r'^  version: "?([^"\n]+)"?\s*$', re.M)


def read(root: Path) -> list[Statement]:
    """Every statement of a bundle. Raises FactError for a mark that names a field which no profile has."""
    found: list[Statement] = []
    texts = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in [*bundle.pages(root), root / "SKILL.md"]
        if path.is_file()
    }
    wanted: dict[str, None] = {}
    for place, text in texts.items():
        for mark in MARK.finditer(text):
            line = text.count("\n", 0, mark.start()) + 1
            found.append(Statement(mark[1], mark[2], f"{place}:{line}"))
            wanted[mark[1]] = None
        if place.startswith("profiles/"):
            found += _tokens(place, front_matter.split(text)[0])
    found += _front_matter(texts, wanted)
    version = _VERSION.search(front_matter.split(texts.get("SKILL.md", ""))[0])
    if version:
        found += [
            Statement("version", version[1], "SKILL.md"),
            Statement("version", __version__, "package"),
        ]
    return found


def _tokens(place: str, head: str) -> Iterator[Statement]:
    listed = _TOKENS.search(head)
    for token in re.findall(r'"([^"]+)"', listed[1]) if listed else ():
        yield Statement(f"token {token}", Path(place).stem, place)


def _front_matter(texts: dict[str, str], wanted: dict[str, None]) -> Iterator[Statement]:
    """The front matter's own value of each marked thing."""
    for thing in wanted:
        name, fact, *field = thing.split(".")
        place = f"profiles/{name}.md"
        head = front_matter.split(texts.get(place, ""))[0]
        value = front_matter.value(head, fact, *field) or _parsed(head, fact, field)
        if value is None:
            raise front_matter.FactError(
                f"found the mark {thing}, expected a field of profiles/NAME.md, such as runpod.preemption.notice_seconds"
            )
        yield Statement(thing, value, place)


def _parsed(head: str, fact: str, field: list[str]) -> str | None:
    """The same by a parser, whose import takes a tenth of the whole check."""
    import yaml

    value = (((yaml.safe_load(head) or {}).get("facts") or {}).get(fact) or {}).get("value")
    for part in field:
        value = value.get(part) if isinstance(value, dict) else None
    return None if value is None or isinstance(value, dict) else str(value)
