"""Entries as an answer shows them: a match, the first match in full, a title, a whole entry."""

from __future__ import annotations

from dataclasses import fields

from ..catalogue.entry import Entry
from .budget import (
    cut_before_code,
    first_paragraph,
    fitting,
    opening,
    plain,
    tokens,
    tokens_of_json,
)
from .claims import Claim
from .parts import MOST


def matches_of(claims: list[Claim], doubts: dict[str, str]) -> list[dict]:
    """The matches of an answer: the first with its texts, the others with title and check.

    `doubts` says by id why an entry may not hold here.
    """
    matches = [_match(claim, doubts.get(claim.entry.id, "")) for claim in claims]
    if claims:
        matches[0] |= _texts_of_first(claims[0].entry, [claim.entry for claim in claims[1:]])
    return matches


def _match(claim: Claim, doubt: str) -> dict:
    """A match with its title, and as much of its check as it has room for."""
    entry, title = claim.entry, plain(claim.entry.title)
    room = max(MOST["match"] - tokens(title), 20.0)
    return {
        "id": entry.id,
        "title": title,
        "why": claim.why,
        "confidence": claim.confidence,
        "severity": entry.severity,
        "check": cut_before_code(first_paragraph(entry.check), room) or f"see entry {entry.id}",
        "stale": doubt,
    }


def _texts_of_first(entry: Entry, others: list[Entry]) -> dict:
    """What the first match has in addition. `others` are the entries of the further matches."""
    leads = fitting(
        {
            "root_cause": first_paragraph(entry.root_cause),
            "fix": opening(entry.fix),
            "check": first_paragraph(entry.check),
        },
        MOST["leads"],
    )
    return {
        **leads,
        "distinguish": cut_before_code(_distinguish(entry, others), MOST["distinguish"]),
        "domain": entry.domain,
        "retry": entry.retry,
    }


def _distinguish(entry: Entry, others: list[Entry]) -> str:
    """How to tell the first match from the next.

    What the entry says about a neighbour, otherwise what the neighbour says about it, otherwise the
    check of the next match.
    """
    apart = dict(entry.tell_apart)
    named = [f"{other.id}: {apart[other.id]}" for other in others if other.id in apart]
    if named:
        return "; ".join(named[:2])
    for other in others:
        turned = dict(other.tell_apart).get(entry.id)
        if turned:
            return f"{entry.id} rather than {other.id}: {turned}"
    return f"{others[0].id} instead, if: {first_paragraph(others[0].check)}" if others else ""


def titles(entries: list[Entry]) -> list[dict]:
    """As many ids with whole titles, from the start, as fit into their part of the answer."""
    shown: list[dict] = []
    room = float(MOST["titles"])
    for entry in entries:
        title = {"id": entry.id, "title": plain(entry.title)}
        room -= tokens_of_json(title)
        if room < 0:
            break
        shown.append(title)
    return shown


def whole_entry(entry: Entry) -> dict:
    """An entry for JSON: every field except its Markdown and its line, with lists as lists.

    A signature is a text as on the page, without its backticks: `/…/` is a regular expression, and
    (cascade) or (advice) may stand behind it.
    """
    values = {field.name: getattr(entry, field.name) for field in fields(entry)}
    values["verified"] = entry.verified.isoformat()
    values["tell_apart"] = dict(entry.tell_apart)
    values["signatures"] = [
        (f"/{s.text}/" if s.is_regex else s.text) + (f" ({s.role})" if s.role != "root" else "")
        for s in entry.signatures
    ]
    return {name: value for name, value in values.items() if name not in ("markdown", "line")}
