"""The best figures so far on what no model learned from, by a hash of the reports. They only rise.

It holds (a) to (c) of unseen.py: what is first, among three and among eighteen in each, and the
claims on the strange reports in all of them.
"""

from __future__ import annotations

import json
from pathlib import Path

from . import unseen
from .cases import Case, set_hash
from .grade import Grade, rates

HELD = ("first", "three", "eighteen")


def figures(graded: dict[str, list[Grade]]) -> dict[str, float]:
    """{`a first`: share …}, and `strange`: claims on strange reports."""
    found = {
        f"{name[1]} {key}": round(getattr(rates(grades), key)[0], 4)
        for name, grades in graded.items()
        for key in HELD
    }
    each = {g.case.id: g for grades in graded.values() for g in grades}
    return {**found, "strange": round(rates(list(each.values())).false[0], 4)}


def below(path: Path, graded: dict[str, list[Grade]]) -> list[str]:
    """A line for each figure under the floor of these reports, or one where they have no floor."""
    name = set_hash(_cases(graded))
    held = _read(path).get(name)
    if held is None:
        return [f"{path}: no floor for the set of reports {name}; run evals/run_evals.py --write"]
    now = figures(graded)
    return [
        f"{key}: {now[key]} is {'above' if key == 'strange' else 'below'} the floor of {held[key]}"
        for key in now
        if (now[key] > held[key] if key == "strange" else now[key] < held[key])
    ]


def raise_to(path: Path, graded: dict[str, list[Grade]]) -> None:
    """Take today's figures where they are better than what is held."""
    floors, now, cases = _read(path), figures(graded), _cases(graded)
    held = floors.get(set_hash(cases), now)
    floors[set_hash(cases)] = {
        **{key: (min if key == "strange" else max)(held[key], now[key]) for key in now},
        "cases": len(cases),
    }
    path.write_text(json.dumps(floors, indent=1) + "\n", encoding="utf-8")


def _read(path: Path) -> dict[str, dict[str, float]]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _cases(graded: dict[str, list[Grade]]) -> list[Case]:
    return unseen.together({name: [g.case for g in grades] for name, grades in graded.items()})
