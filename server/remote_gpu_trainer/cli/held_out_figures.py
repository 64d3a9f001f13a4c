"""The figures in README: how well the look-up finds entries it learned no report of."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ..catalogue.bundle import CatalogueError

RESULTS = "evals/RESULTS.md"
OPENED = "evals/sets/sealed_opened.json"
SYSTEMS = {"lookup": "this look-up", "BM25": "BM25"}  # as the files name them, and as shown
COLUMNS = ("first", "three", "eighteen", "claims on strange")
_TABLE = re.compile(
    r"^\*\*\([abc]\) [^\n:]*: (?P<reports>[^\n]*)\*\*\n\n(?P<rows>(?:\|.*\n)+)", re.M
)


def held_out_reports(root: Path) -> list[tuple[str, str, list[str]]]:
    """[(which reports, system, its figures in the order of COLUMNS, in percent)].

    The reports kept apart first, as they were when they were graded last; then (a) to (c) of
    evals/RESULTS.md. Raises CatalogueError where those aren't there.
    """
    path = root / RESULTS
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    rows_shown = _sealed(root / OPENED)
    for table in _TABLE.finditer(text.partition("\n## History\n")[0] + "\n"):
        rows = [_cells(row) for row in table["rows"].splitlines()]
        systems = {cells[0]: dict(zip(rows[0], cells, strict=False)) for cells in rows[2:]}
        if SYSTEMS.keys() <= systems.keys():
            for name, shown in SYSTEMS.items():
                figures = [_percent(systems[name][column].split()[0]) for column in COLUMNS]
                rows_shown.append((f"{table['reports']} ({systems[name]['n']})", shown, figures))
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


def _sealed(path: Path) -> list[tuple[str, str, list[str]]]:
    """The figures of the last time that the sealed reports were graded; [] before."""
    openings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    graded = [opening for opening in openings if SYSTEMS.keys() <= opening["figures"].keys()]
    return [
        (
            f"kept apart, graded on {opening['date']} "
            f"({opening['figures'][name]['in scope']}+{opening['figures'][name]['strange']})",
            shown,
            [_percent(opening["figures"][name][column][0]) for column in COLUMNS],
        )
        for opening in graded[-1:]
        for name, shown in SYSTEMS.items()
    ]


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def _percent(value: str | float) -> str:
    """'0.753' as '75 %', a dash as it is."""
    return "–" if value == "–" else f"{float(value):.0%}".replace("%", " %")
