"""The parser of the command line: where each command lives, its help, and errors of one line.

A module of commands has a function `add_to(commands)` that adds them to the parser. Only the
module of the command that runs is imported, because a look-up must start fast.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Iterable

from . import terminal

NAMES = ("remote-gpu-trainer", "rgt")  # the program's names: pyproject.toml installs both
COMMANDS = {  # each command's module, in the order of --help
    "lookup": "lookup",
    "render": "runs",
    "staleness": "platforms",
    "health": "health",
    "status": "boxes",
    "release": "boxes",
    "profile": "platforms",
    "install": "clients",
    "uninstall": "clients",
    "serve": "serve",
    "completion": "completion",
    "dev": "dev",
}


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
