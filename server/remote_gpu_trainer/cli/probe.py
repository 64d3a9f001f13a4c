"""`probe` and `rehearse`: does a program train well, before the run that counts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from ..text import BadRequest
from .completion import files
from .parsing import command


@command("probe", context_settings={"allow_interspersed_args": False})
@click.option(
    "--steps",
    type=int,
    default=30,
    metavar="N",
    help="optimizer steps to look at (default 30)",
)
@click.option(
    "--json",
    "json_file",
    metavar="FILE",
    shell_complete=files,
    help="write the findings into this file",
)
@click.option(
    "--page",
    "page_file",
    metavar="FILE",
    shell_complete=files,
    help="write an HTML page with the findings and plots",
)
@click.option(
    "--script",
    "print_script",
    is_flag=True,
    help="print the probe itself, one file to send to a box, and run nothing",
)
@click.argument(
    "program",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="-- PROGRAM ...",
    shell_complete=files,
    help="the program as you start it, after --, such as: -- python train.py --epochs 1",
)
def probe(
    steps: int,
    json_file: str | None,
    page_file: str | None,
    print_script: bool,
    program: tuple[str, ...],
) -> int:
    """Run a training program on this machine, look at its first optimizer steps, and name what goes
    wrong in silence: frozen or forgotten weights, batches that repeat, rates, clipping,
    checkpoints. Its code isn't changed.

    The findings go to stderr once the program has ended. The exit code is the program's own; the
    verdict is in --json.
    """
    from ..catalogue.bundle import bundle_root

    script = bundle_root() / "scripts" / "probe.py"
    if print_script:
        sys.stdout.write(script.read_text(encoding="utf-8"))
        return 0
    if not program:
        raise BadRequest("no program given; write it after --, as in -- python train.py")
    options = ["--steps", str(steps)]
    options += ["--json", json_file] if json_file else []
    options += ["--page", page_file] if page_file else []
    return _become([sys.executable, str(script), *options, "--", *_with_python(program)])


def _with_python(program: Sequence[str]) -> list[str]:
    """A program that is a .py file, with the Python of the user's environment in front."""
    if program[0].endswith(".py"):  # this program's own Python may lack what the file imports
        return [shutil.which("python3") or sys.executable, *program]
    return list(program)


def _become(words: list[str]) -> int:
    """Go on as another program: its exit code, or the signal that ends it, is this process's."""
    if os.name == "nt":  # exec there returns to the shell before the program has ended
        return subprocess.call(words)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(words[0], words)


@command("rehearse")
@click.argument("job", shell_complete=files, help="a YAML or JSON file with the job")
@click.option(
    "--set",
    "fields",
    multiple=True,
    metavar="FIELD=VALUE",
    help="set a field of the job, such as rehearsal.minutes=5; repeatable",
)
def rehearse(job: str, fields: tuple[str, ...]) -> int:
    """Rehearse a job on this machine, as 'bash run.sh rehearse' does on a box: train a few steps,
    save, kill and resume, apart from the run. The probe looks at the first optimizer steps for
    failures that no log shows, unless the job has 'probe: off'.

    Exit 0: it went well, whatever the probe says.
    """
    from ..runs.job_reading import from_file, with_options
    from ..runs.rendering import rendered

    given = with_options(from_file(Path(job)), list(fields))
    with tempfile.TemporaryDirectory(prefix="rgt-rehearse-") as folder:
        answer = rendered(given, "local", "local", f"{folder}/", outside=True)
        *send, _ = answer["start"].splitlines()
        lines = ["set -e", *send, f"exec {answer['stop'].removesuffix(' stop')} rehearse"]
        return subprocess.call(["bash", "-c", "\n".join(lines)])
