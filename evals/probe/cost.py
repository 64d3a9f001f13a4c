"""What the probe costs a step: a model of ten million weights on one core, with the probe and without, in turns.

    python evals/probe/cost.py [--pairs 8]

It writes tests/records/probe_cost.json, from which page.py makes a section of evals/PROBE.md
(python -m pytest --update tests/scripts/test_probe_pairs.py). Seconds are those of the processor, so
that other work on the machine counts little; it counts somewhat, so the pairs are told one by one.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tools/gpu_campaign/programs/probe_ten_million_sound.py"
RECORD = ROOT / "tests/records/probe_cost.json"
LOOKED_AT, AFTER = slice(0, 30), slice(30, 60)  # steps, the first included


def run_once(folder: str, with_probe: bool) -> dict:
    """Seconds of the processor in the steps that the probe looks at and after, and the weights."""
    probe = [str(ROOT / "scripts/probe.py"), "--quiet", "--"] if with_probe else []
    done = subprocess.run(
        [sys.executable, *probe, str(PROGRAM)],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    busy = json.loads(told["busy"])
    return {
        "looked_at": round(sum(busy[LOOKED_AT]), 3),
        "after": round(sum(busy[AFTER]), 3),
        "weights": told["weights"],
    }


def main() -> None:
    """Measure, and write the record."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=8)
    count = parser.parse_args().pairs
    pairs = []
    git = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    told = {
        "commit": commit,
        "date": str(date.today()),
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "results": pairs,
    }
    for turn in range(count):
        with tempfile.TemporaryDirectory() as folder:
            order = (False, True) if turn % 2 else (True, False)
            ran = {with_probe: run_once(folder, with_probe) for with_probe in order}
        pairs.append({"plain": ran[False], "probed": ran[True], "load": os.getloadavg()[0]})
        print(json.dumps(pairs[-1]), flush=True)
        RECORD.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
