"""What `rgt fit` of an older commit reckons of the same rows, as tests/records/fit_before.json.

    git archive COMMIT | tar -x -C FOLDER
    PYTHONPATH=server python -m evals.fit.before FOLDER COMMIT > tests/records/fit_before.json

The older `fit` runs in a process of its own. A row that it refuses is null. Its margin is found by
its own verdict: the least card that it says an estimate of 0 and of 100 GiB fits.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from . import grading, page

RECORDS = Path(__file__).parents[2] / "tests/records"
OLDER = """
import json, sys
from remote_gpu_trainer.numbers import model_shape, training_memory
from remote_gpu_trainer.text import BadRequest

def peak(config, asked):
    # Its one AdamW was torch's default, before there were two.
    if asked.get("optimizer") not in (None, *training_memory.OPTIMIZERS):
        asked = {**asked, "optimizer": "adamw"}
    try:
        run = model_shape.check(model_shape.Run(**asked))
        if run.precision not in model_shape.PRECISIONS:
            return None
        return training_memory.estimate(model_shape.model_of(config), run).peak
    except BadRequest:
        return None

def least(size):
    low, high = 0.0, 1000.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        fits = training_memory.verdict(size * 2.0**30, middle) == "fits"
        low, high = (low, middle) if fits else (middle, high)
    return round(high, 4)

rows = json.load(sys.stdin)
json.dump([[peak(*row) for row in rows], least(0), least(100)], sys.stdout)
"""


def main() -> None:
    """Print the record."""
    folder, commit = sys.argv[1:]
    runs = json.loads((RECORDS / "fit_limits.json").read_text("utf-8"))["runs"]
    tuned = [(name, page.LLAMA3S[size], asked) for name, _, size, asked in grading.TUNED if asked]
    rows = [(told["run"], told["config"], told["asked"]) for told in runs] + tuned
    older = {"PYTHONPATH": f"{folder}/server", "PATH": "/usr/bin:/bin"}

    def ask(words: list[str], said: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        return subprocess.run(command, input=said, capture_output=True, text=True, env=older)

    done = ask(["-c", OLDER], json.dumps([row[1:] for row in rows]))
    peaks, fixed, hundred = json.loads(done.stdout)
    module = ask(["-m", "remote_gpu_trainer", "fit", "model.py:Net"])
    record = {
        "format": 1,
        "commit": commit,
        "margin": {"fixed": fixed, "share": round((hundred - fixed) / 100 - 1, 4)},
        "a_model_of_ones_own": module.stderr.strip(),
        "peaks": {name: peak for (name, *_), peak in zip(rows, peaks, strict=True)},
    }
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
