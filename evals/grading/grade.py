"""Answers to grades. Pure; the bootstrap's seed is fixed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from remote_gpu_trainer.catalogue import bundle

from .cases import Case

ROUNDS = 1000


@dataclass(frozen=True)
class Grade:
    """One case, graded.

    `place` is that of the first right answer: 0 is first, None is not named. `false`: an answer was
    given where none is right.
    """

    case: Case
    place: int | None
    further: bool
    false: bool


@dataclass(frozen=True)
class Rates:
    """Shares of a group of cases, each with its 95 % interval.

    False answers are counted over out-of-scope cases only.
    """

    inside: int
    outside: int
    hit1: tuple[float, float, float]
    hit3: tuple[float, float, float]
    hit10: tuple[float, float, float]
    mrr: tuple[float, float, float]
    false: tuple[float, float, float]


def grade(cases: list[Case], answers) -> list[Grade]:
    """Grade every case. Ids that were retired count as their successors."""
    current = bundle.load().current
    grades = []
    for case in cases:
        matches, further = answers[case.id]
        right = {current(name) for name in case.expect}
        named = [current(name) for name in [*matches, *further]]
        place = next((i for i, name in enumerate(named[:10]) if name in right), None)
        grades.append(
            Grade(
                case,
                place,
                place is not None and place >= len(matches),
                not right and bool(matches) and matches[0] not in case.since,
            )
        )
    return grades


def rates(grades: list[Grade]) -> Rates:
    """Rates with bootstrap intervals."""
    inside = [g for g in grades if g.case.expect]
    outside = [g for g in grades if not g.case.expect]
    return Rates(
        len(inside), len(outside),
        _interval([float(g.place == 0 and not g.further) for g in inside]),
        _interval([float(g.place is not None and g.place < 3 and not g.further) for g in inside]),
        _interval([float(g.place is not None and g.place < 10) for g in inside]),
        _interval([1 / (g.place + 1) if g.place is not None else 0.0 for g in inside]),
        _interval([float(g.false) for g in outside]),
    )  # fmt: skip


def _interval(values: list[float]) -> tuple[float, float, float]:
    """(mean, low, high) of the 95 % percentile bootstrap; an empty group has no rate."""
    if not values:
        return (float("nan"),) * 3
    draw = random.Random(20261120)
    means = sorted(sum(draw.choices(values, k=len(values))) / len(values) for _ in range(ROUNDS))
    return sum(values) / len(values), means[int(ROUNDS * 0.025)], means[int(ROUNDS * 0.975) - 1]
