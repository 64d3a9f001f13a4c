"""docs/launch_scripts.md: what public launch scripts need, and what says it in a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from .templates_of_documents import filled

DATA = "tests/runs/launch_scripts.yaml"
PAGE = "docs/launch_scripts.md"
_OTHERS = {"command": "shell", "setup": "shell", "runner": "runner", "no": "no"}
COLUMNS = ("field", "shell", "runner", "no")  # by what a need is met


def launch_scripts_page(root: Path) -> str:
    """The table and what no job says; the page as it is where there are no tests."""
    if not (root / DATA).is_file():
        return (root / PAGE).read_text(encoding="utf-8")
    scripts = yaml.safe_load((root / DATA).read_text(encoding="utf-8"))
    rows = [(script, counts(script)) for script in scripts]
    total = {column: sum(found[column] for _, found in rows) for column in COLUMNS}
    return filled("launch_scripts", rows=rows, total=total, columns=COLUMNS, gaps=_gaps(scripts))


def counts(script: dict[str, Any]) -> dict[str, int]:
    """How many needs of a script are met by what, in the order of COLUMNS."""
    met = [_OTHERS.get(need["by"], "field") for need in script["needs"]]
    return {column: met.count(column) for column in COLUMNS}


def _gaps(scripts: list[dict[str, Any]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """[(reason, [(script, need)])], what keeps the most scripts from saying something first."""
    gaps: dict[str, list[tuple[str, str]]] = {}
    for script in scripts:
        for need in script["needs"]:
            if need["by"] == "no":
                gaps.setdefault(need["why"], []).append((script["repository"], need["need"]))
    return sorted(gaps.items(), key=lambda gap: (-len({name for name, _ in gap[1]}), -len(gap[1])))
