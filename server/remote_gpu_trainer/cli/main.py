"""Runs one command. The answer goes to stdout, everything else to stderr.

Exit 0: fine or found. Exit 1: it answered, and the answer is bad or empty. Exit 2: it could not
tell.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from ..runs import ledger
from ..text import UserError
from . import terminal

NAMES = ("remote-gpu-trainer", "rgt")  # the program's names: pyproject.toml installs both
COMMANDS = {  # each command's module, in the order of --help
    "lookup": "lookup",
    "render": "runs",
    "rehearse": "health",
    "staleness": "platforms",
    "fit": "platforms",
    "health": "health",
    "probe": "health",
    "status": "runs",
    "release": "runs",
    "profile": "platforms",
    "install": "clients",
    "uninstall": "clients",
    "serve": "clients",
    "completion": "main",
    "dev": "dev",
}
MOVED = ("lint", "docs", "new-entry", "prove")  # `dev` has them now; the short form still works


def main(argv: list[str] | None = None) -> int:
    """Run the command in `argv` (default: the process's arguments). Returns the exit code.

    Raises SystemExit for --help, --version and wrong usage, as argparse does.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv and argv[0] in MOVED:
        argv.insert(0, "dev")
    for stream in (sys.stdout, sys.stderr):  # a log may hold what a console's code page lacks
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    parser = make_parser(program(), only=argv[0] if argv else "")
    try:
        if not argv:
            parser.print_help(sys.stderr)
            return 2
        args = parser.parse_args(argv)
        if line := ledger.reminder(args.command, getattr(args, "json", False)):
            print(line, file=sys.stderr)
        return args.run(args)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read the output has gone, for example `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except UserError as error:
        for line in str(error).splitlines():
            terminal.error(line)
        return 2


def program() -> str:
    """The name that the program was called by, so that the hints it prints can be typed."""
    name = os.path.basename(sys.argv[0]).removesuffix(".exe")
    return name if name in NAMES else NAMES[0]


def make_parser(name: str = NAMES[0], only: str = "") -> Parser:
    """The parser of the program `name`, with all commands or with those in the module of `only`."""
    parser = Parser(
        prog=name,
        description="Find out why a training run failed, and run the next one unattended.",
        epilog=f"'{name} COMMAND --help' explains a command.",
    )
    from .. import __version__

    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", title="commands"
    )
    modules = [COMMANDS[only]] if only in COMMANDS else dict.fromkeys(COMMANDS.values())
    for module in modules:
        importlib.import_module(f".{module}", __package__).add_to(commands)
    order = list(COMMANDS)
    commands._choices_actions.sort(key=lambda action: order.index(action.dest))
    found = sorted(commands.choices.items(), key=lambda item: order.index(item[0]))
    commands.choices.clear()
    commands.choices.update(found)
    return parser


def leaves(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """{'lookup': its parser, …, 'dev lint': its parser}: every command that can be run."""
    found = {}
    for name, command in subcommands(parser).items():
        below = leaves(command)
        found |= {f"{name} {last}": one for last, one in below.items()} or {name: command}
    return found


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands right below a parser; {} when it has none."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


class Parser(argparse.ArgumentParser):
    """argparse's, with errors of one line: `error: what is wrong; what to do`. Exit code 2."""

    def __init__(self, **settings):
        settings.setdefault("formatter_class", _Help)
        super().__init__(**settings)

    def error(self, message: str, hint: str = "") -> None:
        """Print the error with its hint, or where the help is, and exit with 2."""
        hint = hint or f"run '{self.prog} --help'"
        terminal.error(f"{' '.join(message.split())}; {hint}")
        self.exit(2)

    def parse_known_args(self, args=None, namespace=None):
        """As argparse's, but an unknown option is an error here, of the command that got it."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            near = _near(unknown[0].partition("=")[0], self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(unknown)}", near)
        return found, unknown

    def _check_value(self, action, value):
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            self.error(f"unknown command {value!r}", _near(value, action.choices))
        super()._check_value(action, value)


def _near(text: str, known: Iterable[str]) -> str:
    """'did you mean X?' when one of the known words is near enough, else ''."""
    from difflib import get_close_matches

    bare = {name.lstrip("-"): name for name in known}  # the dashes alone would make them alike
    near = get_close_matches(text.lstrip("-"), bare, 1)
    return f"did you mean {bare[near[0]]}?" if near else ""


class _Help(argparse.HelpFormatter):
    """argparse's, told how wide the terminal is.

    It would ask shutil for each option, and to import that takes longer than to add all options.
    """

    def __init__(self, prog: str):
        try:
            columns = int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size().columns
        except (ValueError, OSError):
            columns = 80
        super().__init__(prog, width=columns - 2)

    def _format_action(self, action):
        if isinstance(action, argparse._SubParsersAction):  # the list alone, without its metavar
            return "".join(map(self._format_action, action._choices_actions))
        return super()._format_action(action)


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


if __name__ == "__main__":
    sys.exit(main())
