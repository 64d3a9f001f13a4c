"""How commands are declared, how arguments are read, and how wrong usage is worded.

click does the work. What it lacks is here: options cut short (`--lim 2`), a pasted line that begins
with a dash, options that exclude each other, and errors of one line with what to do.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from . import terminal

NAMES = ("remote-gpu-trainer", "rgt")  # the program's names: pyproject.toml installs both
_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_NEAR_ENOUGH = 0.6  # difflib's default: "lokup" is near lookup, "foo" isn't near --good


def program() -> str:
    """The name that the program was called by, so that the hints it prints can be typed."""
    name = os.path.basename(sys.argv[0]).removesuffix(".exe")
    return name if name in NAMES else NAMES[0]


class _Ours(click.Command):
    """What commands and groups of them have in common.

    `exclusive`: names of parameters of which at most one may be given. `about_boxes`: remind the
    user, once the command has run, of boxes that may still be billed. `once`: options that may not
    be given again; of others the last one counts. `called_elsewhere`: {what other tools call an
    option: what it is called here}, to be named to who types it.
    """

    def __init__(
        self,
        *args: Any,
        exclusive: Sequence[str] = (),
        about_boxes: bool = False,
        once: Sequence[str] = (),
        called_elsewhere: Mapping[str, str] | None = None,
        **settings: Any,
    ):
        super().__init__(*args, **settings)
        self.exclusive = exclusive
        self.once = once
        self.called_elsewhere = called_elsewhere or {}
        self.about_boxes = about_boxes

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, once the arguments are spelled out. Raises click.UsageError."""
        if "--json" in _flags(ctx) and _is_asked(ctx, args, "--json"):
            terminal.answer.as_json = True
        with _in_context(ctx):
            rest = super().parse_args(ctx, spelled_out(ctx, args))
        given = [
            param.opts[0]
            for param in self.params
            if param.name in self.exclusive and ctx.params.get(param.name)
        ]
        if len(given) > 1 and not ctx.resilient_parsing:
            ctx.fail(f"{' and '.join(given)} can't be combined")
        return rest

    def invoke(self, ctx: click.Context) -> int:
        """Run the command. Returns the exit code."""
        terminal.be_quiet(bool(ctx.params.get("as_json")))
        ctx.call_on_close(lambda: terminal.be_quiet(False))
        if not self.about_boxes:
            return super().invoke(ctx)
        from ..runs import known_jobs, ledger

        for line in known_jobs.damage():
            terminal.error(line)
        name, began = ctx.find_root().invoked_subcommand or "", time.time()
        try:
            return super().invoke(ctx)
        finally:  # its answer may be that a box is gone
            as_json = bool(ctx.params.get("as_json"))
            if reminder := ledger.reminder(name, as_json, before=began):
                print(reminder, file=sys.stderr)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """click's --help, described like the other options."""
        return described(super().get_help_option(ctx))


class Command(_Ours):
    """A command that can be run."""


class Group(_Ours, click.Group):
    """A command with further commands below it."""

    command_class = Command

    def __init__(self, *args: Any, **settings: Any):
        super().__init__(*args, no_args_is_help=False, **settings)

    def summaries(self, ctx: click.Context) -> dict[str, str]:
        """What each command does, in one line, in the order of --help."""
        names = self.list_commands(ctx)
        commands = [command for name in names if (command := self.get_command(ctx, name))]
        return {command.name or "": command.short_help or "" for command in commands}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which they were added."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does. Raises Misspelt for an unknown command."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            raise Misspelt(f"unknown command {name!r}", ctx, near(name, self.list_commands(ctx)))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, no line of it cut."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries(ctx).items()))


def command(name: str, **settings: Any) -> Callable[[Callable[..., int]], Command]:
    """Make a function a command; its docstring is the help. It returns the exit code."""
    return click.command(name, cls=Command, **settings)


def described(option: click.Option | None) -> click.Option | None:
    """The option --help, with a help text in the form of the others."""
    if option is not None:
        option.help = "show this help and exit"
    return option


def _json_option(what: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    return click.option("--json", "as_json", is_flag=True, help=f"print {what}")


JSON = _json_option("a JSON object")
JSON_OF_TOOL = _json_option("the object that the MCP tool returns")


class Misspelt(click.UsageError):
    """A name that isn't known. `nearest`: the known name that was probably meant, or ''."""

    def __init__(self, message: str, ctx: click.Context | None, nearest: str):
        super().__init__(message, ctx)
        self.nearest = nearest


class OneOf(click.Choice):
    """A value from a list."""

    def __init__(self, choices: Iterable[str]):
        super().__init__(list(choices))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The value itself. Raises Misspelt if it isn't in the list."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            raise Misspelt(error.format_message(), ctx, near(str(value), self.choices)) from None


@contextmanager
def _in_context(ctx: click.Context) -> Iterator[None]:
    """Add the command to an error that click raises without it, so that its --help is named."""
    try:
        yield
    except click.UsageError as error:
        error.ctx = error.ctx or ctx
        raise


def near(text: str, known: Iterable[str], at_least: float = _NEAR_ENOUGH) -> str:
    """The known name that is most like the text, or '' if none is near enough.

    Dashes in front don't count: they would make any two options alike.
    """
    from difflib import get_close_matches

    bare = {name.lstrip("-").lower(): name for name in known}
    matches = get_close_matches(text.lstrip("-").lower(), bare, 1, at_least)
    return bare[matches[0]] if matches else ""


def wording(error: click.UsageError) -> str:
    """Wrong usage in one line: `what is wrong; what to do`."""
    nearest = error.nearest if isinstance(error, Misspelt) else ""
    message = error.format_message()
    if isinstance(error, click.NoSuchOption):
        message = error.message  # without click's own guess, for which dashes count
        nearest = near(error.option_name, _options(error.ctx)) if error.ctx else ""
    message = " ".join(message.split()).removesuffix(".")
    message = message[:1].lower() + message[1:]
    path = error.ctx.command_path if error.ctx else program()
    return f"{message}; " + (f"did you mean {nearest}?" if nearest else f"run '{path} --help'")


def spelled_out(ctx: click.Context, args: Sequence[str]) -> list[str]:
    """The arguments as click reads them: whole names of options first, then `--`, then the words.

    An option may be cut short as long as one option alone begins like it. A negative number, and
    what begins with a dash but has a space in it, is a word: people paste lines such as
    `--- Logging error ---` or `-bash: torchrun: command not found`. Raises click.UsageError for an
    option that several begin with, and for one without its value.
    """
    options = _options(ctx)
    marked: list[str] = []
    words: list[str] = []
    rest = list(args)
    while rest:
        arg = rest.pop(0)
        if arg == "--" or (_is_word(arg, options) and not ctx.allow_interspersed_args):
            words += rest if arg == "--" else [arg, *rest]
            break
        if _is_word(arg, options):
            words.append(arg)
            continue
        typed, equals, value = arg.partition("=")
        name = _whole_name(ctx, typed, options)
        _refuse_second(ctx, name, marked)
        marked.append(f"{name}{equals}{value}")
        option = options.get(name)
        if equals or option is None or option.is_flag:
            continue
        if rest and _is_word(rest[0], options):
            marked.append(rest.pop(0))
        elif not ctx.resilient_parsing:
            raise click.BadOptionUsage(name, f"option {name!r} requires a value", ctx)
    return [*marked, "--", *words] if words else marked


def _refuse_second(ctx: click.Context, name: str, marked: Sequence[str]) -> None:
    """Refuse an option of `once` that is given again: click would forget the first."""
    again = any(before.partition("=")[0] == name for before in marked)
    if again and name in getattr(ctx.command, "once", ()) and not ctx.resilient_parsing:
        raise click.BadOptionUsage(name, f"{name} is given twice, and takes one value", ctx)


def _options(ctx: click.Context) -> dict[str, click.Option]:
    """The options of a command, --help among them, by each of their names."""
    return {
        name: param
        for param in ctx.command.get_params(ctx)
        if isinstance(param, click.Option)
        for name in param.opts
    }


def _flags(ctx: click.Context) -> set[str]:
    """The options of a command that take no value."""
    return {name for name, option in _options(ctx).items() if option.is_flag}


def _is_asked(ctx: click.Context, args: Sequence[str], name: str) -> bool:
    """Whether an option is among the arguments, perhaps cut short; also where the rest is wrong."""
    options = _options(ctx)
    before = args[: args.index("--")] if "--" in args else args
    return any(_candidates(arg, options) == [name] for arg in before)


def _is_word(arg: str, options: Mapping[str, click.Option]) -> bool:
    """Whether an argument is a text or a value, not an option."""
    if not arg.startswith("-") or arg == "-":
        return True
    if _candidates(arg.partition("=")[0], options):
        return False
    if not arg.startswith("--") and arg[:2] in options:  # `-oFILE`
        return False
    return bool(_NUMBER.fullmatch(arg)) or " " in arg


def _candidates(typed: str, options: Iterable[str]) -> list[str]:
    """The options that a name stands for: itself, or those that begin with it."""
    if typed in options:
        return [typed]
    return [name for name in options if typed.startswith("--") and name.startswith(typed)]


def _whole_name(ctx: click.Context, typed: str, options: Mapping[str, click.Option]) -> str:
    """The option that is meant; an unknown one stays as it is, for click to refuse."""
    meant = getattr(ctx.command, "called_elsewhere", {}).get(typed)
    if meant and not ctx.resilient_parsing:
        raise Misspelt(f"no such option: {typed}", ctx, meant)
    names = _candidates(typed, options)
    if len(names) > 1 and not ctx.resilient_parsing:
        ctx.fail(f"ambiguous option {typed!r}: it could be {' or '.join(names)}")
    return names[0] if len(names) == 1 else typed
