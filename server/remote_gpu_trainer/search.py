"""Evidence to ranked entries, and when to answer nothing. Pure: no clock, no file, no network.

Five voters rank: literal signatures, words weighted by field (BM25F), a linear classifier over the entries, a
network with one hidden layer over words, and another over what the report means. Whether to answer at all is asked apart: a second classifier says how much the report is like one that any entry explains, and a
small gate weighs that with the lead of the first entry and with signatures; meaning has no part in that. All numbers are made by evals/train.py
from practice reports and the tuning half of the cases, and lie in ranking.bin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import mul

from .banners import only_versions
from .evidence import Evidence
from .features import features
from .gist import gist
from .ranking import NONE, VOTERS, Question, Ranking
from .signatures import Hit, SignatureIndex

LEARNED, COUNTED, SIGNATURE, NETWORK = map(VOTERS.index, ("learned", "counted", "signature", "network"))

LEAST_WORDS = 2  # known words without which a report says nothing
SURE_WORDS = {"high": 6, "medium": 3}  # and without which no such confidence is claimed, unless a signature decides


@dataclass(frozen=True)
class Candidate:
    """An entry with its probability and the words that speak for it, strongest first."""

    id: str
    probability: float
    hit: Hit | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """Candidates best first; `none` is the probability that no entry fits; confidence high, medium, low or ''.

    `doubtful`: no candidate is worth a claim, but their titles are worth a look by someone who knows the run.
    """

    candidates: tuple[Candidate, ...]
    none: float
    confidence: str
    doubtful: bool = False


def rank(evidence: Evidence, ranking: Ranking, signatures: SignatureIndex, most: int = 13) -> Found:
    """The `most` likeliest entries. An empty confidence means: answer nothing."""
    hits = signatures.find(evidence)
    asked = ranking.question(features(evidence))
    voted = votes(asked, ranking.encoder.vector(gist(evidence)), hits, ranking)
    inside = gate_score(gate_values(voted, shares_of(voted.of, ranking.gate_weights)), ranking.gate)
    none = 1 / (1 + math.exp(min(50.0, max(-50.0, inside))))
    shares = shares_of(voted.of, ranking.weights)
    ordered = sorted(shares, key=lambda name: -shares[name])[:most]
    best: dict[str, Hit] = {}
    for hit in sorted(hits, key=lambda h: h.decisive):
        best[hit.entry_id] = hit
    strongest = ranking.strongest(asked)
    candidates = tuple(
        Candidate(name, shares[name], best.get(name), tuple(ranking.reasons(name, strongest)) if place < 3 and name not in best else ())
        for place, name in enumerate(ordered)
    )
    said = ranking.telling(asked, max(SURE_WORDS.values()))
    if any(hit.decisive for hit in hits):
        none = min(none, ranking.limits["none"])  # the literal text of a failure is always worth an answer
        said = max(SURE_WORDS.values())
    elif said < LEAST_WORDS or only_versions(line.text for line in evidence.lines):
        none = 1.0
    confidence = _confidence(candidates, none, said, ranking)
    return Found(candidates, none, confidence, not confidence and none <= ranking.limits["titles"])


@dataclass(frozen=True)
class Votes:
    """of: {entry: one number a voter, in the order of VOTERS}; inside: how much the report is like one that an entry
    explains; none: the network's log-odds that no entry does; over: how far the linear classifier's best entry lies above its class for none."""

    of: dict[str, list[float]]
    inside: float
    none: float
    over: float


def votes(asked: Question, point: list[float], hits: list[Hit], ranking: Ranking) -> Votes:
    """What every voter says about every entry. `point`: what the report means."""
    learned, inside = ranking.learned(asked)
    none = learned.pop(NONE)
    counted = ranking.counted(asked)
    network = ranking.network(asked)
    doubt = network.pop(NONE)
    meant = ranking.meaning(point)
    meant.pop(NONE)
    top = max(counted.values(), default=0.0) or 1.0
    decisive = {hit.entry_id for hit in hits if hit.decisive}
    other = {hit.entry_id for hit in hits} - decisive
    spread, network_spread, meant_spread = _spread(learned.values()), _spread(network.values()), _spread(meant.values())
    share = 1.0 / len(decisive) if decisive else 0.0
    voted = {
        name: [
            by_words - spread,
            count / top,
            math.log1p(count),
            share if name in decisive else 0.0,
            1.0 if name in decisive else 0.0,
            1.0 if name in other else 0.0,
            by_network - network_spread,
            by_meaning - meant_spread,
        ]
        for (name, by_words), count, by_network, by_meaning in zip(learned.items(), counted.values(), network.values(), meant.values())
    }
    return Votes(voted, inside, doubt - network_spread, max(learned.values()) - none)


def _spread(values) -> float:
    """Log of the sum of exponentials."""
    highest = max(values)
    return math.log(sum(math.exp(v - highest) for v in values)) + highest


def shares_of(voted: dict[str, list[float]], weights: list[float]) -> dict[str, float]:
    """{entry: its share of the probability, given that one of them fits}. Voters beyond the weights have no say."""
    scores = {name: sum(map(mul, weights, numbers)) for name, numbers in voted.items()}
    highest = max(scores.values())
    raised = {name: math.exp(s - highest) for name, s in scores.items()}
    total = sum(raised.values())
    return {name: r / total for name, r in raised.items()}


def gate_values(voted: Votes, shares: dict[str, float]) -> list[float]:
    """What the gate weighs, in the order of GATE. `shares`: what `shares_of` made of these votes."""
    columns = list(zip(*voted.of.values()))
    best = [max(column) for column in columns]
    agree = columns[LEARNED].index(best[LEARNED]) == columns[NETWORK].index(best[NETWORK])
    return [
        voted.inside,
        best[LEARNED],
        best[COUNTED],
        best[SIGNATURE],
        voted.none,
        best[NETWORK],
        float(agree),
        math.log(max(shares.values())),
        voted.over,
        1.0,
    ]


def gate_score(values: list[float], weights: list[float]) -> float:
    """Log odds that any entry fits."""
    return sum(w * v for w, v in zip(weights, values))


def _confidence(candidates: tuple[Candidate, ...], none: float, said: int, ranking: Ranking) -> str:
    if not candidates or none > ranking.limits["none"]:
        return ""
    best = candidates[0].probability
    for name in ("high", "medium"):
        if best >= ranking.limits[name] and said >= SURE_WORDS[name]:
            return name
    return "low"
