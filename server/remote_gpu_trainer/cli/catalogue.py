"""The commands for whoever works on the catalogue: `lint`, `docs`, `new-entry` and `prove`. Arguments in, text out, no logic."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path


def add_to(commands, whole_parser: Callable[[], argparse.ArgumentParser]) -> None:
    """Add the commands to the parser's commands. `whole_parser` gives the parser of every command, whose help texts the documents hold."""
    lint = commands.add_parser("lint", help="check the catalogue's grammar, ids, links, signatures and dates", description="Check the catalogue. One line a finding, exit 1 when there is one.")  # fmt: skip
    lint.add_argument(
        "root",
        nargs="?",
        type=Path,
        help="a folder that holds references/ (default: this installation's)",
    )
    lint.set_defaults(run=run_lint)

    docs = commands.add_parser("docs", help="write the generated parts of the documents", description="Write the generated parts of the documents; without --write only tell which are out of date.")  # fmt: skip
    docs.add_argument("--write", action="store_true", help="write them")
    docs.set_defaults(run=run_docs, whole_parser=whole_parser)

    new = commands.add_parser(
        "new-entry", help="begin an entry under the next id of its family",
        description="Print the form of a new entry under the next id of its family; with --write put it into the family's page of this checkout.",
    )  # fmt: skip
    new.add_argument("family", help="the letters of the id: O, D, VAST")
    new.add_argument("--title", required=True, help="what is seen, in 5 to 18 words")
    new.add_argument(
        "--page",
        metavar="FILE",
        help="with --write: another page, or that of a new family, such as references/training/moe-fp8.md",
    )
    new.add_argument("--write", action="store_true", help="put it into the page")
    new.set_defaults(run=run_new_entry)

    prove = commands.add_parser(
        "prove", help="run the programs that show a failure and its fix",
        description="Run the proofs of these entries in a checkout. Exit 0: all proven. Exit 1: one failed. Exit 2: one couldn't run, or there is none.",
    )  # fmt: skip
    prove.add_argument(
        "id", nargs="*", help="entries, for example O7 (default: all that have a proof)"
    )
    prove.set_defaults(run=run_prove)


def run_lint(args: argparse.Namespace) -> int:
    from datetime import date

    from ..catalogue import bundle
    from ..catalogue.lint import lint

    root = args.root or bundle.bundle_root()
    if not (root / "references").is_dir():
        raise bundle.CatalogueError(
            f"found no references/ in {root}, expected the folder that holds the catalogue"
        )
    read = bundle.read(root)
    faults = lint(read, date.today())
    for fault in faults:
        print(fault)
    print(f"{len(read.entries)} entries, {len(faults)} findings", file=sys.stderr)
    return 1 if faults else 0


def run_docs(args: argparse.Namespace) -> int:
    from ..catalogue import bundle
    from .documents import outdated

    root = bundle.bundle_root()
    stale = outdated(root, args.whole_parser(), write=args.write)
    for name in stale:
        print(
            f"{name}: {'written' if args.write else 'out of date, run remote-gpu-trainer docs --write'}"
        )
    return 0 if args.write or not stale else 1


def run_new_entry(args: argparse.Namespace) -> int:
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
    from ..catalogue import authoring, bundle

    found = authoring.prove(bundle.load(), args.id)
    for one in found:
        print(f"{one.id} {one.verdict}: {one.tests} tests")
        for line in (*one.faults, *one.skipped):
            print(f"    {line}")
    verdicts = {one.verdict for one in found}
    return 1 if "refuted" in verdicts else 2 if "unknown" in verdicts else 0
