"""The catalogue in a wheel, an editable install or a checkout.

`load` reads all of it: entries by id and by family, and redirects of old ids. `load_cache` reads
only the signatures, and an entry when it is needed. That is faster: an answer needs ten entries,
and reading all of them takes longer than ranking a report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path

from ..text import UserError
from .entry import Entry, Fault, Retired, Signature
from .grammar import Section, read_page, sections

FOLDERS = ("references", "profiles")


class CatalogueError(UserError):
    """The catalogue can't be read, or has no such id. The text says what to do."""


class Catalogue:
    """Entries in the order of their pages; `retired` has the ids that are no longer used."""

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
        """{id: entry}, without the retired ids."""
        return {entry.id: entry for entry in self.entries}

    @cached_property
    def successors(self) -> dict[str, str]:
        """{retired id: the id that replaced it}, which may be retired as well: see `current`."""
        return {old.id: old.successor for old in self.retired}

    def current(self, entry_id: str) -> str:
        """Follow redirects to the id in use today. An unknown id comes back unchanged."""
        seen = set()
        while entry_id in self.successors and entry_id not in seen:
            seen.add(entry_id)
            entry_id = self.successors[entry_id]
        return entry_id

    def get(self, entry_id: str) -> Entry:
        """The entry with this id, or with the id that replaced it. Raises CatalogueError."""
        current = self.current(self._spelt(entry_id))
        if current in self.by_id:
            return self.by_id[current]
        group = self.families.get(current.upper().rstrip("0123456789"), [])
        known = (
            f"that family has {', '.join(sorted((e.id for e in group), key=_by_number))}"
            if group
            else f"the families are {', '.join(self.families)}"
        )
        raise CatalogueError(f"no entry {entry_id[:40]!r}; {known}")

    def retired_id(self, entry_id: str) -> str:
        """`entry_id` if another entry has replaced it, else ''."""
        spelt = self._spelt(entry_id)
        return spelt if spelt in self.successors else ""

    def markdown(self, entry_id: str) -> str:
        """The text of an entry. For a retired id its heading comes first. Raises CatalogueError."""
        entry, old = self.get(entry_id), self.retired_id(entry_id)
        return (f"### {old} → {entry.id}\n\n" if old else "") + entry.markdown

    def _spelt(self, entry_id: str) -> str:
        """The id that a user means: `o7` is O7, and `O7a` stays if there is such an entry."""
        typed = entry_id.strip()
        return typed if typed in self.by_id or typed in self.successors else typed.upper()

    @cached_property
    def families(self) -> dict[str, list[Entry]]:
        """{letters of the id: entries}, both in the order of the pages."""
        groups: dict[str, list[Entry]] = {}
        for entry in self.entries:
            groups.setdefault(entry.family, []).append(entry)
        return groups


def _by_number(entry_id: str) -> tuple[int, str]:
    return len(entry_id), entry_id


def bundle_root() -> Path:
    """The folder that holds references/. Raises CatalogueError if the installation lacks it."""
    package = Path(__file__).resolve().parent.parent
    places = (package / "_bundle", package.parent.parent)
    for root in places:
        if (root / "references").is_dir():
            return root
    raise CatalogueError(
        f"no references/ in {places[0]} or {places[1]}; reinstall remote-gpu-trainer"
    )


def pages(root: Path) -> list[Path]:
    """The Markdown files that may hold entries, in a stable order."""
    return sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.md"))


def nothing_in(root: Path) -> CatalogueError:
    """The error to raise for a folder without any entry."""
    return CatalogueError(
        f"no entry under {root}; entries belong into references/**/*.md there, "
        "and 'rgt dev lint' says what is wrong with them"
    )


def texts(root: Path) -> Iterator[tuple[str, str | Fault]]:
    """(name, text) of each page. A page that isn't UTF-8 gives a fault instead of its text."""
    for path in pages(root):
        name = path.relative_to(root).as_posix()
        try:
            yield name, path.read_bytes().decode()
        except (UnicodeDecodeError, OSError) as error:
            yield name, Fault(name, 1, f"can't read the page ({error}); save it as UTF-8 text")


def read(root: Path) -> Catalogue:
    """Read all pages under `root`. `faults` lists what is wrong with them."""
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
    """The catalogue of this installation, read once. Raises CatalogueError."""
    catalogue = read(bundle_root())
    if not catalogue.entries:
        raise nothing_in(catalogue.root)
    return catalogue


class EntryCache(Mapping):
    """{id: entry} of all pages under `root`, without entries that break the grammar.

    `digest` is a hash of the pages' names and texts.
    """

    def __init__(self, root: Path):
        self._sections: dict[str, Section] = {}
        self._read: dict[str, Entry | None] = {}
        whole = sha256()
        for name, text in texts(root):
            whole.update(f"{name}\0{text}\0".encode())
            if isinstance(text, str):
                self._sections.update(
                    (section.id, section) for section in sections(text, name) if section.id
                )
        self.digest = whole.hexdigest()

    def __getitem__(self, id: str) -> Entry:
        if id not in self._read:
            content = self._sections[id].read()
            self._read[id] = content if isinstance(content, Entry) else None
        entry = self._read[id]
        if entry is None:
            raise KeyError(id)
        return entry

    def __iter__(self) -> Iterator[str]:
        return (id for id in self._sections if id in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def signatures(self) -> Iterator[tuple[str, tuple[Signature, ...]]]:
        """(id, signatures) of each entry that has some, in the order of the pages.

        The rest of an entry isn't read, so an entry with a fault elsewhere is included.
        """
        for id, section in self._sections.items():
            signatures = section.signatures()
            if signatures:
                yield id, signatures


@lru_cache(maxsize=1)
def load_cache() -> EntryCache:
    """The catalogue of this installation, read once. Raises CatalogueError."""
    root = bundle_root()
    entries = EntryCache(root)
    if not entries._sections:
        raise nothing_in(root)
    return entries
