"""For authors of entries: the form of a new entry, and the proofs of entries.

A proof is a program under evals/proofs that shows a failure and its fix. It counts only if it ran;
a skipped one proves nothing.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

from .bundle import Catalogue, CatalogueError
from .entry import DOMAINS, OPTIONAL, RETRIES, SEVERITIES, Entry, Retired

INSTALL = "pip install -e '.[proofs]'"
_FAMILY = re.compile(r"K8S|[A-Z]{1,6}")
_FORM = """\
### {id} — {title}

**Symptom:**

**Root cause:**

**Fix:**

**Check:**

**Reported as:**

**Domain:** {domains}

**Retry:** {retries}

**Severity:** {severities}

**Verified:** {today}, read

**Sources:**
"""


def form(catalogue: Catalogue, family: str, title: str, today: date) -> tuple[str, str]:
    """(id, Markdown) of a new entry, with the next id of its family. Raises CatalogueError.

    Ids are never reused, so retired ones count. `lint` reports each empty field.
    """
    if not _FAMILY.fullmatch(family):
        raise CatalogueError(
            f"{family[:40]!r} isn't a family; give one to six capital letters, such as O or VAST"
        )
    title = " ".join(title.split())
    if not title:
        raise CatalogueError(
            "no title; give 5 to 18 words that say what the user sees, with --title TEXT"
        )
    numbers = [int(re.sub(r"\D", "", item.id[len(family) :])) for item in _items(catalogue, family)]
    name = f"{family}{max(numbers, default=0) + 1}"
    return name, _FORM.format(
        id=name,
        title=title,
        domains=" or ".join(DOMAINS),
        retries=" or ".join(RETRIES),
        severities=" or ".join(SEVERITIES),
        today=today,
    )


def put(catalogue: Catalogue, family: str, markdown: str, page: str | None) -> Path:
    """Write a form into its page, and return the page. Raises CatalogueError.

    It goes after the family's last entry, or to the end of `page`, a path below the catalogue's
    root. `page` may be None if one page has the whole family.
    """
    root = catalogue.root
    if not (root / "pyproject.toml").is_file():
        raise CatalogueError(
            f"{root} isn't a checkout; clone the repository and run pip install -e . in it"
        )
    there = _items(catalogue, family)
    pages = sorted({item.path for item in there})
    if page is None and len(pages) != 1:
        raise CatalogueError(
            f"{len(pages)} pages have the family {family} ({', '.join(pages) or 'none yet'}); "
            "name one with --page"
        )
    place = root / (page or pages[0])
    if place.suffix != ".md" or not place.is_file() or root not in place.resolve().parents:
        raise CatalogueError(
            f"no page {page!r} in {root}; name a Markdown file below references/ or profiles/"
        )
    text = place.read_bytes().decode()
    name = place.relative_to(root).as_posix()
    before = [
        item.markdown.rstrip() for item in there if isinstance(item, Entry) and item.path == name
    ]
    end = max((text.index(entry) + len(entry) for entry in before), default=len(text.rstrip()))
    place.write_bytes(
        f"{text[:end]}\n\n{markdown.rstrip()}\n{text[end:]}".rstrip().encode() + b"\n"
    )
    return place


def _items(catalogue: Catalogue, family: str) -> list[Entry | Retired]:
    return [
        item
        for item in (*catalogue.entries, *catalogue.retired)
        if re.fullmatch(rf"{re.escape(family)}[0-9]{{1,3}}[a-z]?", item.id)
    ]


def hint() -> str:
    """What to do next with the form of a new entry."""
    further = [name for name in OPTIONAL if f"**{name}:**" not in _FORM]
    return (
        "fill in every field, or remove Domain and Retry, then run: remote-gpu-trainer dev lint. "
        f"There are also {', '.join(further)}; CONTRIBUTING.md says what goes where"
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
    """Where the proof of an entry belongs in the checkout at `root`."""
    return root / "evals" / "proofs" / f"test_{entry_id.lower()}.py"


def prove(catalogue: Catalogue, ids: list[str]) -> list[Proven]:
    """Run the proofs of these entries; without ids, of all that have one.

    pytest's output goes to stderr. Raises CatalogueError if there is no proof to run, or no
    pytest to run it.
    """
    root = catalogue.root
    if not (root / "evals" / "proofs").is_dir():
        raise CatalogueError(
            f"no evals/proofs in {root}; clone the repository and run {INSTALL} in it"
        )
    wanted = list(dict.fromkeys(catalogue.get(name).id for name in ids)) or [
        entry.id for entry in catalogue.entries if proof_of(root, entry.id).is_file()
    ]
    missing = [name for name in wanted if not proof_of(root, name).is_file()]
    if missing:
        raise CatalogueError(
            f"no proof of {', '.join(missing)}; write "
            f"{proof_of(root, missing[0]).relative_to(root)} as CONTRIBUTING.md describes"
        )
    if importlib.util.find_spec("pytest") is None:
        raise CatalogueError(f"pytest isn't installed; run {INSTALL}")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["--continue-on-collection-errors", f"--junitxml={report}"]
        command += ["-o", "junit_family=xunit1", "--"]
        done = subprocess.run(
            [*command, *(str(proof_of(root, name)) for name in wanted)],
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
        # pytest has just written this file, so its XML can be trusted.
        cases = list(ElementTree.parse(report).iter("testcase"))
    return [
        _read(name, [case for case in cases if Path(case.get("file", "")).stem == stem])
        for name, stem in ((name, proof_of(root, name).stem) for name in wanted)
    ]


def _read(name: str, cases: list[ElementTree.Element]) -> Proven:
    def lines(*kinds: str) -> tuple[str, ...]:
        found = [
            (case.get("name", ""), item.get("message") or "")
            for case in cases
            for kind in kinds
            for item in case.findall(kind)
        ]
        return tuple(f"{test}: {said.strip().partition(chr(10))[0][:200]}" for test, said in found)

    return Proven(name, len(cases), lines("failure"), lines("skipped", "error"))
