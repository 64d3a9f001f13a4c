"""The command `dev`: `lint`, `docs`, `new-entry` and `prove`, for maintainers.

A proof is a program under evals/proofs that shows a failure and its fix. It counts only if it ran;
a skipped one proves nothing.
"""

from __future__ import annotations

import argparse
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

from ..catalogue import bundle
from ..catalogue.bundle import Catalogue, CatalogueError
from ..catalogue.entry import DOMAINS, OPTIONAL, RETRIES, SEVERITIES, Entry, Retired
from . import terminal


def add_to(commands) -> None:
    """Add the command to the parser's commands."""
    dev = commands.add_parser(
        "dev",
        help="for maintainers: lint, docs, new-entry, prove",
        description="Work on the catalogue and the documents of this repository.",
    )
    below = dev.add_subparsers(dest="dev", required=True, metavar="COMMAND", title="commands")
    lint = below.add_parser(
        "lint",
        help="check the catalogue",
        description="Check grammar, ids, links, signatures and dates of the catalogue, and print "
        "one line for each finding. Exit 1 if there are any.",
    )
    lint.add_argument(
        "root",
        nargs="?",
        type=Path,
        help="a folder that holds references/ (default: this installation's)",
    )
    lint.add_argument(
        "--checks",
        action="store_true",
        help="also print the entries whose check no proof runs; they don't change the exit status",
    )
    lint.set_defaults(run=run_lint)

    docs = below.add_parser(
        "docs",
        help="check the generated documents, or write them",
        description="Check that the generated documents, and the generated parts of others, are "
        "up to date. Exit 1 if one isn't.",
    )
    docs.add_argument("--write", action="store_true", help="write those that are out of date")
    docs.set_defaults(run=run_docs)

    new = below.add_parser(
        "new-entry",
        help="start an entry under the next free id of its family",
        description="Print the form of a new entry under the next free id of its family.",
    )
    new.add_argument("family", help="the letters of the id: O, D, VAST")
    new.add_argument("--title", required=True, help="what the user sees, in 5 to 18 words")
    new.add_argument("--write", action="store_true", help="write it into the family's page")
    new.add_argument(
        "--page",
        metavar="FILE",
        help="with --write: into this page; a new family needs one, such as "
        "references/training/moe-fp8.md",
    )
    new.set_defaults(run=run_new_entry)

    prove = below.add_parser(
        "prove",
        help="run the programs that reproduce a failure and its fix",
        description="Run the proofs of entries: programs that reproduce the failure and its fix. "
        "Exit 0: all proven. Exit 1: one failed. Exit 2: one couldn't run, or there is none.",
    )
    prove.add_argument("id", nargs="*", help="entries, such as O7 (default: all with a proof)")
    prove.set_defaults(run=run_prove)


# What a proof that runs the code under Check has in it.
_CHECKS = re.compile(r"\b(?:printed|value_of|shell_of|check_code)\b|\.check\b|_the_check_")


def run_lint(args: argparse.Namespace) -> int:
    """`dev lint`: 0 nothing found, 1 findings."""
    from ..catalogue.lint import lint, notes

    root = args.root or bundle.bundle_root()
    if not (root / "references").is_dir():
        raise bundle.CatalogueError(
            f"no references/ in {root}; pass the folder that holds the catalogue"
        )
    read = bundle.read(root)
    faults = lint(read, date.today())
    for fault in faults:
        print(fault)
    for told in unchecked(read) if args.checks else ():
        print(told)
    for note in notes(read):
        print(f"note: {note}", file=sys.stderr)
    print(f"{len(read.entries)} entries, {len(faults)} findings", file=sys.stderr)
    return 1 if faults else 0


def run_docs(args: argparse.Namespace) -> int:
    """`dev docs`: 0 up to date or written, 1 out of date."""
    from .documents import outdated

    with terminal.waiting("generating …"):
        stale = outdated(bundle.bundle_root(), write=args.write)
    for name in stale:
        print(f"{name}: {'written' if args.write else 'out of date; run rgt dev docs --write'}")
    return 0 if args.write or not stale else 1


def run_new_entry(args: argparse.Namespace) -> int:
    """`dev new-entry`: prints the form, or writes it into its page."""

    read = bundle.read(bundle.bundle_root())
    name, markdown = form(read, args.family, args.title, date.today())
    if not args.write:
        print(markdown, end="")
        return 0
    print(f"{put(read, args.family, markdown, args.page)}: {name}")
    print(hint(), file=sys.stderr)
    return 0


def run_prove(args: argparse.Namespace) -> int:
    """`dev prove`: 0 all proven, 1 one failed, 2 one couldn't run."""

    with terminal.waiting("running the proofs …"):
        found = prove(bundle.load(), args.id)
    for one in found:
        print(f"{one.id} {one.verdict}: {one.tests} tests")
        for line in (*one.faults, *one.skipped):
            print(f"    {line}")
    verdicts = {one.verdict for one in found}
    return 1 if "refuted" in verdicts else 2 if "unknown" in verdicts else 0


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
        "fill in every field, then run: remote-gpu-trainer dev lint. "
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


def unchecked(catalogue: Catalogue) -> list[str]:
    """A line for each entry whose check no proof runs."""
    told = []
    for entry in catalogue.entries:
        proof = proof_of(catalogue.root, entry.id)
        if not proof.is_file():
            told.append(f"{entry.id}: no proof")
        elif not _CHECKS.search(proof.read_text(encoding="utf-8")):
            told.append(f"{entry.id}: its proof doesn't run the check")
    return told


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
