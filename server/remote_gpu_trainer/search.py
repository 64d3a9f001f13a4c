"""Evidence to ranked entries, and when to answer nothing. Pure: no clock, no file, no network.

Five voters rank: literal signatures, words weighted by field (BM25F), a linear classifier over the entries, a
network with one hidden layer over words, and another over what the report means. Whether to answer at all is asked apart: a second classifier says how much the report is like one that any entry explains, and a
small gate weighs that with the lead of the first entry and with signatures; meaning has no part in that. All numbers are made by evals/train.py
from practice reports and the tuning half of the cases, and lie in ranking.bin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import mul

from .banners import only_versions
from .evidence import Evidence
from .features import features
from .gist import gist
from .ranking import VOTERS, Question, Ranking
from .records import record
from .signatures import Hit, SignatureIndex
from .telling import telling

LEARNED, COUNTED, SIGNATURE, NETWORK = map(VOTERS.index, ("learned", "counted", "signature", "network"))

LEAST_WORDS = 2  # known words without which a report says nothing
SAID, EVEN = 0.3, 0.5  # weight of a sentence in the ranking; with one, what the mean probability that nothing fits may be
SHOWN = 0.75  # the same for a report that names the platform of the first entry
REASONED = 3  # first entries that say by which words they were found
SURE_WORDS = {"high": 6, "medium": 3}  # and without which no such confidence is claimed, unless a signature decides


@record
class Candidate:
    """An entry with its probability and the words that speak for it, strongest first."""

    id: str
    probability: float
    hit: Hit | None = None
    words: tuple[str, ...] = ()


@record
class Found:
    """Candidates best first; `none` is the probability that no entry fits; confidence high, medium, low or ''.

    `doubtful`: no candidate is worth a claim, but their titles are worth a look by someone who knows the run.
    """

    candidates: tuple[Candidate, ...]
    none: float
    confidence: str
    doubtful: bool = False


def rank(
    evidence: Evidence,
    ranking: Ranking,
    signatures: SignatureIndex,
    most: int = 13,
    said: Evidence | None = None,
    shows: Callable[[str], bool] = lambda name: False,
) -> Found:
    """The `most` likeliest entries. An empty confidence means: answer nothing.

    `said`: what somebody who read the report says of it in one sentence. It is heard within the report and for itself: two readings err otherwise.
    `shows(id)`: whether the report names the platform that an entry is about.
    """
    hits, waiting = _parted(signatures.find(evidence), ranking)
    asked, shares, none = _weighed(evidence, hits, ranking)
    if said is not None:
        _, others, nothing = _weighed(said, _parted(signatures.find(said), ranking)[0], ranking)
        shares = _normal([a ** (1 - SAID) * b**SAID for a, b in zip(shares, others)])
        none = math.sqrt(none * nothing) * ranking.limits["none"] / EVEN
    ordered = sorted(zip(shares, ranking.entries), key=_likeliest)[:most]
    best: dict[str, Hit] = {}
    for hit in sorted(hits, key=lambda h: h.decisive):
        best[hit.entry_id] = hit
    spoken = [name for _, name in ordered[:REASONED] if name not in best]
    strongest = ranking.strongest(asked) if spoken else []
    candidates = tuple(Candidate(name, share, best.get(name), tuple(ranking.reasons(name, strongest)) if name in spoken else ()) for share, name in ordered)
    known = ranking.telling(asked, max(SURE_WORDS.values()))
    literal = any(hit.decisive for hit in hits)
    if literal and waiting:
        candidates = _after_the_first(waiting, candidates)
    elif waiting:
        candidates = candidates if none <= ranking.limits["none"] else ()  # what the ranking isn't sure of doesn't stand beside a literal text
        for name, hit in waiting.items():
            candidates = _first(name, candidates, ranking.limits["medium"], hit)
    if literal or waiting:
        none = min(none, ranking.limits["none"])  # the literal text of a failure is always worth an answer
        known = max(SURE_WORDS.values())
    elif evidence.seen in ranking.column:
        none = min(none, ranking.limits["none"])  # and so is a curve that an entry is about
        candidates = _first(evidence.seen, candidates, ranking.limits["medium"])
    elif evidence.seen == "sound" or known < LEAST_WORDS or only_versions(line.text for line in evidence.lines):
        none = 1.0
    if ranking.limits["none"] < none <= SHOWN and shows(candidates[0].id):
        none = ranking.limits["none"]
    confidence = _confidence(candidates, none, known, ranking)
    return Found(candidates, none, confidence, not confidence and none <= ranking.limits["titles"])


def _parted(hits: list[Hit], ranking: Ranking) -> tuple[list[Hit], dict[str, Hit]]:
    """(hits of entries that the ranking was made with, the decisive hit of each that waits for its first training: its literal text alone finds it)."""
    known = [hit for hit in hits if hit.entry_id in ranking.column]
    return known, {hit.entry_id: hit for hit in hits if hit.decisive and hit.entry_id not in ranking.column}


def _weighed(evidence: Evidence, hits: list[Hit], ranking: Ranking) -> tuple[Question, list[float], float]:
    """(the question, each entry's share, the probability that none fits)."""
    told = telling(evidence)
    asked = ranking.question(features(evidence, told))
    voted = votes(asked, ranking.encoder.vector(gist(told)), hits, ranking)
    inside = gate_score(gate_values(voted, scores_of(voted.by_voter, ranking.gate_weights)), ranking.gate)
    none = 1 / (1 + math.exp(min(50.0, max(-50.0, inside))))
    return asked, shares_of(scores_of(voted.by_voter, ranking.weights)), none


def _normal(shares: list[float]) -> list[float]:
    total = sum(shares) or 1.0
    return [share / total for share in shares]


def _first(name: str, candidates: tuple[Candidate, ...], least: float, hit: Hit | None = None) -> tuple[Candidate, ...]:
    """With this entry before the others, at no less than this probability and they at less than its."""
    found = next((c for c in candidates if c.id == name), Candidate(name, 0.0, hit))
    found = found._replace(probability=max(found.probability, least))
    return (found, *[c._replace(probability=min(c.probability, 0.99 * found.probability)) for c in candidates if c.id != name])


def _after_the_first(waiting: dict[str, Hit], candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """With these behind the one whose literal text stands there too."""
    least = 0.99 * candidates[0].probability
    return (
        candidates[0],
        *[Candidate(name, least, hit) for name, hit in waiting.items()],
        *[c._replace(probability=min(c.probability, 0.99 * least)) for c in candidates[1:]],
    )


def _likeliest(item: tuple[float, str]) -> float:
    return -item[0]


@record
class Votes:
    """by_voter: one list a voter, in the order of VOTERS, one number an entry, in the order of `Ranking.entries`; inside: how much the report is
    like one that an entry explains; none: the network's log-odds that no entry does; over: how far the linear classifier's best entry lies above
    its class for none."""

    by_voter: list[list[float]]
    inside: float
    none: float
    over: float


def votes(asked: Question, point: list[float], hits: list[Hit], ranking: Ranking) -> Votes:
    """What every voter says about every entry. `point`: what the report means."""
    learned, inside = ranking.learned(asked)
    none = learned.pop()
    counted = ranking.counted(asked)
    network = ranking.network(asked)
    doubt = network.pop()
    meant = ranking.meaning(point)
    meant.pop()
    top = max(counted) or 1.0
    over, doubt_spread = max(learned) - none, _spread(network)
    decisive = {hit.entry_id for hit in hits if hit.decisive}
    share = 1.0 / len(decisive) if decisive else 0.0
    return Votes(
        [
            _less(learned, _spread(learned)),
            [count / top for count in counted],
            list(map(math.log1p, counted)),
            _marked(decisive, share, ranking),
            _marked(decisive, 1.0, ranking),
            _marked({hit.entry_id for hit in hits} - decisive, 1.0, ranking),
            _less(network, doubt_spread),
            _less(meant, _spread(meant)),
        ],
        inside, doubt - doubt_spread, over,
    )  # fmt: skip


def _spread(values: list[float]) -> float:
    """Log of the sum of exponentials."""
    highest = max(values)
    return math.log(sum(map(math.exp, _less(values, highest)))) + highest


def _less(values: list[float], number: float) -> list[float]:
    return [value - number for value in values]


def _marked(names: set[str], value: float, ranking: Ranking) -> list[float]:
    """`value` for these entries, 0 for the others."""
    found = [0.0] * len(ranking.entries)
    for name in names:
        found[ranking.column[name]] = value
    return found


def scores_of(by_voter: list[list[float]], weights: list[float]) -> list[float]:
    """Weighted sum of the votes, one number an entry. Voters beyond the weights have no say."""
    heard = [(weight, numbers) for weight, numbers in zip(weights, by_voter) if any(numbers)]
    found = [0.0] * len(by_voter[0])
    for (one, first), (other, second) in zip(heard[::2], heard[1::2]):
        found = [score + one * a + other * b for score, a, b in zip(found, first, second)]
    for weight, numbers in heard[len(heard) & ~1 :]:
        found = [score + weight * number for score, number in zip(found, numbers)]
    return found


def shares_of(scores: list[float]) -> list[float]:
    """Each entry's share of the probability, given that one of them fits."""
    raised = list(map(math.exp, _less(scores, max(scores))))
    total = sum(raised)
    return [r / total for r in raised]


def gate_values(voted: Votes, scores: list[float]) -> list[float]:
    """What the gate weighs, in the order of GATE. `scores`: what `scores_of` made of these votes."""
    learned, network = voted.by_voter[LEARNED], voted.by_voter[NETWORK]
    best_learned, best_network = max(learned), max(network)
    return [
        voted.inside,
        best_learned,
        max(voted.by_voter[COUNTED]),
        max(voted.by_voter[SIGNATURE]),
        voted.none,
        best_network,
        float(learned.index(best_learned) == network.index(best_network)),
        max(scores) - _spread(scores),
        voted.over,
        1.0,
    ]


def gate_score(values: list[float], weights: list[float]) -> float:
    """Log odds that any entry fits."""
    return sum(map(mul, weights, values))


def _confidence(candidates: tuple[Candidate, ...], none: float, said: int, ranking: Ranking) -> str:
    if not candidates or none > ranking.limits["none"]:
        return ""
    best = candidates[0].probability
    for name in ("high", "medium"):
        if best >= ranking.limits[name] and said >= SURE_WORDS[name]:
            return name
    return "low"
