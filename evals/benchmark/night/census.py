"""What came of the nights of public programs: python census.py shows the table of README.md."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROWS = HERE / "census.jsonl"
ARMS = {"bare": "a strong agent's own script", "ours": "`rgt`, from `rgt init`"}
HEAD = "| project | script | nights | ok | steps lost | results missing | late | seconds billed |"


def read_rows() -> list[dict]:
    """Return a row for each night: arm, task, fault, ok, lost, missing, billed, ended, late."""
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]


def format_row(name: str, arm: str, nights: list[dict]) -> str:
    """Return a line of the table."""
    kept = sum(one["ok"] for one in nights)
    missing = sum(len(one["missing"]) for one in nights)
    late = sum(one["late"] or not one["ended"] for one in nights)
    billed = sum(one["billed"] for one in nights) / len(nights)
    lost = sum(one["lost"] for one in nights)
    told = (name, ARMS[arm], len(nights), kept, lost, missing, late, f"{billed:.0f}")
    return f"| {' | '.join(map(str, told))} |"


def pairs(rows: Iterable[dict]) -> list[dict]:
    """Return the nights that were run with both scripts."""
    rows = list(rows)
    arms = defaultdict(set)
    for one in rows:
        arms[one["task"], one["fault"]].add(one["arm"])
    return [one for one in rows if len(arms[one["task"], one["fault"]]) == len(ARMS)]


def table(rows: list[dict]) -> str:
    """Return the table: a line for each project and script, and one for all."""
    by = defaultdict(list)
    for one in rows:
        by[one["task"], one["arm"]].append(one)
        by["all", one["arm"]].append(one)
    names = [*sorted({one["task"] for one in rows}), "all"]
    lines = [
        format_row(name, arm, by[name, arm]) for name in names for arm in ARMS if by[name, arm]
    ]
    return "\n".join([HEAD, "|---|---|" + "---:|" * 6, *lines])


def list_not_kept(rows: list[dict]) -> str:
    """Return the nights in which something was lost, missing or late, a line each."""
    shown = [
        f"- {one['task']}, {one['fault']}, {ARMS[one['arm']]}: {one['lost']} steps lost"
        + (f", without {', '.join(one['missing'])}" if one["missing"] else "")
        + (", ended late" if one["late"] or not one["ended"] else "")
        for one in sorted(rows, key=lambda one: (one["task"], one["fault"], one["arm"]))
        if not one["ok"]
    ]
    return "\n".join(shown) or "None."


def text() -> str:
    """Return what README.md shows."""
    rows = pairs(read_rows())
    return f"{table(rows)}\n\nNot kept, or late:\n\n{list_not_kept(rows)}\n"


if __name__ == "__main__":
    print(text())
