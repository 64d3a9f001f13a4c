"""`remote-gpu-trainer new-entry`: the form of an entry under the next id of its family. The empty fields are findings of lint, so an unfilled form doesn't pass."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from .bundle import Catalogue, CatalogueError
from .entry import OPTIONAL, SEVERITIES, Entry, Retired

_FAMILY = re.compile(r"K8S|[A-Z]{1,6}")
_FORM = """\
### {id} — {title}

**Symptom:**

**Root cause:**

**Fix:**

**Check:**

**Reported as:**

**Severity:** {severities}

**Verified:** {today}, read

**Sources:**
"""


def form(catalogue: Catalogue, family: str, title: str, today: date) -> tuple[str, str]:
    """(id, Markdown) of a new entry. An id is for ever: the next one comes after the retired ones too. Raises CatalogueError."""
    if not _FAMILY.fullmatch(family):
        raise CatalogueError(
            f"found family {family[:40]!r}, expected one to six capital letters, such as O or VAST"
        )
    title = " ".join(title.split())
    if not title:
        raise CatalogueError(
            "found no title, expected 5 to 18 words that say what is seen; do: give --title TEXT"
        )
    numbers = [int(re.sub(r"\D", "", item.id[len(family) :])) for item in _items(catalogue, family)]
    name = f"{family}{max(numbers, default=0) + 1}"
    return name, _FORM.format(id=name, title=title, severities=" or ".join(SEVERITIES), today=today)


def put(catalogue: Catalogue, family: str, markdown: str, page: str | None) -> Path:
    """Write the form behind the family's last entry, or at the end of `page` (below the catalogue's root). Returns the page. Raises CatalogueError."""
    if not (catalogue.root / "pyproject.toml").is_file():
        raise CatalogueError(
            f"found no checkout at {catalogue.root}, expected one to write into; do: clone the repository, and pip install -e . there"
        )
    there = _items(catalogue, family)
    pages = sorted({item.path for item in there})
    if page is None and len(pages) != 1:
        raise CatalogueError(
            f"found {len(pages)} pages of the family {family} ({', '.join(pages) or 'none yet'}), expected one; do: name it with --page"
        )
    place = catalogue.root / (page or pages[0])
    if (
        place.suffix != ".md"
        or not place.is_file()
        or catalogue.root not in place.resolve().parents
    ):
        raise CatalogueError(
            f"found no page {page!r} in {catalogue.root}, expected a Markdown file below references/ or profiles/"
        )
    text = place.read_bytes().decode()
    before = [
        item
        for item in there
        if isinstance(item, Entry) and item.path == place.relative_to(catalogue.root).as_posix()
    ]
    end = max(
        (text.index(entry.markdown.rstrip()) + len(entry.markdown.rstrip()) for entry in before),
        default=len(text.rstrip()),
    )
    place.write_bytes(
        f"{text[:end]}\n\n{markdown.rstrip()}\n{text[end:]}".rstrip().encode() + b"\n"
    )
    return place


def _items(catalogue: Catalogue, family: str) -> list[Entry | Retired]:
    return [
        item
        for item in (*catalogue.entries, *catalogue.retired)
        if re.fullmatch(rf"{re.escape(family)}[0-9]{{1,3}}[a-z]?", item.id)
    ]


def hint() -> str:
    """What lint doesn't say of an empty form."""
    return f"fill every field, then: remote-gpu-trainer lint. There are also {', '.join(OPTIONAL)}; CONTRIBUTING.md tells what goes where"
