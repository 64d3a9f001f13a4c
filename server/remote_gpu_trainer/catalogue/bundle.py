"""Every entry, read once; by id, by family. Finds the pages in a wheel, an editable install and a checkout alike."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path

from ..text.errors import UserError
from .entry import Entry, Fault, Retired, Signature
from .grammar import read_page

FOLDERS = ("references", "profiles")


class CatalogueError(UserError):
    """The catalogue can't be read, or has no such id. The text says what to do."""


class Catalogue:
    """Entries in the order of their pages; `retired` maps an old id to its successor."""

    def __init__(
        self,
        root: Path,
        entries: tuple[Entry, ...],
        retired: tuple[Retired, ...],
        faults: tuple[Fault, ...],
    ):
        self.root, self.entries, self.retired, self.faults = root, entries, retired, faults

    @property
    def signatures(self) -> list[tuple[str, tuple[Signature, ...]]]:
        """(id, signatures) of each entry."""
        return [(entry.id, entry.signatures) for entry in self.entries]

    @cached_property
    def by_id(self) -> dict[str, Entry]:
        return {entry.id: entry for entry in self.entries}

    @cached_property
    def successors(self) -> dict[str, str]:
        return {old.id: old.successor for old in self.retired}

    def current(self, entry_id: str) -> str:
        """Follow redirects to the id that answers today. An unknown id comes back as it is."""
        seen = set()
        while entry_id in self.successors and entry_id not in seen:
            seen.add(entry_id)
            entry_id = self.successors[entry_id]
        return entry_id

    def get(self, entry_id: str) -> Entry:
        """The entry with this id, or with the id that replaced it. Raises CatalogueError."""
        wanted = self.current(entry_id.strip())
        found = self.by_id.get(wanted) or self.by_id.get(wanted.upper())
        if found:
            return found
        ordered = (
            sorted(group, key=lambda entry: (len(entry.id), entry.id))
            for group in self.families.values()
        )
        families = ", ".join(f"{group[0].id} to {group[-1].id} ({len(group)})" for group in ordered)
        raise CatalogueError(
            f"found id {entry_id[:40]!r}, expected one of the catalogue's: {families}"
        )

    @cached_property
    def families(self) -> dict[str, list[Entry]]:
        groups: dict[str, list[Entry]] = {}
        for entry in self.entries:
            groups.setdefault(entry.family, []).append(entry)
        return groups


def bundle_root() -> Path:
    """The folder that holds references/. Raises CatalogueError when the installation lacks it."""
    package = Path(__file__).resolve().parent.parent
    for root in (package / "_bundle", package.parent.parent):
        if (root / "references").is_dir():
            return root
    raise CatalogueError(f"found no references/ in {package / '_bundle'} or {package.parent.parent}, expected the catalogue; reinstall remote-gpu-trainer")  # fmt: skip


def pages(root: Path) -> list[Path]:
    """The Markdown files that may hold entries, in a stable order."""
    return sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.md"))


def nothing_in(root: Path) -> CatalogueError:
    """What to raise for a folder without an entry."""
    return CatalogueError(
        f"found no entry under {root}, expected references/**/*.md with entries; run 'remote-gpu-trainer lint'"
    )


def texts(root: Path) -> Iterator[tuple[str, str | Fault]]:
    """(name, text) of each page. One that isn't UTF-8 is a fault, not an exception."""
    for path in pages(root):
        name = path.relative_to(root).as_posix()
        try:
            yield name, path.read_bytes().decode()
        except (UnicodeDecodeError, OSError) as error:
            yield (
                name,
                Fault(name, 1, f"found a page that can't be read ({error}), expected UTF-8 text"),
            )


def read(root: Path) -> Catalogue:
    """Read all pages under `root`."""
    entries, retired, faults = [], [], []
    for name, text in texts(root):
        if isinstance(text, Fault):
            faults.append(text)
            continue
        page = read_page(text, name)
        entries.extend(page.entries)
        retired.extend(page.retired)
        faults.extend(page.faults)
    return Catalogue(root, tuple(entries), tuple(retired), tuple(faults))


@lru_cache(maxsize=1)
def load() -> Catalogue:
    """The catalogue of this installation. Raises CatalogueError."""
    found = read(bundle_root())
    if not found.entries:
        raise nothing_in(found.root)
    return found
