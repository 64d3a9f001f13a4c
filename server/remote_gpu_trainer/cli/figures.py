"""The look-up's figures on fresh reports beside BM25's, read from evals/RESULTS.md."""

from __future__ import annotations

import re
from pathlib import Path

from ..catalogue.bundle import CatalogueError

RESULTS = "evals/RESULTS.md"
SYSTEMS = {"lookup": "this look-up", "BM25": "BM25"}  # as the file names them, and as shown
COLUMNS = ("hit@1", "hit@3", "false answers")
_TABLE = re.compile(r"^(?:\*\*|#+ )(?P<title>[^\n]*)\n\n(?P<rows>(?:\|[^\n]*\n)+)", re.M)


def on_fresh_reports(root: Path) -> list[tuple[str, list[str]]]:
    """[(system, its figures in the order of COLUMNS, in percent)] on the set that taught nothing.

    Raises CatalogueError when evals/RESULTS.md has no such table.
    """
    path = root / RESULTS
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    for table in _TABLE.finditer(text + "\n"):
        rows = [_cells(row) for row in table["rows"].splitlines()]
        found = {cells[0]: dict(zip(rows[0], cells, strict=False)) for cells in rows[2:]}
        if "fresh" in table["title"] and SYSTEMS.keys() <= found.keys():
            return [
                (shown, [_percent(found[system][column]) for column in COLUMNS])
                for system, shown in SYSTEMS.items()
            ]
    raise CatalogueError(
        f"{RESULTS}: no table about fresh reports with the rows {' and '.join(SYSTEMS)}; "
        "run python evals/run_evals.py --write"
    )


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def _percent(cell: str) -> str:
    """'0.753 [0.70, 0.80]' as '75 %'."""
    return f"{float(cell.split()[0]):.0%}".replace("%", " %")
