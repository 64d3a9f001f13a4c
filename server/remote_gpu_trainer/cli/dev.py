"""The command `dev`: `lint`, `docs`, `new-entry`, `new-platform` and `prove`, for maintainers."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

import click

from ..catalogue import bundle
from ..text import BadRequest
from . import terminal
from .completion import entry_ids, families, files, folders
from .parsing import Group


@click.group("dev", cls=Group, subcommand_metavar="COMMAND ...")
def dev() -> None:
    """Work on the catalogue and the documents of this repository."""


@dev.command("lint", short_help="check the catalogue")
@click.argument(
    "root",
    required=False,
    type=Path,
    shell_complete=folders,
    help="a folder that holds references/ (default: this installation's)",
)
@click.option(
    "--checks",
    is_flag=True,
    help="also print the entries whose Check no proof ran; they don't change the exit status",
)
@click.option(
    "--costs",
    is_flag=True,
    help="also print each sentence of a Fix that raises a learning rate, deletes, restarts or pays",
)
def lint(root: Path | None, checks: bool, costs: bool) -> int:
    """Check grammar, ids, links, signatures and dates of the catalogue, and print one line for each
    finding.

    Exit 1 if there are any.
    """
    from ..catalogue.costly import costly_sentences
    from ..catalogue.lint import lint as faults_of
    from ..catalogue.lint import notes
    from ..catalogue.proofs import unchecked

    root = root or bundle.bundle_root()
    if not (root / "references").is_dir():
        raise bundle.CatalogueError(
            f"no references/ in {root}; pass the folder that holds the catalogue"
        )
    catalogue = bundle.read(root)
    faults = faults_of(catalogue, date.today())
    for fault in faults:
        print(fault)
    for line in unchecked(catalogue) if checks else ():
        print(line)
    for line in costly_sentences(catalogue) if costs else ():
        print(line)
    for note in notes(catalogue):
        print(f"note: {note}", file=sys.stderr)
    print(f"{len(catalogue.entries)} entries, {len(faults)} findings", file=sys.stderr)
    return 1 if faults else 0


@dev.command("docs", short_help="check the generated documents, or write them")
@click.option("--write", is_flag=True, help="write those that are out of date")
def docs(write: bool) -> int:
    """Check that the generated documents, and the generated parts of others, are up to date.

    Exit 1 if one isn't, or if an entry has a fault: nothing is written then.
    """
    root = _checkout()
    from generated_docs.documents import outdated

    faults = bundle.read(bundle.bundle_root()).faults
    for fault in faults:
        print(fault)
    if faults:
        return 1
    with terminal.waiting("generating …"):
        names = outdated(root, write=write)
    for name in names:
        print(f"{name}: {'written' if write else 'out of date; run rgt dev docs --write'}")
    return 0 if write or not names else 1


def _checkout() -> Path:
    """Return the checkout that this program runs from, with its tools/ on the path.

    Raises BadRequest where it is installed without one.
    """
    root = bundle.bundle_root()
    if not (root / "tools/generated_docs").is_dir():
        raise BadRequest(
            "only a checkout has the generators of the documents; clone the repository, and run "
            "pip install -e . there"
        )
    sys.path.insert(0, str(root / "tools"))
    return root


@dev.command("new-entry", short_help="start an entry under the next free id of its family")
@click.argument("family", shell_complete=families, help="the letters of the id: O, D, VAST")
@click.option("--title", required=True, help="what the user sees, in 5 to 18 words")
@click.option("--write", is_flag=True, help="write it into the family's page")
@click.option(
    "--page",
    metavar="FILE",
    shell_complete=files,
    help="with --write: into this page; a new family needs one, such as "
    "references/training/moe-fp8.md",
)
def new_entry(family: str, title: str, write: bool, page: str | None) -> int:
    """Print the form of a new entry under the next free id of its family."""
    from ..catalogue.authoring import form, hint, put

    catalogue = bundle.read(bundle.bundle_root())
    name, markdown = form(catalogue, family, title, date.today())
    if not write:
        print(markdown, end="")
        return 0
    print(f"{put(catalogue, family, markdown, page)}: {name}")
    print(hint(), file=sys.stderr)
    return 0


@dev.command("new-platform", short_help="start the page of a platform, with every fact it needs")
@click.argument("name", help="the page's name, as in rgt profile NAME: small letters")
@click.option("--title", help="the platform's own name (default: NAME)")
@click.option(
    "--kind",
    type=click.Choice(["rental", "scheduler", "notebook", "serverless", "own", "unnamed"]),
    default="rental",
    help="what is rented: it decides which facts there are (default: rental)",
)
def new_platform(name: str, title: str | None, kind: str) -> int:
    """Write profiles/NAME.md, where every fact is unknown and says so with today's date.

    Then fill in each fact with the page that states it and that page's date. What you can't find
    stays unknown, and its note says where you looked.
    """
    from ..platforms.authoring import form, put

    print(put(name, form(name, title or name, kind, date.today())))
    print(
        "fill in each fact with its source and date, then run: "
        f"rgt profile {name}. docs/guides/add-a-platform.md says what goes where",
        file=sys.stderr,
    )
    return 0


@dev.command("prove", short_help="run the programs that reproduce a failure and its fix")
@click.argument(
    "ids",
    nargs=-1,
    metavar="[ID]...",
    shell_complete=entry_ids,
    help="entries, such as O7 (default: all with a proof)",
)
def prove(ids: tuple[str, ...]) -> int:
    """Run the proofs of entries: programs that reproduce the failure and its fix.

    Exit 0: all proven. Exit 1: one failed. Exit 2: one couldn't run, or there is none.
    """
    from ..catalogue.proofs import prove as results_of

    with terminal.waiting("running the proofs …"):
        results = results_of(bundle.load(), ids)
    for result in results:
        print(f"{result.id} {result.verdict}: {result.tests} tests")
        for line in (*result.faults, *result.skipped):
            print(f"    {line}")
    verdicts = {result.verdict for result in results}
    return 1 if "refuted" in verdicts else 2 if "unknown" in verdicts else 0
