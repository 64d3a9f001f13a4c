"""The command `lookup`, and its answer as plain text for programs, files and plain terminals."""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import sys
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..text import BadRequest
from . import terminal
from .main import program
from .terminal import WHOLE, first_failure, place_of

if TYPE_CHECKING:
    from ..catalogue.entry import Entry
    from ..lookup.answering import Answer

NOTHING = "nothing to look up; pass a text, --log PATH, or - for standard input"
ONE_LOG = (
    "only one log can be read at a time; pass the folder that holds the logs of one run, "
    "or run lookup once for each"
)


def add_to(commands) -> None:
    """Add the command to the parser's commands."""
    look = commands.add_parser(
        "lookup",
        help="find the known failure behind an error, a log or a description",
        description="Find the known failure behind an error message, a log or a description, "
        "with its cause, fix and check. Exit 0: found. Exit 1: nothing fits. "
        "Exit 2: the input can't be read.",
    )
    look.add_argument(
        "text",
        nargs="*",
        help="an error message or a description, alone or beside --log; the name of a file is "
        "read as --log; - for standard input, which is also read when something is piped in",
    )
    look.add_argument(
        "--log",
        metavar="PATH",
        help="a log file, the JSON of a probe, or a folder with the logs of all ranks of one run; "
        "HOST:PATH reads it on a box over ssh; - for standard input; beside a question of memory "
        "also a model's config.json",
    )
    look.add_argument(
        "--good",
        metavar="LOG",
        help="a log, or a folder of logs, of a run that went well, such as the last good one; what "
        "it also printed doesn't count",
    )
    look.add_argument("--id", metavar="ID", help="print the whole entry, for example O7")
    look.add_argument(
        "--limit",
        type=int,
        default=3,
        metavar="N",
        help="how many matches to print, 1 to 10 (default 3)",
    )
    look.add_argument(
        "--installed",
        metavar="FILE",
        help="what is installed: the output of 'pip freeze', requirements.txt, uv.lock, a Python "
        "interpreter or a virtual environment; matches about other versions are marked",
    )
    form = look.add_mutually_exclusive_group()
    form.add_argument(
        "--full",
        action="store_true",
        help="print cause, fix and check of the first match in full, as on a terminal",
    )
    form.add_argument(
        "--brief",
        action="store_true",
        help="print only ids and titles, each match with the first sentence of its fix",
    )
    form.add_argument(
        "--json", action="store_true", help="print the object that the MCP tool returns"
    )
    look.set_defaults(run=lookup)


def lookup(args: argparse.Namespace) -> int:
    """`lookup`: 0 found, 1 nothing fits."""
    text, log, stream = _question(args)
    gc.disable()  # modules and pages stay in memory; collecting would take a tenth of the time
    try:
        from ..lookup import check_limit
        from ..lookup.answer import answer_for, prepare

        check_limit(args.limit)
        if args.id is not None:
            return _show_entry(args)
        prepare()
    finally:
        gc.enable()
    with terminal.Progress(f"reading {log or 'standard input'}", _size(log)) as progress:
        answer = answer_for(
            text=text,
            log=log,
            stream=stream,
            limit=args.limit,
            installed=_installed(args.installed),
            progress=progress,
            seconds=600,
            good=args.good,
        )
    if args.json:
        print(json.dumps(answer.as_dict(), ensure_ascii=False, indent=1))
    elif args.brief:
        from ..catalogue import bundle

        print(in_brief(answer, bundle.load_cache()))
    else:
        _print(answer, args.full)
    return 0 if answer.matches else 1


def _print(answer, full: bool) -> None:
    """Print an answer: for a person in full, for a program in few words."""
    from ..catalogue import bundle

    command = f"{program()} lookup --id {{id}}"
    if terminal.has_colours(sys.stdout):
        terminal.draw(answer, bundle.load_cache(), terminal.console(sys.stdout), command)
        return

    whole = full or terminal.is_terminal(sys.stdout)
    print(as_text(answer, command, bundle.load_cache() if whole else None))


def _question(args: argparse.Namespace) -> tuple:
    """(text, path of a log, stream): what to look up. Raises BadRequest."""
    files = [word for word in args.text if _is_file(word)]
    text, log = " ".join(args.text) if args.text else None, args.log
    given = [
        name
        for name, value in (("a text", text), ("--log", log), ("--id", args.id))
        if value is not None
    ]
    if args.id is not None and len(given) > 1:
        raise BadRequest(f"{' and '.join(given)} can't be combined; pass --id alone")
    if text == "-" and log is not None:
        raise BadRequest("- and --log can't be combined; pass one of them")
    if files and (log is not None or len(files) > 1):
        also = "" if log is None else f"{files[0]} is a file, and --log takes one path: "
        raise BadRequest(also + ONE_LOG)
    if files and text == files[0]:
        print(f"reading the file {text}, as with --log {text}", file=sys.stderr)
        text, log = None, text
    if "-" in (text, log):
        return (None if text == "-" else text), None, sys.stdin.buffer
    if not given:
        return None, None, _piped()
    return text, log and os.path.expanduser(log), None


def _is_file(word: str) -> bool:
    """Whether a word names a file, or a folder by a path such as logs/."""
    if "\n" in word or len(word) > 4096:
        return False
    path = os.path.expanduser(word)
    try:
        return os.path.isfile(path) or (os.path.isdir(path) and os.sep in word)
    except ValueError:  # a NUL in it
        return False


def _piped():
    """Standard input, when something was piped into it. Raises BadRequest."""
    if sys.stdin is None or terminal.is_terminal(sys.stdin) or not sys.stdin.buffer.peek(1):
        raise BadRequest(NOTHING)
    return sys.stdin.buffer


def _size(log: str | None) -> int | None:
    """Bytes of a log file; None for a folder, a log on a box or standard input."""
    try:
        return os.path.getsize(log) if log and os.path.isfile(log) else None
    except (OSError, ValueError):
        return None


def _show_entry(args: argparse.Namespace) -> int:
    from ..catalogue import bundle

    catalogue = bundle.load()
    if args.json:
        from ..lookup.matches import whole_entry

        whole = whole_entry(catalogue.get(args.id))
        old = catalogue.retired_id(args.id)
        print(json.dumps({"retired": old, **whole} if old else whole, ensure_ascii=False, indent=1))
    elif terminal.has_colours(sys.stdout):
        from rich.markdown import Markdown

        terminal.console(sys.stdout).print(Markdown(catalogue.markdown(args.id)))
    else:
        print(catalogue.markdown(args.id), end="")
    return 0


def _installed(path: str | None) -> str | None:
    """What is installed as `pip freeze` prints it. Raises BadRequest."""
    if not path:
        return None
    from ..platforms.installed import InstalledError, read

    try:
        return read(path)
    except InstalledError as error:
        raise BadRequest(f"--installed: {error}") from None


LABELS = {**WHOLE, "distinguish": "don't confuse with"}


def as_text(answer: Answer, command: str = "", entries: Mapping[str, Entry] | None = None) -> str:
    """The answer as lines of text.

    `command` prints a whole entry; `{id}` in it stands for the entry's id. With `entries` (by id),
    cause, fix and check of the first match aren't shortened.
    """
    out = []
    for place, match in enumerate(answer.matches):
        out.append(
            f"{match['id']}  {match['title']}\n"
            f"    {match['confidence']} confidence, {match['severity']}; {match['why']}"
        )
        if match["stale"]:
            out.append(f"    in doubt: {match['stale']}")
        whole = entries[match["id"]] if entries and place == 0 else None
        for name, label in LABELS.items():
            if whole and name in WHOLE:
                out.append(f"    {label}:\n{textwrap.indent(getattr(whole, name), ' ' * 8)}")
            elif match.get(name):
                out.append(_wrap(f"{label}: {match[name]}"))
        if place == 0:
            told = (f"{name}: {match[name]}" for name in ("domain", "retry") if match.get(name))
            out += [f"    {line}" for line in told]
        if place == 0 and command:
            out.append(f"    whole entry: {command.format(id=match['id'])}")
    if answer.also:
        out += ["also possible:", *(f"    {also['id']}  {also['title']}" for also in answer.also)]
    if answer.evidence:
        out += ["evidence:", *(f"    {place_of(line)}: {line['text']}" for line in answer.evidence)]
    out += [line for line in (first_failure(answer), answer.ask) if line]
    return "\n".join(out)


def in_brief(answer: Answer, entries: Mapping[str, Entry]) -> str:
    """Ids and titles, a line each; below each match the first sentence of its fix.

    `entries`: by id. Without a match or a title it is `ask`, which says what would help.
    """
    from ..lookup.budget import fitting, opening, plain

    out = []
    for match in answer.matches:
        fix = fitting({"fix": plain(opening(entries[match["id"]].fix))}, 0)["fix"]
        out += [f"{match['id']}  {match['title']}", f"    fix: {fix}"]
    if answer.also:
        out += ["also possible:", *(f"{also['id']}  {also['title']}" for also in answer.also)]
    return "\n".join(out) or answer.ask


def _wrap(text: str, width: int = 108) -> str:
    lines, line = [], "   "
    for word in re.split(r"\s+", text):
        if len(line) + len(word) > width:
            lines.append(line)
            line = "       "
        line += " " + word
    return "\n".join([*lines, line])
