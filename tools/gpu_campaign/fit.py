"""The peak memory of small models on a card, beside what `rgt fit` reckons for them."""

import json
import sys
from pathlib import Path

from apart import WHOLE, run
from machine import NO_TIME, missing


def run_part(root, env, box, clock):
    """Return the part's results: a row for each model, as fit_models.py prints it.

    One process trains all of them, since each start of CUDA and transformers takes ten seconds. It
    prints a row after each model, so that a limit cuts off the rest only.
    """
    why = missing(box)
    if why:
        return {"results": [], "not_run": {"fit": why}}
    program = Path(__file__).with_name("fit_models.py")
    done = run([sys.executable, program, "cuda"], env, clock.left(), most=WHOLE)
    results, not_run = [], {}
    for line in done["stdout"].splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if "not_run" in row:
            not_run[row["run"]] = row["not_run"]
        elif "run" in row:
            results.append(row)
    if done["timed_out"]:
        not_run["the rest"] = NO_TIME
    elif done["rc"] != 0:
        not_run["the rest"] = f"not run: the program ended with code {done['rc']}"
    return {"results": results, "not_run": not_run, "stderr": done["stderr"][-4000:]}
