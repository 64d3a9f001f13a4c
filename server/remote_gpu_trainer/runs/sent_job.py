"""The job that a run's folder holds, as its run.sh names it. Python 3.8."""

from __future__ import annotations

import json
import os
import re


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
