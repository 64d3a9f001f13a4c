"""The best figures so far, a line for each frozen set of cases. They only go up."""

from __future__ import annotations

import json
from pathlib import Path

from .cases import Case, set_hash
from .grade import Grade, rates

HIGHER = ("hit1", "hit3", "hit10")


def figures(grades: list[Grade]) -> dict[str, float]:
    """The figures of the reporting half that the floor holds."""
    half = rates([g for g in grades if g.case.half == "reporting"])
    return {**{name: round(getattr(half, name)[0], 4) for name in HIGHER}, "false": round(half.false[0], 4)}


def below(path: Path, cases: list[Case], grades: list[Grade]) -> list[str]:
    """One line for each figure under the floor of this set of cases; a set without a floor is a fault too."""
    floors = json.loads(path.read_text()) if path.is_file() else {}
    held = floors.get(set_hash(cases))
    if held is None:
        return [f"{path}: found no floor for the set of cases {set_hash(cases)}, expected one; run evals/run_evals.py --write"]
    now = figures(grades)
    lines = [f"{name}: found {now[name]}, expected at least {held[name]}" for name in HIGHER if now[name] < held[name]]
    if now["false"] > held["false"]:
        lines.append(f"false answers: found {now['false']}, expected at most {held['false']}")
    return lines


def raise_to(path: Path, cases: list[Case], grades: list[Grade]) -> None:
    """Take today's figures where they are better than what is held."""
    floors = json.loads(path.read_text()) if path.is_file() else {}
    now, name = figures(grades), set_hash(cases)
    held = floors.get(name, now)
    floors[name] = {
        **{key: max(held[key], now[key]) for key in HIGHER},
        "false": min(held["false"], now["false"]),
        "cases": len(cases),
    }
    path.write_text(json.dumps(floors, indent=1) + "\n")
