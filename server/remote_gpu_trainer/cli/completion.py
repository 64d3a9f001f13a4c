"""The command `completion`, and the values that it completes.

A completion must answer while somebody types, so nothing here parses more than it must.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from .parsing import OneOf, command, program

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SHELLS = ("bash", "zsh", "fish")


@command("completion")
@click.argument("shell", type=OneOf(SHELLS), metavar="SHELL", help=", ".join(SHELLS))
def completion(shell: str) -> int:
    """Print a script that completes commands, options and values in your shell, for the name that
    you call the program by. Save it once, and open a new shell:

    \b
    rgt completion bash > ~/.local/share/bash-completion/completions/rgt
    rgt completion zsh > ~/.zfunc/_rgt    # a folder of $fpath, before compinit
    rgt completion fish > ~/.config/fish/completions/rgt.fish
    """
    from click.shell_completion import get_completion_class

    from .main import cli, complete_variable

    script = get_completion_class(shell)
    assert script is not None, "SHELLS names what click knows"
    print(script(cli, {}, program(), complete_variable(program())).source())
    return 0


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files and folders, which the shell finds itself."""
    return _paths(incomplete, "file")


def folders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Folders, which the shell finds itself."""
    return _paths(incomplete, "dir")


def profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of platforms, by their pages, none of which is read."""
    from ..catalogue import bundle

    pages = sorted((bundle.bundle_root() / "profiles").glob("[!_]*.md"))
    return _beginning(incomplete, (page.stem for page in pages))


def facts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of the facts on a platform's page."""
    from ..platforms.showing import HEADINGS

    return _beginning(incomplete, HEADINGS)


def targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """What starts a rendered script: ssh, Slurm and others."""
    from ..runs import TARGETS

    return _beginning(incomplete, TARGETS)


def gpus(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of cards."""
    from ..platforms.cards import GPUS

    return _beginning(incomplete, GPUS)


def needs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """What a run may need of a platform."""
    from ..platforms.choosing import NEEDS

    return _beginning(
        incomplete, (f"{name}=" if need.number else name for name, need in NEEDS.items())
    )


def entry_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Ids of entries, by their headings alone."""
    from ..catalogue import bundle

    headings = re.compile(r"(?m)^### ([A-Z][A-Z0-9]*\d[a-z]?) — ")
    pages = bundle.pages(bundle.bundle_root())
    return _beginning(
        incomplete,
        (name for page in pages for name in headings.findall(page.read_text(encoding="utf-8"))),
    )


def families(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Families of entries: O, D, VAST."""
    names = {re.sub(r"\d+[a-z]?$", "", name) for name in entry_ids(ctx, param, "")}
    return _beginning(incomplete, sorted(names))


def _paths(incomplete: str, kind: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type=kind)]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    """The names that begin so, in either case."""
    return [name for name in names if name.lower().startswith(incomplete.lower())]
