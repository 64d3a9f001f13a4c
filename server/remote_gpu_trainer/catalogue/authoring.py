"""A new entry: its form, under the next free id of its family, and its place in a page."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from .bundle import Catalogue, CatalogueError
from .entry import DOMAINS, FIELDS, HINT, REQUIRED, RETRIES, SEVERITIES, Entry, Retired

_FAMILY = re.compile(r"K8S|[A-Z]{1,6}")
# What a field of a new entry holds before somebody fills it in; an optional one may be deleted.
_OPTIONAL_HINTS = {
    "Tell apart": "O1: how that entry differs",
    "False alarm": "what looks the same and isn't",
    "Signatures": "`a text that a log prints for this failure only`",
    "Applies to": "torch>=2.6 <2.9, platform:runpod, gpu:H100",
    "Needs": "what a proof lacks on a CPU: cuda, 2 gpus, slurm",
}


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
    values = {
        **{field: f" {HINT}{text}>" for field, text in _OPTIONAL_HINTS.items()},
        "Domain": " " + " or ".join(DOMAINS),
        "Retry": " " + " or ".join(RETRIES),
        "Severity": " " + " or ".join(SEVERITIES),
        "Verified": f" {today}, read",
    }
    fields = [field for field in FIELDS if field in REQUIRED or field in _OPTIONAL_HINTS]
    paragraphs = [f"**{field}:**{values.get(field, '')}" for field in fields]
    return name, "\n\n".join([f"### {name} — {title}", *paragraphs]) + "\n"


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
    return (
        "move it under the heading where it belongs, fill in every field, delete the optional ones "
        "that it doesn't need, then run: rgt dev lint. docs/guides/add-an-entry.md says what goes "
        "where"
    )
