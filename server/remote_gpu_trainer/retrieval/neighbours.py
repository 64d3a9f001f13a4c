"""General entries and the special ones that their pages tell apart from them.

Few words ("training hangs") fit a dozen entries: then the one whose page tells most of the others
apart leads, because its check splits the cause. More words often name a special entry while the
general one has most of them: then the special one goes before it, or is named beside it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from ..catalogue.entry import Entry
from .index import tokens, words
from .search import MOST_PIECES, Candidate, Found, Retriever, behind, put_first

GENERAL = ("U10", "U24", "U3", "D20")
SHORT = 4  # known words of a report up to which it is too short to tell entries apart
# Of so many first candidates, how many the splitting page must name, and with how many the first
# one stays.
NEAR, SPLITS, KEPT = 10, 5, 4
NAMED = 3.5  # weight of the words that name a special entry, at least
AHEAD = 1.1  # times that of the next special entry
AGREED = 2  # first special entries by meaning, among which it must be
LIKELY = 0.5  # share of the general entry's belief from which the special one goes before it


def splitting_first(found: Found, entries: Mapping[str, Entry], known: int) -> Found:
    """For a report of few known words: with the entry first that tells most others apart."""
    if known > SHORT or not found.worth_a_look or any(c.hit for c in found.candidates[:1]):
        return found
    near = found.candidates[:NEAR]
    names = {candidate.id for candidate in near}

    def split(candidate: Candidate) -> int:
        return len(names.intersection(dict(entries[candidate.id].tell_apart)))

    best = near[0] if split(near[0]) >= KEPT else max(near, key=split)
    if split(best) < (KEPT if best is near[0] else SPLITS):
        return found
    return replace(
        found,
        candidates=put_first(best, found.candidates),
        confidence=found.confidence or "low",
    )


def special_of(
    found: Found, entries: Mapping[str, Entry], retriever: Retriever, text: str
) -> tuple[Found, str]:
    """What was found, and the special entry that the words of a report name beside a general one.

    The special entry stands first or second then. Its id is "" where there is none.
    """
    first = found.candidates[0] if found.candidates else None
    if first is None or first.id not in GENERAL or not found.confidence or not retriever.encoder:
        return found, ""
    general, index = entries[first.id], retriever.index
    kinds = [name for name, _ in general.tell_apart if name in entries and name in index.column]
    own = set(words(f"{general.title} {general.symptom}"))
    rest = " ".join(t for t in tokens(text) if not t[0].isdigit() and own.isdisjoint(words(t)))
    bags = {name: set(words(_told(entries[name]))) for name in kinds}
    common = Counter(word for bag in bags.values() for word in bag)
    said = set(words(rest))

    def worded(name: str) -> float:
        return sum(math.log(1 + len(kinds) / common[word]) for word in said & bags[name])

    best, *others = sorted(kinds, key=worded, reverse=True)
    if worded(best) < max(NAMED, AHEAD * max(map(worded, others), default=0.0)):
        return found, ""
    means = (index.points @ retriever.encoder.vector(rest, MOST_PIECES)).max(0)
    near = sorted(kinds, key=lambda name: -means[index.column[name]])
    if best not in near[:AGREED]:
        return found, ""
    special = next((c for c in found.candidates if c.id == best), Candidate(best, 0.0))
    if special.probability >= LIKELY * first.probability and not first.hit:
        return replace(found, candidates=put_first(special, found.candidates)), ""
    return replace(found, candidates=behind(1, special, found.candidates)), best


def _told(entry: Entry) -> str:
    return " ".join([entry.title, entry.symptom, *entry.reported_as])
