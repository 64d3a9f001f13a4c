"""Evidence to ranked entries, and when to answer nothing. Pure: no clock, no file, no network.

Three layers vote: literal signatures, words weighted by field (BM25F), and a linear classifier that has a class
`none` for reports that no entry explains. A small model adds the three votes; its weights, like all numbers here, are
made by evals/train.py from practice reports and the tuning half of the cases, and lie in ranking.bin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .evidence import Evidence
from .features import features
from .ranking import NONE, Ranking
from .signatures import Hit, SignatureIndex


@dataclass(frozen=True)
class Candidate:
    """An entry with its probability and the words that speak for it, strongest first."""

    id: str
    probability: float
    hit: Hit | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """Candidates best first; `none` is the probability that no entry fits; confidence high, medium, low or ''."""

    candidates: tuple[Candidate, ...]
    none: float
    confidence: str


def rank(evidence: Evidence, ranking: Ranking, signatures: SignatureIndex, most: int = 13) -> Found:
    """The `most` likeliest entries. An empty confidence means: answer nothing."""
    values = features(evidence)
    hits = signatures.find(evidence)
    scores = combine(votes(values, hits, ranking), ranking)
    total = sum(math.exp(s) for s in scores.values())
    shares = {name: math.exp(s) / total for name, s in scores.items()}
    none = shares.pop(NONE)
    ordered = sorted(shares, key=lambda name: -shares[name])[:most]
    best = {}
    for hit in sorted(hits, key=lambda h: h.decisive):
        best[hit.entry_id] = hit
    candidates = tuple(
        Candidate(name, shares[name], best.get(name), tuple(ranking.reasons(name, values)) if place < 3 else ())
        for place, name in enumerate(ordered)
    )
    return Found(candidates, none, _confidence(candidates, none, ranking))


def votes(values: dict[str, float], hits: list[Hit], ranking: Ranking) -> dict[str, list[float]]:
    """{entry or NONE: one number a voter}; the order of the numbers is `ranking.VOTERS`."""
    learned = ranking.learned(values)
    counted = ranking.counted(values)
    top = max(counted.values(), default=0.0) or 1.0
    decisive: dict[str, int] = {}
    other: dict[str, int] = {}
    for hit in hits:
        group = decisive if hit.decisive else other
        group[hit.entry_id] = group.get(hit.entry_id, 0) + 1
    highest = max(learned.values())
    spread = math.log(sum(math.exp(v - highest) for v in learned.values())) + highest
    return {
        name: [
            learned[name] - spread,
            counted.get(name, 0.0) / top,
            math.log1p(counted.get(name, 0.0)),
            min(decisive.get(name, 0), 2) / max(1, len(decisive)) if decisive else 0.0,
            1.0 if name in decisive else 0.0,
            1.0 if name in other and name not in decisive else 0.0,
            1.0 if name == NONE else 0.0,
            1.0 if name == NONE and (decisive or other) else 0.0,
        ]
        for name in learned
    }


def combine(voted: dict[str, list[float]], ranking: Ranking) -> dict[str, float]:
    """One score an entry, the voters' numbers times their weights."""
    return {name: sum(w * v for w, v in zip(ranking.weights, numbers)) for name, numbers in voted.items()}


def _confidence(candidates: tuple[Candidate, ...], none: float, ranking: Ranking) -> str:
    if not candidates or none > ranking.limits["none"]:
        return ""
    best = candidates[0].probability
    for name in ("high", "medium"):
        if best >= ranking.limits[name]:
            return name
    return "low"
