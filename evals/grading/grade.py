"""Answers to grades. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from remote_gpu_trainer.catalogue import bundle

from .cases import Case

SHOWN = 18  # entries of an answer that count: three matches and fifteen further titles
Share = tuple[float, float, float]  # with the ends of its 95 % interval


@dataclass(frozen=True)
class Grade:
    """One case, graded.

    `place` is that of the first right answer among all that is shown: 0 is first, None is not
    named. `further`: it is a title, no match. `claimed`: there is a match. `false`: there is one
    where none is right.
    """

    case: Case
    place: int | None
    further: bool
    claimed: bool
    false: bool


@dataclass(frozen=True)
class Rates:
    """Shares of a group of cases.

    `first`, `three` and `eighteen` count what is shown, matches and further titles; `hit1` and
    `hit3` count matches alone. `false`: claims, of the reports that no entry explains.
    """

    inside: int
    outside: int
    first: Share
    three: Share
    eighteen: Share
    hit1: Share
    hit3: Share
    false: Share


def grade(cases: list[Case], answers) -> list[Grade]:
    """Grade every case. Ids that were retired count as their successors."""
    current = bundle.load().current
    grades = []
    for case in cases:
        matches, further = answers[case.id]
        right = {current(name) for name in case.expect}
        named = [current(name) for name in [*matches, *further]][:SHOWN]
        place = next((i for i, name in enumerate(named) if name in right), None)
        grades.append(
            Grade(
                case,
                place,
                place is not None and place >= len(matches),
                bool(matches),
                not right and bool(matches) and matches[0] not in case.since,
            )
        )
    return grades


def rates(grades: list[Grade]) -> Rates:
    """Shares with their intervals."""
    inside = [g for g in grades if g.case.expect]
    outside = [g for g in grades if not g.case.expect]

    def within(most: int, claimed: bool = False) -> Share:
        return share(
            [g.place is not None and g.place < most and not (claimed and g.further) for g in inside]
        )

    return Rates(
        len(inside), len(outside), within(1), within(3), within(SHOWN), within(1, True),
        within(3, True), share([g.false for g in outside]),
    )  # fmt: skip


def share(found: list[bool]) -> Share:
    """(share, low, high): Wilson's 95 % interval; an empty group has no share."""
    n, z = len(found), 1.96
    if not n:
        return (math.nan,) * 3
    p = sum(found) / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return p, max(0.0, middle - half), min(1.0, middle + half)
