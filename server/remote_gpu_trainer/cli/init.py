"""The command `init`: a project's folder becomes a job."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml

from ..text import BadRequest, UserError
from . import terminal
from .completion import files, folders, profiles
from .parsing import command, program

if TYPE_CHECKING:
    from ..runs.project.drafting import Draft, Line

EXAMPLES = ("finetune", "ddp", "slurm", "sweep")


@command("init")
@click.argument(
    "folder",
    type=Path,
    default=Path(),
    shell_complete=folders,
    help="the project; by default the working folder",
)
@click.option(
    "--program",
    "trains",
    default="",
    metavar="FILE.py",
    shell_complete=files,
    help="the training program, relative to the folder (default: found by its source)",
)
@click.option(
    "--profile",
    "platform",
    default="",
    metavar="NAME",
    shell_complete=profiles,
    help="the platform of its box (default: guessed, and marked so); 'rgt profile' lists them",
)
@click.option(
    "--write-to",
    type=Path,
    metavar="FILE",
    help="where the job is written (default: job.yaml in the folder); '-' prints it",
)
@click.option("--replace", is_flag=True, help="write over a job that is there")
@click.option("--example", type=click.Choice(EXAMPLES), help="print a whole job of this kind")
def init(
    folder: Path,
    trains: str,
    platform: str,
    write_to: Path | None,
    replace: bool,
    example: str | None,
) -> int:
    """Write job.yaml for the project in FOLDER: its training program, packages, launcher, where it
    saves, how it resumes and how long it trains, read from its source. Nothing of the project runs.

    Each line has its reason. A line with a ? needs your answer; a terminal asks you, and for the
    platform and the last step too, where they are open. Exit 0: a job
    without a question. Exit 1: one with questions. Then: rgt rehearse job.yaml
    """
    if example:
        return _print_example(example)
    from ..runs.project.drafting import Undrafted, draft

    if not folder.is_dir():
        raise BadRequest(f"no folder at {str(folder)[:100]}; name the one with the program")
    target = write_to or folder / "job.yaml"
    if str(target) != "-" and target.exists() and not replace:
        raise BadRequest(f"{target} is there already; --replace writes over it")
    try:
        made = draft(folder, trains, _platform_line(platform))
    except Undrafted as error:
        raise BadRequest(str(error)) from None
    except OSError as error:
        raise BadRequest(f"{error.filename}: {error.strerror}; name a folder to read") from None
    if terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stderr):
        _ask(made)
    if str(target) == "-":
        print(made.as_yaml(), end="")
    else:
        target.write_text(made.as_yaml(), encoding="utf-8")
        print(target)
    for question in made.questions:
        terminal.write(f"?  {question}", {}, sys.stderr)
    shown = "job.yaml" if str(target) == "-" else target
    print(f"next  {program()} rehearse {shown}", file=sys.stderr)
    return 1 if made.questions else 0


def _platform_line(name: str) -> Line:
    """Return the line of a platform that the user named, else of one that is guessed."""
    from ..platforms import profile
    from ..runs.project import where
    from ..runs.project.drafting import platform_line

    if name:
        return platform_line(profile.get(name).name, "", is_told=True)
    return platform_line(*where.guess_platform())


def _ask(made: Draft) -> None:
    """Ask for the value of each line with a question, and of those that the job can do without; an
    empty answer leaves it open."""
    from ..runs.job_reading import from_object

    for line in [one for one in made.lines if one.question or one.offer]:
        default = (
            yaml.safe_dump(line.value, default_flow_style=True).removesuffix("\n...\n").strip()
        )
        shown = "not known" if line.value is None else default
        click.echo(f"{line.question or line.offer}\n  {line.field}: {shown}", err=True)
        while answer := click.prompt("  value", default="", show_default=False, err=True):
            try:
                value = yaml.safe_load(answer)
                from_object({**made.values(), line.field: value})
            except (yaml.YAMLError, UserError) as error:
                terminal.error(str(error).splitlines()[0])
                continue
            made.set(line.field, value, "as you said")
            break


def _print_example(name: str) -> int:
    from ..catalogue import bundle

    print((bundle.bundle_root() / "examples" / "jobs" / f"{name}.yaml").read_text("utf-8"), end="")
    return 0
