"""Completion of arguments: ids of entries, names of platforms, targets."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp_types import Completion, PromptReference, ResourceTemplateReference

from ..catalogue import bundle
from ..catalogue.facts import pages
from ..runs import TARGETS

MOST_VALUES = 100  # in one reply, by the protocol
LONGEST_TYPED = 100  # characters of what is completed
IN_TITLES = 3  # characters from which titles are searched too


def add_to(server: MCPServer) -> None:
    """Register the completion of arguments."""

    @server.completion()
    async def complete(ref, argument, context) -> Completion:
        """An argument without completions gets an empty list, not an error."""
        try:
            values = candidates(_where(ref), argument.name, argument.value[:LONGEST_TYPED])
        except bundle.CatalogueError:
            values = []
        return Completion(
            values=values[:MOST_VALUES], total=len(values), has_more=len(values) > MOST_VALUES
        )


def _where(ref: PromptReference | ResourceTemplateReference) -> str:
    return ref.uri if isinstance(ref, ResourceTemplateReference) else ref.name


def candidates(where: str, name: str, typed: str) -> list[str]:
    """All values that the argument `name` may have, given what is typed.

    `where` is the name of a prompt or the URI of a resource template. Reads names only; the
    catalogue is read when an id is asked for. Raises CatalogueError when it is missing.
    """
    if (where, name) == ("entry://{id}", "id"):
        return _ids(typed.strip())
    if (where, name) in {
        ("profile://{name}", "name"),
        ("before_renting", "profile"),
        ("before_releasing", "profile"),
    }:
        return [platform for platform in platforms() if platform.startswith(_folded(typed))]
    if (where, name) == ("before_renting", "target"):
        return [target for target in TARGETS if target.startswith(_folded(typed))]
    return []


def _folded(typed: str) -> str:
    return typed.strip().lower()


def _ids(typed: str) -> list[str]:
    """Ids that begin with the text, then those whose title contains it."""
    entries = bundle.load().entries
    ids = [entry.id for entry in entries if entry.id.upper().startswith(typed.upper())]
    if len(typed) < IN_TITLES:
        return ids
    return ids + [
        entry.id
        for entry in entries
        if typed.lower() in entry.title.lower() and entry.id not in ids
    ]


def platforms() -> list[str]:
    """The names of the platforms. Raises CatalogueError when the catalogue is missing."""
    return [path.stem for path in pages(bundle.bundle_root())]
