"""The sealed set: graded when the user opens it, and each opening is written down.

sets/sealed_opened.json is a list of openings: date, commit, what was done, and the figures of that
moment as [share, low, high].
"""

from __future__ import annotations

import json
import subprocess
from datetime import datetime, timezone
from pathlib import Path

from . import headline, report, unseen
from .cases import read_cases
from .grade import Grade, rates

OPENED = unseen.SETS / "sealed_opened.json"
NAME = "(d) sealed"


def run(path: Path = unseen.SEALED) -> tuple[str, dict]:
    """(tables, {system: figures}) of the set in `path`."""
    cases = read_cases(path)
    found = headline.run({NAME: cases})
    text = "\n\n".join(
        [
            report.beside(f"{NAME}: {len(cases)} reports", found.graded[NAME]),
            headline.confidences(NAME, cases, found.answers),
        ]
    )
    return text, {name: figures(grades) for name, grades in found.graded[NAME].items()}


def figures(grades: list[Grade]) -> dict:
    """What is written down of one system: {column: [share, low, high]}, and how many reports."""
    found = rates(grades)
    kept = {
        "first": found.first,
        "three": found.three,
        "eighteen": found.eighteen,
        "claimed and right": found.hit1,
        "claims on strange": found.false,
    }
    shares = {name: [round(value, 4) for value in share] for name, share in kept.items()}
    return {"in scope": found.inside, "strange": found.outside, **shares}


def write_down(what: str, found: dict, path: Path = OPENED) -> None:
    """Add an opening: now, at the commit that is checked out."""
    opening = {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "commit": _commit(),
        "what": what,
        "figures": found,
    }
    path.write_text(json.dumps([*opened(path), opening], indent=1) + "\n", encoding="utf-8")


def opened(path: Path = OPENED) -> list[dict]:
    """All openings, oldest first."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def openings(path: Path = OPENED) -> str:
    """One line: how often the set was opened, and for what; empty where it never was."""
    found = opened(path)
    if not found:
        return ""
    graded = sum(opening["what"] == "graded" for opening in found)
    return (
        f"No change was made because of (d), but it was opened {len(found)} times from "
        f"{found[0]['date']} to {found[-1]['date']}: {graded} times to grade the look-up, "
        f"{len(found) - graded} times for a reader."
    )


def told(path: Path = OPENED) -> str:
    """A table of every opening with figures, the look-up's or a reader's; empty without any."""
    tables = []
    for opening in opened(path):
        if opening["figures"]:
            title = f"{NAME}: {opening['what']} on {opening['date']} at {opening['commit']}"
            rows = [
                report.row(
                    name,
                    f"{found['in scope']}+{found['strange']}",
                    *(report.shown(tuple(found[key])) for key in report.NAMES),
                )
                for name, found in opening["figures"].items()
            ]
            tables.append(report.table(title, ("system", "n", *report.NAMES), rows))
    return "\n\n".join(tables)


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"],
        cwd=unseen.EVALS,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() or "unknown"
