"""Where a run.sh enters Python: its verb, its job's folder in run.d, and the modules beside this.

Its words: the job's folder, the run.sh, and those of the verb.
"""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import suppress

STARTING = ("start", "resume", "run", "resume-run", "queue")  # the verbs that compile the modules
UNPACKED = "RGT_UNPACKED"  # a folder of run.d that is of no use after this process


def enter(words: list[str]) -> int:
    """Do what a verb says, and return the exit code."""
    job, script, *rest = words
    sys.argv = [script, *rest]
    own = os.path.abspath(__file__)
    folder = os.path.dirname(os.path.dirname(os.path.dirname(own)))
    sys.path.insert(0, folder)
    # For as long as this process lives, nobody removes the modules that it hasn't imported yet.
    lock = os.open(own, os.O_RDONLY)
    with suppress(OSError):  # a file system without locks: nobody removes anything there
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    unpacked = os.environ.pop(UNPACKED, "")
    try:
        if rest and rest[0] in STARTING:
            from remote_gpu_trainer.runner import compiling

            compiling.compile_all(folder)
        from remote_gpu_trainer.runner.main import main

        with open(os.path.join(job, "job.json"), encoding="utf-8") as file:
            text = file.read()
        return main(script, text, rest, job)
    finally:
        if unpacked:
            import shutil

            shutil.rmtree(unpacked, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(enter(sys.argv[1:]))
