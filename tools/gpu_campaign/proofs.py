"""The proofs of entries that need a card, and those that ask whether there is one."""

import json
import os
import re
import sys
import tempfile
from pathlib import Path

from apart import run
from machine import NO_TIME, missing

ENTRY = re.compile(r"^### (\w+) — .*?(?=^### |\Z)", re.M | re.S)
NEEDS = re.compile(r"^\*\*Needs:\*\* .*\b(?:cuda|gpus?)\b", re.M)
ASKS = "cuda.is_available()"
PLUGIN = Path(__file__).resolve().parent / "plugin"  # a folder of its own on PYTHONPATH


def chosen(root):
    """Return the names of the proofs that a card may change, read from the entries' pages."""
    ids = set()
    for page in [*root.glob("references/**/*.md"), *root.glob("profiles/*.md")]:
        for entry in ENTRY.finditer(page.read_text(encoding="utf-8")):
            if NEEDS.search(entry[0]):
                ids.add(entry[1].lower())
    return [
        path.name
        for path in sorted((root / "evals/proofs").glob("test_*.py"))
        if path.stem[len("test_") :] in ids or ASKS in path.read_text(encoding="utf-8")
    ]


def run_part(root, env, box, clock):
    """Return the part's results: a row for each test, with what it said where it failed."""
    why = missing(box)
    if not why and not box["versions"].get("pytest"):
        why = "not run: pytest is not installed"
    if why:
        return {"results": [], "not_run": {"proofs": why}}
    names = chosen(root)
    spread = ["-n", str(min(8, os.cpu_count() or 1))] if box["versions"].get("pytest-xdist") else []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "proofs.jsonl"
        env = dict(env, GPU_CAMPAIGN_PROOFS=str(place))
        env["PYTHONPATH"] = os.pathsep.join([str(PLUGIN), env["PYTHONPATH"]])
        # addopts names plugins that may be missing here
        command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-q", "-p", "record_proofs"]
        command += ["-p", "no:cacheprovider", "--color=no", *spread]
        command += [f"evals/proofs/{name}" for name in names]
        done = run(command, env, clock.left(), cwd=root)
        lines = place.read_text(encoding="utf-8").splitlines() if place.exists() else []
    results = [json.loads(line) for line in lines]
    not_run = {}
    ran = {row["test"].partition("::")[0].rpartition("/")[2] for row in results}
    for name in names:
        if name not in ran:
            not_run[name] = NO_TIME if done["timed_out"] else "not run: pytest ran no test of it"
    return {"results": results, "not_run": not_run, "output": done["stdout"][-4000:]}
