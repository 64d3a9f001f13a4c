"""`probe` and `rehearse`: does a program train well, before the run that counts."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from ..boxes.box import Box
from ..runner.core.phases import REHEARSING
from ..text import BadRequest
from ..text.masking import shown
from . import terminal
from .boxes import BOX, add_bill, box_of, remember
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
    "--compare",
    "other_file",
    metavar="FILE",
    shell_complete=files,
    help="tell how this run differs from the one of a --json file, such as last week's",
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
    other_file: str | None,
    print_script: bool,
    program: tuple[str, ...],
) -> int:
    """Run a training program on this machine, look at its first optimizer steps, and tell what its
    code doesn't say: the data as they come, which settings are in force, what never moves, what was
    saved. Name what goes wrong in silence. Its code isn't changed.

    A line that begins with ! is unlike what is usual. Findings and facts go to stderr once the
    program has ended. The exit code is the program's own; the verdict is in --json.
    """
    from ..catalogue.bundle import bundle_root

    script = bundle_root() / "scripts" / "probe.py"
    if print_script:
        sys.stdout.write(script.read_text(encoding="utf-8"))
        return 0
    words = program_words(program)
    options = ["--steps", str(steps)]
    if json_file:
        options += ["--json", json_file, "--beside", json.dumps(add_bill({}))]
    options += ["--page", page_file] if page_file else []
    options += ["--compare", other_file] if other_file else []
    return _become([sys.executable, str(script), *options, "--", *words])


def program_words(program: Sequence[str]) -> list[str]:
    """A program as it was typed; in front of a .py file the Python of the user's environment.

    Raises BadRequest for one that isn't there.
    """
    if not program:
        raise BadRequest("no program given; write it after --, as in -- python train.py")
    if not shutil.which(program[0]) and not os.path.exists(program[0]):
        raise BadRequest(
            f"{program[0][:80]}: no such file or command; write the program as you start it, "
            "as in -- python train.py"
        )
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


def rehearse_here(script: Path, *options: str) -> int:
    """Rehearse on this machine, and print what it says as it says it."""
    words = ["bash", str(script), "rehearse", *options]
    with terminal.waiting("rehearsing …") as waiting:
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace"
        ) as child:
            assert child.stdout
            for line in child.stdout:
                _say(waiting, line.rstrip("\n"), "")
        return child.returncode


def _rehearse_there(place: Box, folder: str) -> int:
    """Rehearse on a box, and print what it says as it says it. Raises NotCalled."""
    from ..runs import calling

    on = f" on {shown(place.name, 60)}"
    with terminal.waiting(f"rehearsing{on} …") as waiting:
        return calling.follow(place, folder, "rehearse", say=lambda line: _say(waiting, line, on))


def _say(waiting: terminal.Waiting, line: str, on: str) -> None:
    """Print a line of a rehearsal, or name the phase that it begins."""
    if line.startswith(REHEARSING):
        waiting.rename(f"rehearsing{on}: {shown(line[len(REHEARSING) :], 200)} …")
    else:
        waiting(line)


@command("rehearse")
@click.argument("job", shell_complete=files, help="a YAML or JSON file with the job")
@click.option(
    "--set",
    "fields",
    multiple=True,
    metavar="FIELD=VALUE",
    help="set a field of the job, such as rehearsal.minutes=5; repeatable",
)
@click.option("--on", "box", default="local", metavar="BOX", help=BOX + " (default: this machine)")
def rehearse(job: str, fields: tuple[str, ...], box: str) -> int:
    """Rehearse a job here or on a box: train a few steps, save, kill and resume, apart from the
    run. The code is sent as 'start' sends it. The probe looks at the first optimizer steps for
    failures that no log shows, unless the job has 'probe: off'. What the program took of the cards
    is told beside the estimate, with what it didn't reach and what is left; a machine without a
    card can't measure that.

    A program that saves to a folder of its own is found there: its saves are moved away, and the
    line for the job is printed. Without 'checkpoint' the program trains, is killed and begins
    again.

    Exit 0: it went well, whatever the probe says.
    """
    from ..runs import job_start
    from ..runs.job_reading import read_job_with_code
    from . import estimates

    given = read_job_with_code(job, fields)
    place = box_of(box)
    plan = job_start.plan(given, "", place, time.time())
    with suppress(job_start.Done):
        job_start.refuse_living(place, plan)
    with terminal.Progress(f"sending to {shown(place.name, 60)}") as progress:
        sent = job_start.send(place, plan, begins=progress.follow)
    if place.local:
        script = Path(plan.job.folder).expanduser() / "run.sh"
        code = rehearse_here(script)
    else:
        remember(place, plan.platform.name)
        code = _rehearse_there(place, plan.job.folder)
    estimates.print_estimate_of(place, plan.job.folder)
    if code:
        log = f"{plan.job.folder}/rehearsal/log"
        log = str(Path(log).expanduser()) if place.local else f"{place.name}:{log}"
        terminal.write(f"next  rgt lookup --log {shlex.quote(log)}", {r"\A\S+": "bold"}, sys.stderr)
    if code and (left := job_start.left_behind(place, plan.job.folder, sent, code)):
        terminal.write(f"left: {left}", {r"\A\S+": "bold"}, sys.stderr)
    return code
