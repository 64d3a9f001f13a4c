"""`fit --measure`, and what a rehearsal tells of memory: what was measured, beside the estimate."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from ..text import BadRequest, write_whole
from ..text.masking import shown
from . import terminal
from .probe import program_words, rehearse_here

if TYPE_CHECKING:
    from ..boxes.box import Box

NAME = "fit-measure"
KEPT = ("strays-*", "written", "results")  # in the rehearsal's folder: what the program saved


def measure(program: Sequence[str]) -> int:
    """Run a program here for a few steps, and tell what it takes of the cards. Returns the exit
    code of the trial: 0 where it trained. Raises BadRequest."""
    from ..boxes.box import Box
    from ..runs import measured_runs

    words = program_words(program)
    folder = Path(tempfile.mkdtemp(prefix="rgt-measure-"))
    script = folder / "run.sh"
    write_whole(script, _script(words, folder).encode(), 0o700)
    code = rehearse_here(script, "--memory")
    print_estimate(measured_runs.record_of(Box("local"), str(folder)))
    saved = [path for name in KEPT for path in (folder / "rehearsal").glob(name)]
    if code or saved:
        terminal.write(f"left: {folder}, with its log and what it saved", {r"\A\S+": "bold"})
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return code


def _script(words: list[str], folder: Path) -> str:
    """The run.sh of a job of this command, which runs where the user is. Raises BadRequest."""
    from .. import __version__
    from ..platforms import profile
    from ..runs import rendered, run_script
    from ..runs.job_reading import from_object

    job = from_object(
        {
            "name": NAME,
            "command": words,
            "deadline": "2h",
            "run_dir": str(folder),
            # Without one the program is to see no card: then a job of no GPU rehearses at all.
            "gpus": 1 if shutil.which("nvidia-smi") else 0,
            "floors": {"free_gb": 0, "free_inodes": 0},
        }
    )
    beside = rendered.rendered_of(job, profile.get("local"), "local", __version__)
    beside["work_dir"] = os.getcwd()
    return run_script.packed(run_script.files(rendered.job_of(job), beside, ""))


def print_estimate_of(box: Box, folder: str) -> None:
    """Print the estimate beside what the rehearsal of a run took of the cards."""
    from ..runs import measured_runs

    print_estimate(measured_runs.record_of(box, folder))


def print_estimate(record: dict) -> None:
    """Print the estimate beside what was measured, and remember both."""
    from ..fit.measured import rehearsed
    from ..runs import measured_runs

    try:
        found = rehearsed(record, date.today().isoformat())
    except (TypeError, ValueError, KeyError, AttributeError, BadRequest):
        return  # a record of another version, or none that makes sense
    if found is None:
        return
    if found.why:
        print(f"note memory: not reckoned: {shown(found.why)}")
    else:
        size = f"{found.row.batch} × {found.row.sequence} tokens"
        more = f"{found.row.method}, {size}, {found.row.more}"
        reckoned = f"rgt fit reckons {found.estimate_gib:.1f} GiB"
        print(f"note memory: {reckoned} for {shown(found.row.model)}, {more}")
    is_whole = found.row.died or not record.get("has_failed")
    if record.get("cards") and is_whole and measured_runs.add(found.row):
        print("  remembered here: rgt fit shows it beside like runs")
