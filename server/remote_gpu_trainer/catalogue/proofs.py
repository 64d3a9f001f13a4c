"""The proofs of entries: programs under evals/proofs that show a failure and its fix.

A proof counts only if it ran; a skipped one proves nothing.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from .bundle import Catalogue, CatalogueError
from .entry import Entry

PROOFS = "evals/proofs"
INSTALL = "pip install -e '.[proofs]'"
_BLOCK = re.compile(r"```\w*\n(.*?)```", re.S)
_SPAN = re.compile(r"``(.+?)``|`([^`]+)`", re.S)
# How a proof takes code from the Check of the entry with this id.
_TAKES = (
    r"""\b(?:printed|value_of|shell_of|span|block)\(\s*["']{id}["'](?!\s*,\s*["']fix)"""
    r"""|\bget\(["']{id}["']\)\.check\b"""
)


@dataclass(frozen=True)
class Proven:
    """The result of one entry's proof.

    `tests` counts its tests. `faults` has the first line of each failure. `skipped` has, for each
    test that was skipped or broke before it reached the failure, the reason.
    """

    id: str
    tests: int
    faults: tuple[str, ...]
    skipped: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """proven, refuted or unknown."""
        if self.faults:
            return "refuted"
        return "unknown" if self.skipped or not self.tests else "proven"


def proof_of(root: Path, entry_id: str) -> Path:
    """The path of an entry's proof in the checkout at `root`."""
    return root / PROOFS / f"test_{entry_id.lower()}.py"


def unchecked(catalogue: Catalogue) -> list[str]:
    """A line for each entry whose Check no proof ran, as its Verified says."""
    return [
        f"{entry.id}: "
        + ("Check read" if proof_of(catalogue.root, entry.id).is_file() else "no proof")
        for entry in catalogue.entries
        if "Check" not in entry.ran_fields
    ]


def takes_check(entry: Entry, proof: str) -> bool:
    """Whether the proof's text takes the code of the entry's Check, or repeats a line of it.

    It can't tell whether the proof then runs that code, nor what for. A Check whose first paragraph
    is advice without any code has nothing to take.
    """
    if re.search(_TAKES.format(id=re.escape(entry.id)), proof):
        return True
    blocks = _BLOCK.findall(entry.check)
    prose = _BLOCK.sub("", entry.check)
    if not blocks and not _commands(prose.split("\n\n")[0]):
        return True
    lines = [line for block in blocks for line in block.splitlines()]
    words = " ".join(proof.split())
    return any(_plain(code) in words for code in [*_commands(prose), *filter(_is_command, lines)])


def _commands(prose: str) -> list[str]:
    """The spans of code that are more than a name, a value or an option."""
    return list(filter(_is_command, (one or other for one, other in _SPAN.findall(prose))))


def _is_command(code: str) -> bool:
    return len(code) > 12 and bool(re.search(r"[ (=]", code.strip()))


def _plain(code: str) -> str:
    return " ".join(code.split())


def prove(catalogue: Catalogue, ids: Sequence[str]) -> list[Proven]:
    """Run the proofs of these entries; without ids, of all that have one.

    pytest's output goes to stderr. Raises CatalogueError if there is no proof to run, or no
    pytest to run it.
    """
    names = _with_a_proof(catalogue, ids)
    if importlib.util.find_spec("pytest") is None:
        raise CatalogueError(f"pytest isn't installed; run {INSTALL}")
    cases = _run([proof_of(catalogue.root, name) for name in names], catalogue.root)
    return [_result(name, cases.get(proof_of(catalogue.root, name).stem, [])) for name in names]


def _with_a_proof(catalogue: Catalogue, ids: Sequence[str]) -> list[str]:
    """The ids of the entries to prove, each once. Raises CatalogueError where one has no proof."""
    root = catalogue.root
    if not (root / PROOFS).is_dir():
        raise CatalogueError(f"no {PROOFS} in {root}; clone the repository and run {INSTALL} in it")
    names = list(dict.fromkeys(catalogue.get(name).id for name in ids)) or [
        entry.id for entry in catalogue.entries if proof_of(root, entry.id).is_file()
    ]
    missing = [name for name in names if not proof_of(root, name).is_file()]
    if missing:
        raise CatalogueError(
            f"no proof of {', '.join(missing)}; write "
            f"{proof_of(root, missing[0]).relative_to(root)} as docs/guides/add-an-entry.md says"
        )
    return names


def _run(files: Sequence[Path], root: Path) -> dict[str, list[ElementTree.Element]]:
    """{name of a file: its test cases}, as pytest reports them. Raises CatalogueError."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["--continue-on-collection-errors", f"--junitxml={report}"]
        command += ["-o", "junit_family=xunit1", "--"]
        done = subprocess.run(
            [*command, *map(str, files)],
            check=False,
            cwd=root,
            stdout=sys.stderr,
            # Options that the user sets for other runs may not fit this one.
            env={k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"},
        )
        if not report.is_file():
            raise CatalogueError(
                f"pytest ended with {done.returncode} and wrote no report; see its output above"
            )
        cases: dict[str, list[ElementTree.Element]] = {}
        # pytest has just written this file, so its XML can be trusted.
        for case in ElementTree.parse(report).iter("testcase"):
            cases.setdefault(Path(case.get("file", "")).stem, []).append(case)
    return cases


def _result(name: str, cases: Sequence[ElementTree.Element]) -> Proven:
    """The result of one proof by its test cases."""

    def messages(*kinds: str) -> tuple[str, ...]:
        results = [
            (case.get("name", ""), item.get("message") or "")
            for case in cases
            for kind in kinds
            for item in case.findall(kind)
        ]
        return tuple(
            f"{test}: {text.strip().partition(chr(10))[0][:200]}" for test, text in results
        )

    return Proven(name, len(cases), messages("failure"), messages("skipped", "error"))
