"""The command `dev`: `lint`, `docs`, `new-entry` and `prove`, for maintainers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

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
        "--leads",
        action="store_true",
        help="also print first paragraphs that are too long to lead an answer, or no sentence; "
        "they don't change the exit status",
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


def run_lint(args: argparse.Namespace) -> int:
    """`dev lint`: 0 nothing found, 1 findings."""
    from datetime import date

    from ..catalogue import bundle
    from ..catalogue.lint import leads, lint

    root = args.root or bundle.bundle_root()
    if not (root / "references").is_dir():
        raise bundle.CatalogueError(
            f"no references/ in {root}; pass the folder that holds the catalogue"
        )
    read = bundle.read(root)
    faults = lint(read, date.today())
    for fault in faults:
        print(fault)
    for lead in leads(read) if args.leads else ():
        print(lead)
    print(f"{len(read.entries)} entries, {len(faults)} findings", file=sys.stderr)
    return 1 if faults else 0


def run_docs(args: argparse.Namespace) -> int:
    """`dev docs`: 0 up to date or written, 1 out of date."""
    from ..catalogue import bundle
    from .documents import outdated

    with terminal.waiting("generating …"):
        stale = outdated(bundle.bundle_root(), write=args.write)
    for name in stale:
        print(f"{name}: {'written' if args.write else 'out of date; run rgt dev docs --write'}")
    return 0 if args.write or not stale else 1


def run_new_entry(args: argparse.Namespace) -> int:
    """`dev new-entry`: prints the form, or writes it into its page."""
    from datetime import date

    from ..catalogue import authoring, bundle

    read = bundle.read(bundle.bundle_root())
    name, markdown = authoring.form(read, args.family, args.title, date.today())
    if not args.write:
        print(markdown, end="")
        return 0
    print(f"{authoring.put(read, args.family, markdown, args.page)}: {name}")
    print(authoring.hint(), file=sys.stderr)
    return 0


def run_prove(args: argparse.Namespace) -> int:
    """`dev prove`: 0 all proven, 1 one failed, 2 one couldn't run."""
    from ..catalogue import authoring, bundle

    with terminal.waiting("running the proofs …"):
        found = authoring.prove(bundle.load(), args.id)
    for one in found:
        print(f"{one.id} {one.verdict}: {one.tests} tests")
        for line in (*one.faults, *one.skipped):
            print(f"    {line}")
    verdicts = {one.verdict for one in found}
    return 1 if "refuted" in verdicts else 2 if "unknown" in verdicts else 0
