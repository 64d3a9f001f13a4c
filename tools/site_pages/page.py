"""A page of the site, its address, and the links between pages."""

from __future__ import annotations

import html
import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field

from remote_gpu_trainer.catalogue.entry import Signature

SITE = "https://remote-gpu-trainer.github.io/remote-gpu-trainer/"


@dataclass(frozen=True)
class Page:
    """A page: its address, its title, and the Markdown that the generator reads.

    `address` is the path below the site's root and ends with a slash; the home page's is empty.
    `about` is a sentence or two without markup, for lists, search results and search engines. It
    says what the title doesn't: an entry's has the cause.
    """

    address: str
    title: str
    markdown: str
    about: str
    note: str = ""  # a word or two beside the title where pages are listed
    signatures: tuple[Signature, ...] = ()
    search: bool = True

    def source(self) -> str:
        """The text of the page's file: what the generator puts into its head, then the page.

        The generator's templates escape neither.
        """
        head = {"title": html.escape(self.title), "description": html.escape(self.about)}
        lines = [f"{name}: {json.dumps(text, ensure_ascii=False)}" for name, text in head.items()]
        return "\n".join(["---", *lines, "---", "", self.markdown, ""])


@dataclass(frozen=True)
class Place:
    """Where a text is: the address of its page, its source file, and where its links may lead.

    `addresses` maps a file of the project, 'entry:ID' or 'page:NAME' to an address. A document
    links to a file by its relative path, or to a page that has no file by the site's own address.
    """

    address: str
    addresses: Mapping[str, str] = field(repr=False)
    source: str = ""
    every_id: bool = False  # link ids with one letter too; no graphics card can be meant

    def to(self, address: str) -> str:
        """The relative link from this page to an address of the site."""
        return relative(self.address, address)

    def path(self, target: str) -> str:
        """The file of the project that a relative link of the source leads to."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.source), target))

    def link(self, target: str) -> str:
        """The link that replaces a link of the source; '' when the site doesn't show its target.

        GitHub's anchor of an entry's heading, such as #d20--watchdog-caught, leads to the entry.
        """
        address = target.removeprefix(SITE)
        if address != target and address in self.addresses.values():
            return self.to(address)
        if target.startswith(("https://", "http://", "#", "mailto:")):
            return target
        path, _, anchor = target.partition("#")
        if entry := self._entry_with(anchor):
            return self.to(entry)
        if not path.startswith("entry:"):
            path = self.path(path)
        if path not in self.addresses:
            return ""
        return self.to(self.addresses[path]) + (f"#{anchor}" if anchor else "")

    def _entry_with(self, anchor: str) -> str:
        """The address of the entry whose heading has this anchor, '' for any other anchor."""
        name, dashes, _ = anchor.partition("--")
        if not dashes:
            return ""
        wanted = f"entry:{name}"
        found = (to for known, to in self.addresses.items() if known.lower() == wanted)
        return next(found, "")


def relative(start: str, address: str) -> str:
    """The relative link from the page at `start` to `address`, which works under any prefix."""
    way = posixpath.relpath("/" + address, "/" + start)
    return way + "/" if address.endswith("/") or not address else way


def file_of(address: str) -> str:
    """The Markdown file for an address.

    It has a folder of its own, so that the generator keeps its relative links.
    """
    return address + "index.md"
