"""The command `lookup`, and its answer as plain text for programs, files and plain terminals."""

from __future__ import annotations

import gc
import io
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import click

from ..text import BadRequest
from . import terminal
from .boxes import log_of, print_json
from .completion import entry_ids, files
from .parsing import JSON_OF_TOOL, command, program

if TYPE_CHECKING:
    from ..lookup.advice import Advice
    from ..lookup.state import Answer

NOTHING = "nothing to look up; pass a text, --log PATH, or - for standard input"
ONE_LOG = (
    "files are read by --log; pass --log for each file of one run, or the folder that holds them, "
    "or run lookup once for each run"
)
_LOG_ENDING = re.compile(r"\w\.(log|out|err|txt)(\.\d+)?(\.(gz|zst|xz|bz2))?\Z", re.IGNORECASE)
_PATH = re.compile(r"(~|\.\.?)?/[\w./~-]*\w[\w./~-]*\Z")
MOST_SECONDS = 600  # for reading a log: a folder of many gigabytes may take minutes


class Question(NamedTuple):
    """What to look up. `log`: a path, or HOST:PATH. `stream`: standard input, if that is read."""

    text: str | None
    log: str | None
    stream: BinaryIO | None


@command("lookup", exclusive=("full", "brief", "as_json"), once=("--good",))
@click.argument(
    "text",
    nargs=-1,
    shell_complete=files,
    help="an error message or a description, alone or beside --log; the name of a file is "
    "read as --log; - for standard input, which is also read when something is piped in",
)
@click.option(
    "--log",
    metavar="PATH",
    multiple=True,
    shell_complete=files,
    help="a log file, the JSON of a probe, or a folder with the logs of all ranks of one run; "
    "given twice, both files are of one run, such as its output and its errors; "
    "HOST:PATH reads it on a box over ssh; - for standard input; beside a question of memory "
    "also a model's config.json",
)
@click.option(
    "--good",
    metavar="LOG",
    shell_complete=files,
    help="a log, or a folder of logs, of a run that went well, such as the last good one; what "
    "it also printed doesn't count",
)
@click.option(
    "--run",
    metavar="N",
    help="which of several runs in a log file to read, counted from 1, or all (default: the last)",
)
@click.option(
    "--id",
    "entry_id",
    metavar="ID",
    shell_complete=entry_ids,
    help="print the whole entry, for example O7",
)
@click.option(
    "--limit",
    type=int,
    default=3,
    metavar="N",
    help="how many matches to print, 1 to 10 (default 3)",
)
@click.option(
    "--installed",
    metavar="FILE",
    shell_complete=files,
    help="what is installed: the output of 'pip freeze', requirements.txt, uv.lock, a Python "
    "interpreter or a virtual environment; matches about other versions are marked",
)
@click.option(
    "--full",
    is_flag=True,
    help="print cause, fix and check of the first match in full, as on a terminal",
)
@click.option(
    "--brief",
    is_flag=True,
    help="print only what to do, and the titles of the entries with their ids",
)
@JSON_OF_TOOL
def lookup(
    text: tuple[str, ...],
    log: tuple[str, ...],
    good: str | None,
    run: str | None,
    entry_id: str | None,
    limit: int,
    installed: str | None,
    full: bool,
    brief: bool,
    as_json: bool,
) -> int:
    """Find the known failure behind an error message, a log or a description, with its cause, fix
    and check.

    Exit 0: found. Exit 1: nothing fits. Exit 2: the input can't be read.
    """
    log = tuple(map(log_of, log))
    question = read_question(text, log[0] if log else None, entry_id)
    gc.disable()  # modules and pages stay in memory; collecting would take a tenth of the time
    try:
        from ..lookup import check_limit, which_run
        from ..lookup.answer import answer_for, prepare

        check_limit(limit)
        if entry_id is not None:
            _print_entry(entry_id, as_json)
            return 0
        prepare()
    finally:
        gc.enable()
    title = f"reading {question.log or 'standard input'}"
    with terminal.Progress(title, _size(question.log)) as progress:
        answer = answer_for(
            text=question.text,
            log=[os.path.expanduser(path) for path in log] if len(log) > 1 else question.log,
            stream=question.stream,
            limit=limit,
            installed=_installed(installed),
            progress=progress,
            seconds=MOST_SECONDS,
            good=good,
            run=which_run(run),
        )
    if as_json:
        print_json(answer.as_dict())
    elif brief:
        from ..catalogue import bundle
        from ..lookup.advice import advise

        print(in_brief(advise(answer, bundle.load_cache())))
    else:
        _print_answer(answer, full)
    return 0 if answer.matches or answer.facts else 1


def _print_answer(answer: Answer, full: bool) -> None:
    """Print an answer: for a person in full, for a program in few words."""
    from ..catalogue import bundle
    from ..lookup.advice import advise

    handle = f"{program()} lookup --id {{id}}"
    is_drawn = terminal.has_colours(sys.stdout)
    whole = full or is_drawn or terminal.is_terminal(sys.stdout)
    advice = advise(answer, bundle.load_cache(), whole)
    if is_drawn:
        terminal.draw(advice, terminal.console(sys.stdout), handle)
    else:
        print(as_text(advice, handle, whole))


def read_question(words: Sequence[str], log: str | None, entry_id: str | None) -> Question:
    """What the arguments ask. Raises BadRequest for arguments that can't be combined.

    A word that names a file is its log. With no argument at all, what is piped in is read.
    """
    text = " ".join(words) if words else None
    _refuse_combinations(text, log, entry_id)
    if files_named := [word for word in words if _is_file(word)]:
        if log is not None:
            raise BadRequest(f"{files_named[0]} is a file, and stands without --log: {ONE_LOG}")
        if len(files_named) > 1:
            raise BadRequest(ONE_LOG)
        if text == files_named[0]:
            print(f"reading the file {text}, as with --log {text}", file=sys.stderr)
            text, log = None, text
    if len(words) == 1 and log is None and _names_a_log(words[0]):
        there = f"; pass --log {words[0]} for one there" if ":" in words[0] else ""
        print(f"no file {words[0]} here{there}; it is looked up as a text", file=sys.stderr)
    if "-" in (text, log):
        return Question(None if text == "-" else text, None, sys.stdin.buffer)
    if text is None and log is None and entry_id is None:
        return Question(None, None, _piped())
    return Question(text, log and os.path.expanduser(log), None)


def _refuse_combinations(text: str | None, log: str | None, entry_id: str | None) -> None:
    """Raises BadRequest for an id beside another question, and for two logs."""
    if entry_id is not None:
        given = {"a text": text, "--log": log, "--id": entry_id}
        names = [name for name, value in given.items() if value is not None]
        if len(names) > 1:
            raise BadRequest(f"{' and '.join(names)} can't be combined; pass --id alone")
    if text == "-" and log is not None:
        raise BadRequest("- and --log can't be combined; pass one of them")


def _is_file(word: str) -> bool:
    """Whether a word names a file, or a folder by a path such as logs/."""
    if "\n" in word or len(word) > 4096:
        return False
    path = os.path.expanduser(word)
    try:
        return os.path.isfile(path) or (os.path.isdir(path) and os.sep in word)
    except ValueError:  # a NUL in it
        return False


def _names_a_log(word: str) -> bool:
    """Whether a word that names no file here was meant as one: a path, or the name of a log.

    Of a report it could be the only word too: `I/O`, `train.py`, an address.
    """
    if "://" in word or any(char.isspace() for char in word):
        return False
    if _LOG_ENDING.search(word):
        return True
    above = word.partition(os.sep)[0]
    return bool(_PATH.match(word)) or (os.sep in word and bool(above) and os.path.isdir(above))


def _piped() -> BinaryIO:
    """Standard input, when something was piped into it. Raises BadRequest."""
    stream = None if sys.stdin is None or terminal.is_terminal(sys.stdin) else sys.stdin.buffer
    if not isinstance(stream, io.BufferedReader) or not stream.peek(1):
        raise BadRequest(NOTHING)
    return stream


def _size(log: str | None) -> int | None:
    """Bytes of a log file; None for a folder, a log on a box or standard input."""
    try:
        return os.path.getsize(log) if log and os.path.isfile(log) else None
    except (OSError, ValueError):
        return None


def _print_entry(entry_id: str, as_json: bool) -> None:
    """Print one entry whole. Raises CatalogueError for an unknown id."""
    from ..catalogue import bundle

    catalogue = bundle.load()
    if as_json:
        from ..lookup.writer import whole_entry

        entry = whole_entry(catalogue.get(entry_id))
        retired = catalogue.retired_id(entry_id)
        shown = {"retired": retired, **entry} if retired else entry
        print_json(shown)
    elif terminal.has_colours(sys.stdout):
        from rich.markdown import Markdown

        terminal.console(sys.stdout).print(Markdown(catalogue.markdown(entry_id)))
    else:
        print(catalogue.markdown(entry_id), end="")


def _installed(path: str | None) -> str | None:
    """What is installed as `pip freeze` prints it. Raises BadRequest."""
    if not path:
        return None
    from ..platforms.installed import InstalledError, read_packages

    try:
        return read_packages(path)
    except InstalledError as error:
        raise BadRequest(f"--installed: {error}") from None


def as_text(advice: Advice, handle: str, whole: bool = False) -> str:
    """What a person reads of an answer, as lines of text.

    `handle` prints a whole entry; `{id}` in it stands for the entry's id. With `whole` the texts of
    the claimed entry keep the lines of its page.
    """
    lines = [*map(_wrap, advice.facts), *([_wrap(advice.lead, "")] if advice.lead else [])]
    if entry := advice.entry:
        lines += ["", entry.title, _wrap(f"{handle.format(id=entry.id)}; {'; '.join(entry.notes)}")]
        for label, text in entry.texts:
            indented = f"    {label}:\n{textwrap.indent(text, ' ' * 8)}"
            lines.append(indented if whole else _wrap(f"{label}: {text}"))
    if advice.further:
        lines += ["", *filter(None, [advice.label])]
    for shown in advice.further:
        lines.append(f"    {shown.title}  (--id {shown.id})")
        lines += [_wrap(f"{label}: {text}", " " * 8) for label, text in shown.texts]
    if advice.evidence:
        lines += ["", "evidence:", *(f"    {place}: {text}" for place, text in advice.evidence)]
    lines += ["", *advice.remarks] if advice.remarks else []
    return "\n".join(lines).lstrip("\n")


def in_brief(advice: Advice) -> str:
    """What to do, and the titles of entries with their ids, a line each; else the remarks."""
    shown = [*([advice.entry] if advice.entry else []), *advice.further]
    titles = [f"    {each.title}  (--id {each.id})" for each in shown]
    lines = [*advice.facts, *filter(None, [advice.lead]), *titles]
    return "\n".join(lines or advice.remarks)


def _wrap(text: str, indent: str = "    ", width: int = 108) -> str:
    words = re.split(r"\s+", text)
    lines, line = [], indent + words[0]
    for word in words[1:]:
        if len(line) + len(word) >= width:
            lines.append(line)
            line = f"{indent}    {word}" if indent else word
        else:
            line += f" {word}"
    return "\n".join([*lines, line])
