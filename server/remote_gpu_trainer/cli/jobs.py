"""The job that a command is given: its file, and the options that change it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .completion import files, profiles

JOB = (
    "a YAML or JSON file with the job, or '-' for standard input: then no folder is its code, "
    "until --set code=FOLDER names one"
)
_OPTIONS = (
    click.option(
        "--profile",
        default="",
        metavar="NAME",
        shell_complete=profiles,
        help="the platform (default: the target's, or generic-ssh); 'rgt profile' lists them",
    ),
    click.option(
        "--set",
        "fields",
        multiple=True,
        metavar="FIELD=VALUE",
        help="set a field of the job, such as deadline=20h or checkpoint.folder=out; repeatable",
    ),
    click.option(
        "--queue",
        type=Path,
        metavar="FILE",
        shell_complete=files,
        help="run several cells in turn, one per line: NAME ARGUMENT …",
    ),
    click.option(
        "--sweep",
        type=Path,
        metavar="FILE",
        shell_complete=files,
        help="a YAML file with a `grid`: every combination becomes a cell",
    ),
)


def with_job_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add --profile, --set, --queue and --sweep to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def read_job(
    job: str | None, fields: tuple[str, ...], queue: Path | None, sweep: Path | None
) -> dict[str, Any]:
    """The fields of a job in a file, or on standard input for '-', with the options on top.

    A relative `code` is a folder beside the file. Raises JobError.
    """
    from ..runs.job_reading import from_file, from_text, with_options, with_queue

    if job == "-":
        given = from_text(sys.stdin.read(), "standard input")
    else:
        given = from_file(Path(job)) if job else {}
        code = given.get("code")
        if job and isinstance(code, str) and not code.startswith("~"):
            given = {**given, "code": str(Path(job).parent / code)}
    return with_queue(with_options(given, list(fields)), queue, sweep)


def read_job_with_code(
    job: str, fields: tuple[str, ...], queue: Path | None = None, sweep: Path | None = None
) -> dict[str, Any]:
    """As `read_job`, for a job whose code is sent: by default the folder of its file."""
    given = read_job(job, fields, queue, sweep)
    if not given.get("code") and job != "-":
        given["code"] = str(Path(job).parent)
    return given
