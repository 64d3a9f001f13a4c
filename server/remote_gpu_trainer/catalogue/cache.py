"""The catalogue as a look-up needs it: all signatures at once, an entry only when it is asked for.

Reading every entry takes longer than ranking a report. So this cuts each page at its headings and
takes only the signatures of each entry. The ten or so entries of an answer are then read whole.
A page that can't be read is left out, as `bundle.read` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from .bundle import bundle_root, nothing_in, texts
from .entry import Entry, Signature
from .grammar import Section, sections


class EntryCache(Mapping):
    """{id: entry} of all pages under `root`. An entry that breaks the grammar isn't in it."""

    def __init__(self, root: Path):
        self._sections: dict[str, Section] = {}
        self._read: dict[str, Entry | None] = {}
        for name, text in texts(root):
            if isinstance(text, str):
                self._sections.update(
                    (section.id, section) for section in sections(text, name) if section.id
                )

    def __getitem__(self, id: str) -> Entry:
        if id not in self._read:
            found = self._sections[id].read()
            self._read[id] = found if isinstance(found, Entry) else None
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

        The rest of an entry isn't read for it, so an entry with a fault elsewhere is included.
        """
        return (
            (id, found) for id, section in self._sections.items() if (found := section.signatures())
        )


@lru_cache(maxsize=1)
def load() -> EntryCache:
    """The catalogue of this installation, read once. Raises CatalogueError."""
    root = bundle_root()
    found = EntryCache(root)
    if not found._sections:
        raise nothing_in(root)
    return found
