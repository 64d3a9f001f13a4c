"""Completion of arguments: ids of entries, names of platforms, targets. Reads names only; the catalogue is read when an id is asked for."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp_types import Completion, PromptReference, ResourceTemplateReference

from ..catalogue import bundle

MOST = 100  # values in one reply, by the protocol
LONGEST = 100  # characters of what is completed
IN_TITLES = 3  # characters from which titles are searched too


def add_to(server: MCPServer) -> None:
    """Register the handler. What can't be completed gets an empty list, not an error."""

    @server.completion()
    async def complete(ref, argument, context) -> Completion:
        try:
            values = candidates(_where(ref), argument.name, argument.value[:LONGEST])
        except bundle.CatalogueError:
            values = []
        return Completion(values=values[:MOST], total=len(values), has_more=len(values) > MOST)


def candidates(where: str, name: str, begun: str) -> list[str]:
    """All values that go on from what is typed, for an argument of a prompt or of a resource template."""
    if (where, name) == ("entry://{id}", "id"):
        return _ids(begun.strip())
    if (where, name) in {
        ("profile://{name}", "name"),
        ("before_renting", "profile"),
        ("before_releasing", "profile"),
    }:
        return [stem for stem in _platforms() if stem.startswith(begun.strip().lower())]
    if (where, name) == ("before_renting", "target"):
        from ..runs.render import TARGETS  # the templates come with it

        return [target for target in TARGETS if target.startswith(begun.strip().lower())]
    return []


def _where(ref: PromptReference | ResourceTemplateReference) -> str:
    return ref.uri if isinstance(ref, ResourceTemplateReference) else ref.name


def _ids(begun: str) -> list[str]:
    """Ids that begin so; then those whose title holds the text."""
    entries = bundle.load().entries
    first = [entry.id for entry in entries if entry.id.upper().startswith(begun.upper())]
    if len(begun) < IN_TITLES:
        return first
    return first + [
        entry.id
        for entry in entries
        if begun.lower() in entry.title.lower() and entry.id not in first
    ]


def _platforms() -> list[str]:
    from ..catalogue.front_matter import pages

    return [path.stem for path in pages(bundle.bundle_root())]
