"""A page of the site, and where everything lies: addresses of sources and entries, and the way from one page to another."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field

from remote_gpu_trainer.catalogue.entry import Signature


@dataclass(frozen=True)
class Page:
    """`address` is the path below the site's root, with a slash at its end; the home page's is empty. `markdown` is what the generator reads."""

    address: str
    title: str
    markdown: str
    note: str = ""  # a word or two beside the title where pages are listed
    signatures: tuple[Signature, ...] = ()
    search: bool = True


@dataclass(frozen=True)
class Place:
    """Where a text stands: the page that shows it, the file that it comes from, and the addresses that its links may lead to."""

    address: str
    addresses: Mapping[str, str] = field(
        repr=False
    )  # file of the project, 'entry:ID' or 'page:NAME' -> address
    source: str = ""
    every_id: bool = False  # link ids of one letter too, where no graphics card can be meant

    def to(self, address: str) -> str:
        """The relative link from this page to an address of the site."""
        return relative(self.address, address)

    def path(self, target: str) -> str:
        """The file of the project that a relative link of the source leads to."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.source), target))

    def link(self, target: str) -> str:
        """What a link of the source becomes; empty when it leads to nothing that the site shows."""
        if target.startswith(("https://", "http://", "#", "mailto:")):
            return target
        path, _, anchor = target.partition("#")
        if not path.startswith(("entry:", "page:")):
            path = self.path(path)
        if path not in self.addresses:
            return ""
        return self.to(self.addresses[path]) + (f"#{anchor}" if anchor else "")


def relative(start: str, address: str) -> str:
    """The way from the page at `start` to `address`: both below the root, so that the site works under any prefix."""
    way = posixpath.relpath("/" + address, "/" + start)
    return way + "/" if address.endswith("/") or not address else way


def file_of(address: str) -> str:
    """The Markdown file that the generator makes this address of. In a folder of its own, so that it leaves the relative links as they are."""
    return address + "index.md"
