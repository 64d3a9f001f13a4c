"""Runs one command. The answer goes to stdout, everything else to stderr.

Exit 0: fine or found. Exit 1: it answered, and the answer is bad or empty. Exit 2: it could not
tell.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from typing import NamedTuple

import click

from .. import __version__
from ..text import UserError
from . import terminal
from .boxes import print_errors
from .parsing import NAMES, Group, program, wording


class Listed(NamedTuple):
    """A command as --help lists it. `module`: where its function is, which has the same name."""

    module: str
    summary: str


# In the order of --help. A command's module is imported when the command runs, not before: a cold
# look-up shouldn't pay for what `rgt render` needs.
COMMANDS = {
    "init": Listed("init", "write a job from a project's source: program, saves, packages"),
    "lookup": Listed("lookup", "find the known failure behind an error, a log or a description"),
    "render": Listed(
        "render_status_release", "write a script that runs a job unattended on a rented box"
    ),
    "start": Listed(
        "start_stop_resume",
        "start a job on a box: check it, send the code, begin, see that it trains",
    ),
    "stop": Listed("start_stop_resume", "let the run on a box save, and end it"),
    "resume": Listed("start_stop_resume", "go on with a run from its newest checkpoint"),
    "rehearse": Listed(
        "probe", "try a job for minutes on this machine: train, save, kill, resume, with the probe"
    ),
    "staleness": Listed(
        "platforms", "show what was checked too long ago, or is about other versions than yours"
    ),
    "fit": Listed("fit", "reckon whether training a model fits a GPU, and what would save memory"),
    "health": Listed(
        "health", "check whether a box is fit to train on, or watch its GPUs during a run"
    ),
    "probe": Listed(
        "probe", "look at the first steps of a training program for failures that no log shows"
    ),
    "status": Listed(
        "render_status_release", "show the state of the run on a box, or wait for a change"
    ),
    "runs": Listed("runs", "show every run known from here: state, step, loss, cost, deadline"),
    "purse": Listed("purse", "set what all boxes together may cost, and show what is left"),
    "guard": Listed("guard", "warn of boxes past their end, and stop those that you confirmed"),
    "drill": Listed("drill", "try a platform's stop and end on a throwaway box"),
    "sweep": Listed("sweep", "list what providers bill that no run from here explains"),
    "logs": Listed("logs_pull_ssh", "print the log of a run, and go on with it as it grows"),
    "pull": Listed("logs_pull_ssh", "fetch files of a run that lives, complete and compared"),
    "ssh": Listed("logs_pull_ssh", "open a shell in the run's folder on a box"),
    "snapshot": Listed(
        "snapshot", "take down who stands where in a run that hangs, before it is gone"
    ),
    "release": Listed(
        "render_status_release",
        "bring the results home, show what is still billed, check that the box is gone",
    ),
    "profile": Listed(
        "platforms", "show what a platform bills, deletes and allows, or which platforms suit a run"
    ),
    "install": Listed("clients", "add the MCP server and the skill to a coding agent"),
    "uninstall": Listed("clients", "remove the MCP server and the skill from a coding agent"),
    "serve": Listed("clients", "run the MCP server for coding agents"),
    "completion": Listed(
        "completion", "print a script that completes commands, options and values in your shell"
    ),
    "dev": Listed("dev", "for maintainers: lint, docs, new-entry, new-platform, prove"),
}


class Program(Group):
    """All commands; each is imported when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands in the order of --help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f".{COMMANDS[cmd_name].module}", __package__)
        return getattr(module, cmd_name)

    def summaries(self, ctx: click.Context) -> dict[str, str]:
        """What each command does, in one line; no module is imported for it."""
        return {name: listed.summary for name, listed in COMMANDS.items()}

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list:
        """The commands and options that begin so; no command's module is imported for it."""
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=summary)
            for name, summary in self.summaries(ctx).items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Say where the help of a command is."""
        formatter.write_paragraph()
        formatter.write_text(f"'{ctx.command_path} COMMAND --help' explains a command.")


@click.group(
    cls=Program,
    subcommand_metavar="COMMAND ...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(
    __version__, message="%(version)s", help="show the program's version and exit"
)
def cli() -> None:
    """Find out why a training run failed, and run the next one unattended."""


def main(argv: list[str] | None = None) -> int:
    """Run the command in `argv` (default: the process's arguments). Returns the exit code.

    Raises SystemExit for --help, --version and wrong usage.
    """
    for stream in (sys.stdout, sys.stderr):  # a log may hold what a console's code page lacks
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if instruction := os.environ.get(complete_variable(program())):
        return complete(instruction)
    terminal.answer = terminal.Answer()
    try:
        return run_with_errors(list(sys.argv[1:] if argv is None else argv))
    finally:
        print_errors()


def run_with_errors(argv: list[str]) -> int:
    """Run a command as `run` does, and tell on stderr what is wrong. Raises SystemExit."""
    try:
        return run(argv)
    except click.exceptions.Exit as ended:  # --help, --version
        raise SystemExit(ended.exit_code) from None
    except click.UsageError as error:
        terminal.error(wording(error))
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read the output has gone, for example `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except UserError as error:
        for line in str(error).splitlines():
            terminal.error(line)
        return 2


def run(argv: list[str]) -> int:
    """Run a command, or print the help on stderr if there is none. Returns the exit code.

    Raises click's exceptions, and UserError.
    """
    if not argv:
        print(root().get_help(), file=sys.stderr)
        return 2
    with cli.make_context(program(), argv) as ctx:
        return cli.invoke(ctx)


def complete_variable(name: str) -> str:
    """The variable by which a shell asks the program `name` for completions."""
    return f"_{name.replace('-', '_').upper()}_COMPLETE"


def complete(instruction: str) -> int:
    """Print what a shell's script asked for: the completions of a line that is being typed."""
    from click.shell_completion import shell_complete

    return shell_complete(cli, {}, program(), complete_variable(program()), instruction)


def root(name: str = "") -> click.Context:
    """The context of the program itself. `name`: as it is called (default: as this process)."""
    return click.Context(cli, info_name=name or program(), **cli.context_settings)


def leaves(ctx: click.Context | None = None) -> dict[str, click.Context]:
    """{'lookup': its context, …, 'dev lint': its context}: every command that can be run."""
    ctx = ctx or root(NAMES[0])
    group = ctx.command
    if not isinstance(group, click.Group):
        return {ctx.command_path.partition(" ")[2]: ctx}
    contexts = {ctx.command_path.partition(" ")[2]: ctx} if group.invoke_without_command else {}
    for name in group.list_commands(ctx):
        if command := group.get_command(ctx, name):
            contexts |= leaves(click.Context(command, info_name=name, parent=ctx))
    return contexts
