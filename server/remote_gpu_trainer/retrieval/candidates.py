"""Ranked candidates, and the moves that rules make among them.

A move gives the candidate a probability that fits its new place. So the probabilities still fall
from the first candidate to the last, and a later step may sort by them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..catalogue.signatures import Hit

BELOW = 0.99  # share of a candidate's probability that one moved behind it gets


@dataclass(frozen=True)
class Candidate:
    """An entry that may explain a report.

    `probability` is its share among all entries, and `hit` its signature in the report, if any.
    `words`: the words of the report that speak most for it; empty from the fourth candidate on.
    """

    id: str
    probability: float
    hit: Hit | None = None
    words: tuple[str, ...] = ()


Candidates = tuple[Candidate, ...]


@dataclass(frozen=True)
class Ranking:
    """Candidates, best first, and what they are worth.

    `confidence` is high, medium or low, or "" where nothing is claimed. `worth_a_look`: whether the
    titles may hold the right one; without it the report is plainly of another field. `known_words`
    counts the different words of the compared text that occur in entries, and `known_share` is
    their share of all its words.
    """

    candidates: Candidates
    confidence: str
    worth_a_look: bool = False
    known_words: int = 0
    known_share: float = 1.0


def put_first(candidate: Candidate, candidates: Candidates) -> Candidates:
    """Put a candidate before the others, with at least the probability of the first.

    A candidate of the same id that is there already is moved as it is.
    """
    moved = next((c for c in candidates if c.id == candidate.id), candidate)
    highest = max([moved.probability, *(c.probability for c in candidates)])
    others = [c for c in candidates if c.id != candidate.id]
    return (replace(moved, probability=highest), *_below(highest, others))


def put_second(candidate: Candidate, candidates: Candidates) -> Candidates:
    """Put a candidate behind the first, unless it is the first."""
    first = candidates[0]
    if candidate.id == first.id:
        return candidates
    second = replace(candidate, probability=BELOW * first.probability)
    others = [c for c in candidates[1:] if c.id != candidate.id]
    return (first, second, *_below(second.probability, others))


def _below(probability: float, candidates: list[Candidate]) -> list[Candidate]:
    return [replace(c, probability=min(c.probability, BELOW * probability)) for c in candidates]


def promote(entry_id: str, ranking: Ranking) -> Ranking:
    """Put an entry first if it is a later candidate of a ranking that claims something.

    The claim is medium then.
    """
    if not ranking.confidence or entry_id not in [c.id for c in ranking.candidates[1:]]:
        return ranking
    candidates = put_first(Candidate(entry_id, 0.0), ranking.candidates)
    return replace(ranking, candidates=candidates, confidence="medium")


def second_from(all_ranks: Ranking, ranking: Ranking) -> Ranking:
    """Insert the entry whose root signature matches in the combined logs at second place.

    `ranking` is of the log of the rank that failed, `all_ranks` of the combined logs. Only a root
    signature counts: with the words of ranks that waited, fewer right entries came among three.
    """
    first = all_ranks.candidates[0] if all_ranks.candidates else None
    is_claimed = first and first.hit and first.hit.signature.role == "root" and all_ranks.confidence
    if not first or not is_claimed or not ranking.candidates:
        return ranking
    return replace(ranking, candidates=put_second(first, ranking.candidates))
