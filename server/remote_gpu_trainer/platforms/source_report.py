"""The report on the sources of facts: for a terminal, as a Markdown page, as JSON, and its code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from urllib.parse import urlsplit

from ..catalogue import bundle
from . import checking, opening, profile, sources
from .opening import Opened
from .sources import AGAIN, CHANGED, GONE, OPENS, SAID, UNSEEN, Looked

# The heading of each state that is a reason to read a fact again.
HEADINGS = {
    GONE: "The page is gone",
    CHANGED: "A number isn't on the page",
    UNSEEN: "Couldn't be looked at",
}


def check(
    names: Iterable[str], on_opened=lambda count, total: None, root: Path | None = None
) -> list[Looked]:
    """Open the sources of the facts of these platforms or facts, of all without names.

    `on_opened` is told how many of how many pages were opened. Raises BadQuestion for an unknown
    name, FactError for a page of a platform that is wrong.
    """
    facts = sources.chosen(profile.read_all(root or bundle.bundle_root()), names)
    addresses = {fact.source for fact in facts.values()}
    opened: Mapping[str, Opened] = opening.open_all(
        sorted(addresses), lambda count: on_opened(count, len(addresses))
    )
    return sources.look(facts, opened)


def code(found: list[Looked]) -> int:
    """0 no fact is to be read again, 1 some are, 2 no page could be looked at."""
    if all(looked.state == UNSEEN for looked in found):
        return 2
    return 1 if any(looked.state in AGAIN for looked in found) else 0


def as_dict(found: list[Looked]) -> dict:
    """The JSON answer: the facts to `read_again`, most urgent first, and how many are what."""
    counts = Counter(looked.state for looked in found)
    return {
        "counts": {state: counts[state] for state in (*AGAIN, SAID, OPENS)},
        "read_again": [looked.as_dict() for looked in found if looked.state in AGAIN],
    }


def as_text(found: list[Looked], everything: bool = False) -> str:
    """The report for a terminal; with `everything` no finding is left out."""
    by_state = {state: [each for each in found if each.state == state] for state in AGAIN}
    sections = [
        checking.Section(
            f"{HEADINGS[state]}: {len(those)} of {len(found)} facts",
            f"{HEADINGS[state]}, so read again",
            [_line(looked) for looked in those],
            _by_site(those) if state == UNSEEN else None,
        )
        for state, those in by_state.items()
    ]
    out, cut = checking.printed(sections, everything)
    if cut:
        out += ["", "--all prints every finding; with a NAME, those of one platform or fact."]
    return "\n".join([*out, *([""] if out else []), _rest(found)])


def _line(looked: Looked) -> str:
    read = f"read {looked.checked}" if looked.checked else "a guess"
    return f"{looked.id} ({looked.matters}, {read}): {looked.why}: {looked.source}"


def _by_site(those: list[Looked]) -> list[str]:
    """A line for each site and reason: how many facts of it couldn't be looked at."""
    found: dict[tuple[str, str], list[Looked]] = {}
    for looked in those:
        found.setdefault((urlsplit(looked.source).netloc, looked.why), []).append(looked)
    most_first = sorted(found.items(), key=lambda item: -len(item[1]))
    return [f"{site}: {checking.count(each, 'fact')}, {why}" for (site, why), each in most_first]


def _rest(found: list[Looked]) -> str:
    """What is known of the facts that needn't be read again."""
    counts = Counter(looked.state for looked in found)
    return (
        f"Of {counts[SAID]} facts the page says the numbers or command words; of {counts[OPENS]} "
        "it opens, and shows nothing to compare."
    )


def as_markdown(found: list[Looked], on: date) -> str:
    """The report as a page for an issue, a table for each reason to read a fact again."""
    tables = [
        checking.table(
            HEADINGS[state],
            "id matters checked why source",
            [
                {**looked.as_dict(), "checked": looked.checked or "a guess"}
                for looked in found
                if looked.state == state
            ],
        )
        for state in AGAIN
    ]
    return checking.page(
        f"Sources of facts on {on}",
        tables,
        _rest(found),
        "remote-gpu-trainer staleness --sources --json",
    )
