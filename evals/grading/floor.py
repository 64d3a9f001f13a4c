"""The best figures so far, a line for each frozen set of reports. They only get better.

It holds the hits of the reporting half and of the fresh reports, and the false answers of both
together: 291 reports that no entry explains are too few to tell 7 from 11. Older lines hold the
reporting half alone.
"""

from __future__ import annotations

import json
from pathlib import Path

from .cases import Case, set_hash
from .grade import Grade, rates

MOST_FALSE = 0.04  # of the reporting half's strange reports, whatever is held
HIGHER = ("hit1", "hit3", "hit10", "fresh1", "fresh3")


def figures(grades: list[Grade], fresh: list[Grade]) -> dict[str, float]:
    """The figures that the floor holds.

    `fresh1` and `fresh3` are hits of the fresh reports, `false` is the share of false answers among
    all reports that no entry explains.
    """
    reporting = [g for g in grades if g.case.half == "reporting"]
    half, others, both = rates(reporting), rates(fresh), rates([*reporting, *fresh])
    found = (half.hit1, half.hit3, half.hit10, others.hit1, others.hit3)
    return {
        **{name: round(rate[0], 4) for name, rate in zip(HIGHER, found, strict=False)},
        "false": round(both.false[0], 4),
    }


def below(path: Path, cases: list[Case], grades: list[Grade], fresh: list[Grade]) -> list[str]:
    """A line for each figure under the floor of these reports, or one where they have no floor."""
    floors = json.loads(path.read_text()) if path.is_file() else {}
    name = _name(cases, fresh)
    held = floors.get(name)
    if held is None:
        return [f"{path}: no floor for the set of reports {name}; run evals/run_evals.py --write"]
    now = figures(grades, fresh)
    lines = [
        f"{name}: {now[name]} is below the floor of {held[name]}"
        for name in HIGHER
        if now[name] < held[name]
    ]
    if now["false"] > held["false"]:
        lines.append(f"false answers: {now['false']} is above the floor of {held['false']}")
    alone = rates([g for g in grades if g.case.half == "reporting"]).false[0]
    if alone > MOST_FALSE:
        lines.append(
            f"false answers of the reporting half: {alone:.4f} is above the limit of {MOST_FALSE}"
        )
    return lines


def raise_to(path: Path, cases: list[Case], grades: list[Grade], fresh: list[Grade]) -> None:
    """Take today's figures where they are better than what is held."""
    floors = json.loads(path.read_text()) if path.is_file() else {}
    now, name = figures(grades, fresh), _name(cases, fresh)
    held = floors.get(name, now)
    floors[name] = {
        **{key: max(held[key], now[key]) for key in HIGHER},
        "false": min(held["false"], now["false"]),
        "cases": len(cases),
    }
    path.write_text(json.dumps(floors, indent=1) + "\n")


def _name(cases: list[Case], fresh: list[Grade]) -> str:
    return set_hash([*cases, *(g.case for g in fresh)])
