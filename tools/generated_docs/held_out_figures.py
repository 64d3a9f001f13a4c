"""The figures in README: how well the look-up finds entries it learned no report of."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from remote_gpu_trainer.catalogue.bundle import CatalogueError

RESULTS = "evals/RESULTS.md"
OPENED = "evals/sets/sealed_opened.json"
SYSTEMS = ("lookup", "BM25")  # as the files name them
COLUMNS = ("first", "claimed and right", "three", "eighteen", "claims on strange")
_TABLE = re.compile(
    r"^\*\*\((?P<letter>[abc])\) [^\n:]*: (?P<reports>[^\n]*)\*\*\n\n(?P<rows>(?:\|.*\n)+)",
    re.M,
)


@dataclass(frozen=True)
class Graded:
    """How a system did on a set of reports. `letter`: the set's, from a to d."""

    letter: str
    reports: str  # which they are, in words
    count: str  # how many an entry explains + how many none does: 209+90
    system: str
    figures: list[str]  # in the order of COLUMNS, in percent


def held_out_reports(root: Path) -> list[Graded]:
    """Return how the systems did on each set.

    The reports kept apart first, as they were when they were graded last; then (a) to (c) of
    evals/RESULTS.md. Raises CatalogueError where those aren't there.
    """
    path = root / RESULTS
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    rows_shown = _sealed(root / OPENED)
    for table in _TABLE.finditer(text + "\n"):
        rows = [_cells(row) for row in table["rows"].splitlines()]
        systems = {cells[0]: dict(zip(rows[0], cells, strict=False)) for cells in rows[2:]}
        if systems.keys() >= {*SYSTEMS}:
            for name in SYSTEMS:
                figures = [percent(systems[name][column].split()[0]) for column in COLUMNS]
                count = systems[name]["n"]
                rows_shown.append(Graded(table["letter"], table["reports"], count, name, figures))
    if len(rows_shown) < 3 * len(SYSTEMS):
        raise CatalogueError(
            f"{RESULTS}: no tables about (a) to (c) with the rows {' and '.join(SYSTEMS)}; "
            "run python evals/run_evals.py --write"
        )
    return rows_shown


def openings(root: Path) -> tuple[int, str]:
    """How often the reports that were kept apart were opened, and when first: (0, "") if never."""
    path = root / OPENED
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return len(found), found[0]["date"] if found else ""


def _sealed(path: Path) -> list[Graded]:
    """The figures of the last time that the sealed reports were graded; [] before."""
    openings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    graded = [opening for opening in openings if opening["figures"].keys() >= {*SYSTEMS}]
    return [
        Graded(
            "d",
            f"kept apart, graded on {opening['date']}",
            f"{opening['figures'][name]['in scope']}+{opening['figures'][name]['strange']}",
            name,
            [percent(opening["figures"][name][column][0]) for column in COLUMNS],
        )
        for opening in graded[-1:]
        for name in SYSTEMS
    ]


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def percent(value: str | float) -> str:
    """'0.753' as '75 %', a dash as it is."""
    return "–" if value == "–" else f"{float(value):.0%}".replace("%", " %")
