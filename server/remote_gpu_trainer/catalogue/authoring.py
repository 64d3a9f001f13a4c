"""A new entry: its form, under the next free id of its family, and its place in a page."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from .bundle import Catalogue, CatalogueError
from .entry import DOMAINS, OPTIONAL, RETRIES, SEVERITIES, Entry, Retired

_FAMILY = re.compile(r"K8S|[A-Z]{1,6}")
_FORM = """\
### {id} — {title}

**Symptom:**

**Check:**

**Fix:**

**Root cause:**

**Reported as:**

**Domain:** {domains}

**Retry:** {retries}

**Severity:** {severities}

**Verified:** {today}, read

**Sources:**
"""


def form(catalogue: Catalogue, family: str, title: str, today: date) -> tuple[str, str]:
    """(id, Markdown) of a new entry, with the next id of its family. Raises CatalogueError.

    Ids are never reused, so retired ones count. `lint` reports each empty field.
    """
    if not _FAMILY.fullmatch(family):
        raise CatalogueError(
            f"{family[:40]!r} isn't a family; give one to six capital letters, such as O or VAST"
        )
    title = " ".join(title.split())
    if not title:
        raise CatalogueError(
            "no title; give 5 to 18 words that say what the user sees, with --title TEXT"
        )
    numbers = [int(re.sub(r"\D", "", item.id[len(family) :])) for item in _items(catalogue, family)]
    name = f"{family}{max(numbers, default=0) + 1}"
    return name, _FORM.format(
        id=name,
        title=title,
        domains=" or ".join(DOMAINS),
        retries=" or ".join(RETRIES),
        severities=" or ".join(SEVERITIES),
        today=today,
    )


def put(catalogue: Catalogue, family: str, markdown: str, page: str | None) -> Path:
    """Write a form into its page, and return the page. Raises CatalogueError.

    It goes after the family's last entry, or to the end of `page`, a path below the catalogue's
    root. `page` may be None if one page has the whole family.
    """
    place = _page(catalogue, family, page)
    name = place.relative_to(catalogue.root).as_posix()
    text = place.read_bytes().decode()
    entries = [
        item.markdown.rstrip()
        for item in _items(catalogue, family)
        if isinstance(item, Entry) and item.path == name
    ]
    end = max((text.index(entry) + len(entry) for entry in entries), default=len(text.rstrip()))
    place.write_bytes(
        f"{text[:end]}\n\n{markdown.rstrip()}\n{text[end:]}".rstrip().encode() + b"\n"
    )
    return place


def _page(catalogue: Catalogue, family: str, page: str | None) -> Path:
    """The page that an entry of the family goes into. Raises CatalogueError."""
    root = catalogue.root
    if not (root / "pyproject.toml").is_file():
        raise CatalogueError(
            f"{root} isn't a checkout; clone the repository and run pip install -e . in it"
        )
    pages = sorted({item.path for item in _items(catalogue, family)})
    if page is None and len(pages) != 1:
        raise CatalogueError(
            f"{len(pages)} pages have the family {family} ({', '.join(pages) or 'none yet'}); "
            "name one with --page"
        )
    place = root / (page or pages[0])
    if place.suffix != ".md" or not place.is_file() or root not in place.resolve().parents:
        raise CatalogueError(
            f"no page {page!r} in {root}; name a Markdown file below references/ or profiles/"
        )
    return place


def _items(catalogue: Catalogue, family: str) -> list[Entry | Retired]:
    """The family's entries, retired ones too."""
    return [
        item
        for item in (*catalogue.entries, *catalogue.retired)
        if re.fullmatch(rf"{re.escape(family)}[0-9]{{1,3}}[a-z]?", item.id)
    ]


def hint() -> str:
    """What to do next with the form of a new entry."""
    further = [name for name in OPTIONAL if f"**{name}:**" not in _FORM]
    return (
        "move it under the heading where it belongs, fill in every field, then run: "
        "remote-gpu-trainer dev lint. "
        f"There are also {', '.join(further)}; CONTRIBUTING.md says what goes where"
    )
