"""`remote-gpu-trainer prove`: run the programs under evals/proofs that show a failure and its fix. A proof counts only when it ran; one that was skipped proves nothing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from .bundle import Catalogue, CatalogueError

INSTALL = "pip install -e '.[proofs]'"


@dataclass(frozen=True)
class Proven:
    """One entry: its `tests`, and the first line of each fault; `skipped` says why one didn't run, or broke before it came to the failure."""

    id: str
    tests: int
    faults: tuple[str, ...]
    skipped: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """proven, refuted or unknown."""
        return (
            "refuted" if self.faults else "unknown" if self.skipped or not self.tests else "proven"
        )


def place(root: Path, entry_id: str) -> Path:
    return root / "evals" / "proofs" / f"test_{entry_id.lower()}.py"


def prove(catalogue: Catalogue, ids: list[str]) -> list[Proven]:
    """Run the proofs of these entries, of all that have one when none is named. Raises CatalogueError when there is nothing to run, or nothing to run it with."""
    root = catalogue.root
    if not (root / "evals" / "proofs").is_dir():
        raise CatalogueError(
            f"found no evals/proofs in {root}, expected a checkout; do: clone the repository, and {INSTALL} there"
        )
    wanted = list(dict.fromkeys(catalogue.get(name).id for name in ids)) or [
        entry.id for entry in catalogue.entries if place(root, entry.id).is_file()
    ]
    missing = [name for name in wanted if not place(root, name).is_file()]
    if missing:
        raise CatalogueError(
            f"found no proof of {', '.join(missing)}, expected {place(root, missing[0]).relative_to(root)}; CONTRIBUTING.md tells how to write one"
        )
    if importlib.util.find_spec("pytest") is None:
        raise CatalogueError(f"found no pytest, expected it; do: {INSTALL}")
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--continue-on-collection-errors",
            f"--junitxml={told}",
            "-o",
            "junit_family=xunit1",
            "--",
        ]
        done = subprocess.run(
            [*command, *(str(place(root, name)) for name in wanted)],
            check=False,
            cwd=root,
            stdout=sys.stderr,
        )
        if not told.is_file():
            raise CatalogueError(
                f"found pytest ended with {done.returncode} and without a report, expected 0 or 1; do: see what it wrote"
            )
        cases = list(
            ElementTree.parse(told).iter("testcase")
        )  # written by the pytest above, not by others
    return [
        _read(
            name,
            [case for case in cases if Path(case.get("file", "")).stem == place(root, name).stem],
        )
        for name in wanted
    ]


def _read(name: str, cases: list[ElementTree.Element]) -> Proven:
    def lines(*kinds: str) -> tuple[str, ...]:
        found = [
            (case.get("name", ""), item)
            for case in cases
            for kind in kinds
            for item in case.findall(kind)
        ]
        return tuple(
            f"{test}: {(item.get('message') or '').strip().partition(chr(10))[0][:200]}"
            for test, item in found
        )

    return Proven(name, len(cases), lines("failure"), lines("skipped", "error"))
