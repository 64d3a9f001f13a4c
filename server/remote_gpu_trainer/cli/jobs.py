"""The job that a command is given: its file, and the options that change it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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
