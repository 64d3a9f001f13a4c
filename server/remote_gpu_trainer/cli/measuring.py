"""`fit --measure`: run a program for a few steps, and tell what it takes of the cards."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..text import write_whole
from . import terminal
from .estimates import print_estimate
from .probe import program_words, rehearse_here

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
