"""How votes add up, when to stay silent, what confidence to claim: fitted on held-out answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy
from remote_gpu_trainer.retrieval import ranking, voting

# Share of held-out strange reports, with those set aside, that may be answered. The latter are
# harder: at this share 13 of the tuning half's 290 are answered, and one of eight of the others.
# 290 alone are too few to set a limit by.
FALSE_ANSWERS = 0.104
# Share of the tuning half's strange reports that may get titles to choose from. Whoever reads them
# leaves nearly all of these alone.
FALSE_TITLES = 0.12
# Share of right first answers at or above each confidence. A high one comes without other titles.
WANTED = {"high": 0.99, "medium": 0.80}


@dataclass(frozen=True)
class HeldOut:
    """The votes on one report by models that didn't learn from it.

    `right`: the columns of the right entries, none out of scope. `near`: chosen to look like an
    entry. `aside`: of practice, so that one reader said what is right and nobody confirmed it.
    """

    votes: voting.Votes
    right: tuple[int, ...]
    near: bool = False
    aside: bool = False


def voter_weights(
    reports: list[HeldOut], voters: int, steps: int = 500, rate: float = 0.05
) -> list[float]:
    """Weights of the first `voters` voters, by a conditional logit over the in-scope reports.

    It raises the shares of the right entries, and is drawn to the linear classifier.
    """
    groups = []
    for report in reports:
        if report.right:
            groups.append((numpy.array(report.votes.by_voter[:voters]).T, list(report.right)))
    start = numpy.array([6.0, 0.3, 0.3, 0.5, 0.5, 0.2, 1.0, 0.5])[:voters]
    w, m, s = start.copy(), numpy.zeros(len(start)), numpy.zeros(len(start))
    for step in range(1, steps + 1):
        gradient = 0.02 * (w - start)
        for matrix, right in groups:
            p = numpy.exp(matrix @ w - (matrix @ w).max())
            p /= p.sum()
            q = numpy.zeros_like(p)
            q[right] = p[right] / max(p[right].sum(), 1e-12)
            gradient += matrix.T @ (p - q) / len(groups)
        m, s = 0.9 * m + 0.1 * gradient, 0.999 * s + 0.001 * gradient**2
        w -= rate * (m / (1 - 0.9**step)) / (numpy.sqrt(s / (1 - 0.999**step)) + 1e-8)
    return [round(float(x), 4) for x in w]


def gate_weights(reports: list[HeldOut], weights: list[float]) -> list[float]:
    """Logistic regression on numbers of equal spread: does any entry fit?"""
    from sklearn.linear_model import LogisticRegression

    rows = numpy.array([_gate_row(report, weights) for report in reports])[:, :-1]
    middle, spread = rows.mean(0), rows.std(0) + 1e-9
    model = LogisticRegression(max_iter=2000, class_weight="balanced").fit(
        (rows - middle) / spread, [bool(r.right) for r in reports]
    )
    slopes = model.coef_[0] / spread
    return [round(float(x), 4) for x in (*slopes, model.intercept_[0] - (slopes * middle).sum())]


def _gate_row(report: HeldOut, weights: list[float]) -> list[float]:
    return voting.gate_values(report.votes, voting.scores_of(report.votes.by_voter, weights))


@dataclass(frozen=True)
class Judged:
    """One held-out report with weights and gate.

    `none`: the probability that no entry fits. `share`: that of the first entry. `place`: that of
    the right entry, 0 for the first. `inside`: whether an entry explains the report.
    """

    none: float
    share: float
    place: int
    inside: bool
    near: bool
    aside: bool


def judge(
    report: HeldOut, weights: list[float], gate_weights: list[float], gate: list[float]
) -> Judged:
    """Where the right entry stands, and how sure everything is."""
    shares = voting.shares_of(voting.scores_of(report.votes.by_voter, weights))
    order = sorted(range(len(shares)), key=lambda column: -shares[column])
    score = voting.gate_score(_gate_row(report, gate_weights), gate)
    place = next((i for i, column in enumerate(order) if column in report.right), 999)
    return Judged(
        float(1 / (1 + numpy.exp(score))),
        shares[order[0]],
        place,
        bool(report.right),
        report.near,
        report.aside,
    )


def limits(judged: list[Judged]) -> dict[str, float]:
    """The highest `none` at which an answer is given, and the least share for each confidence.

    Near misses set no limit, and what was set aside sets no confidence.
    """
    none = _limit([j.none for j in judged if not j.inside and not j.near], FALSE_ANSWERS)
    confirmed = [j for j in judged if not j.aside]
    found = {
        "none": none,
        "titles": max(
            none, _limit([j.none for j in confirmed if not j.inside and not j.near], FALSE_TITLES)
        ),
    }
    answered = sorted(((j.share, j.place == 0) for j in confirmed if j.none <= none), reverse=True)
    for name, wanted in WANTED.items():
        right, bound = 0, 0.999
        for count, (share, hit) in enumerate(answered, 1):
            right += hit
            if right / count >= wanted and count >= 10:
                bound = share
        found[name] = bound
    found["medium"] = min(found["medium"], found["high"])
    return {name: round(float(value), 4) for name, value in found.items()}


def _limit(outside: list[float], share: float) -> float:
    """The `none` that this share of the out-of-scope reports stays under, in its gap's middle."""
    outside = sorted(outside)
    at = int(len(outside) * share)
    return (outside[at] + outside[max(at - 1, 0)]) / 2 if outside else 0.5


def summary(
    judged: list[Judged], weights: list[float], gate: list[float], bounds: dict[str, float]
) -> str:
    """Lines for a person: the ranking alone, then with the gate."""
    aside = [j.none <= bounds["none"] for j in judged if j.aside and not j.inside]
    judged = [j for j in judged if not j.aside]
    inside, outside, near = (
        [j for j in judged if j.inside],
        [j for j in judged if not j.inside and not j.near],
        [j for j in judged if j.near],
    )
    alone = " ".join(
        f"hit@{k} {sum(j.place < k for j in inside) / len(inside):.3f}" for k in (1, 3, 10)
    )
    given = [j for j in inside if j.none <= bounds["none"]]
    with_gate = " ".join(
        f"hit@{k} {sum(j.place < k for j in given) / len(inside):.3f}" for k in (1, 3, 10)
    )
    false = sum(j.none <= bounds["none"] for j in outside)
    high = [j for j in given if j.share >= bounds["high"]]
    return (
        f"held out: {len(inside)} in scope, {len(outside)} outside\nranking alone: {alone}\n"
        f"with the gate: {with_gate}, silent {len(inside) - len(given)}, "
        f"false answers {false}/{len(outside)}, "
        f"on near misses {sum(j.none <= bounds['none'] for j in near)}/{len(near)}, "
        f"on those set aside {sum(aside)}/{len(aside)}, "
        f"high confidence {len(high)} of which right {sum(j.place == 0 for j in high)}\n"
        f"weights {dict(zip(ranking.VOTERS, weights, strict=False))}\n"
        f"gate {dict(zip(ranking.GATE, gate, strict=True))}\nlimits {bounds}"
    )
