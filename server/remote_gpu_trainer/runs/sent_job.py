"""The job that a run's folder holds, as its run.sh names it. Python 3.8."""

from __future__ import annotations

import json
import os
import re

END_SECONDS = 600  # between two tries of an end command
COPY_SECONDS = 300  # of one copy to a durable place, which nobody has measured yet
SAVE_SECONDS = 30.0  # as runner/spec.py has it


def end_seconds(job):
    """Return the seconds that a run's own end may take after its deadline, by its job: two saves, a
    copy, and of a box that the run ends itself the wait for a proof that all is safe, and another
    try of its end command."""
    save = (job.get("checkpoint") or {}).get("save_seconds") or SAVE_SECONDS
    at_end = job["at_end"]
    end = 0 if at_end.get("do") == "keep" else at_end["unproven_minutes"] * 60 + END_SECONDS
    return 2 * save + COPY_SECONDS + end


def job_in(folder):
    """Return the job of the run.sh in a folder, and what stands beside it, as {"job": …,
    "rendered": …}; {} where it can't be read."""
    try:
        with open(os.path.join(folder, "run.sh"), encoding="utf-8", errors="replace") as file:
            name = re.search(r"^RGT_JOB=(job-[0-9a-f]+)$", file.read(), re.M)
        path = os.path.join(folder, "run.d", name[1] if name else "", "job.json")
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
