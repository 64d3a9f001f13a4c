"""What each voter says about each entry: votes, and the scores and shares that they add up to.

A gate weighs some of the same numbers to decide whether to answer at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import mul

from ..catalogue.signatures import Hit
from .ranking import VOTERS, Question, Ranking

LEARNED, COUNTED, SIGNATURE, NETWORK = map(
    VOTERS.index, ("learned", "counted", "signature", "network")
)


@dataclass(frozen=True)
class Votes:
    """The votes on one report.

    `by_voter`: a list for each of VOTERS, with a number for each of `Ranking.entries`.
    `inside`: how much the report is like one that an entry explains.
    `none`: the network's log-odds that no entry explains it.
    `over`: how far the linear classifier's best entry lies above its class for none.
    `meant`: as `none`, by the network over meaning.
    """

    by_voter: list[list[float]]
    inside: float
    none: float
    over: float
    meant: float


def votes(asked: Question, point: list[float], hits: list[Hit], ranking: Ranking) -> Votes:
    """What every voter says about every entry. `point`: what the report means, as a vector."""
    learned, inside = ranking.learned(asked)
    none = learned.pop()
    counted = ranking.counted(asked)
    network = ranking.network(asked)
    doubt = network.pop()
    meant = ranking.meaning(point)
    no_meaning = meant.pop()
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
        inside=inside,
        none=doubt - doubt_spread,
        over=over,
        meant=no_meaning - _spread(meant),
    )


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
    """Weighted sum of the votes, one number an entry. Voters without a weight have no say."""
    heard = [
        (weight, numbers)
        for weight, numbers in zip(weights, by_voter, strict=False)
        if any(numbers)
    ]
    found = [0.0] * len(by_voter[0])
    while len(heard) > 3:  # four at once are faster than one by one
        (a, one), (b, two), (c, three), (d, four) = heard[:4]
        found = [
            score + a * p + b * q + c * r + d * t
            for score, p, q, r, t in zip(found, one, two, three, four, strict=True)
        ]
        heard = heard[4:]
    for weight, numbers in heard:
        found = [score + weight * vote for score, vote in zip(found, numbers, strict=True)]
    return found


def shares_of(scores: list[float]) -> list[float]:
    """Each entry's share of the probability, given that one of them fits."""
    raised = list(map(math.exp, _less(scores, max(scores))))
    total = sum(raised)
    return [r / total for r in raised]


def gate_values(voted: Votes, scores: list[float]) -> list[float]:
    """What the gate weighs, in the order of GATE. `scores` are those of the same votes."""
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
        voted.meant,
        1.0,
    ]


def gate_score(values: list[float], weights: list[float]) -> float:
    """Log-odds that any entry fits."""
    return sum(map(mul, weights, values))
