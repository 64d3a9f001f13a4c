"""The command `completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import argparse
from pathlib import Path

from .parser import leaves, make_parser, program

SHELLS = ("bash", "zsh", "tcsh")
FILES = ("FILE", "PATH")  # metavars of options that take a file; DIR takes a folder


def add_to(commands) -> None:
    """Add the command to the parser's commands."""
    made = commands.add_parser(
        "completion",
        help="print a script that completes commands and options in your shell",
        description="Print a script that completes commands and options in your shell, for the "
        "name that you call the program by. For bash: rgt completion bash > "
        "~/.local/share/bash-completion/completions/rgt",
    )
    made.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    made.set_defaults(run=completion)


def completion(args: argparse.Namespace) -> int:
    """`completion`: prints the script."""
    import shtab

    parser = make_parser(program())
    for command in leaves(parser).values():
        for action in command._actions:
            if action.metavar == "DIR":
                action.complete = shtab.DIRECTORY
            elif action.type is Path or action.metavar in FILES or action.dest in ("text", "job"):
                action.complete = shtab.FILE
    print(shtab.complete(parser, args.shell))
    return 0
