"""Which entries explain how a run ended."""

from __future__ import annotations

from contextlib import suppress

from ..catalogue import bundle
from ..catalogue.entry import Entry
from ..catalogue.signatures import Pattern
from ..logs.files import Unreadable
from .answer import answer_for
from .budget import cut, first_paragraph, plain

CHECK = 60  # tokens of the check of an entry


def explanations(
    lines: list[str], named: str, by: str, reason: str, further: bool = True
) -> list[dict]:
    """Return the entries that explain how a run ended.

    Each is {id, title, by, domain, retry, proof, check}, texts that may be empty behind `by`.
    `lines` are the end of its log. `named`: the id that `by` names, '' for none; `reason` is why.
    `further`: whether the log's end may name others.
    """
    explained, matches, shown = [], [], ""
    if further and lines:
        with suppress(Unreadable):
            answer = answer_for(text="\n".join(lines))
            matches = answer.matches
            shown = f"log: {answer.evidence[0]['text']}" if answer.first_failure else ""
    if named:
        with suppress(bundle.CatalogueError):  # an id of another release
            proof = "; ".join(filter(None, (reason, shown)))
            explained.append(_explained(bundle.load().get(named), by, lines, proof))
    for match in matches:
        if match["id"] not in [entry["id"] for entry in explained]:
            by = f"the log's end, {match['confidence']} confidence"
            entry = bundle.load().get(match["id"])
            explained.append(_explained(entry, by, lines, match["why"]))
    return explained


def _explained(entry: Entry, by: str, lines: list[str], reason: str) -> dict:
    """One explanation; the last line with a root signature of the entry proves it."""
    patterns = [Pattern(s) for s in entry.signatures if s.role == "root"]
    shows = [line for line in lines if any(pattern.matches(line) for pattern in patterns)]
    return {
        "id": entry.id,
        "title": plain(entry.title),
        "by": by,
        "domain": entry.domain,
        "retry": entry.retry,
        "proof": f"log: {shows[-1].strip()}" if shows else reason,
        "check": cut(first_paragraph(entry.check), CHECK),
    }
