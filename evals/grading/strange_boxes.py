"""Faulty boxes and odd healthy ones, made by somebody who had not seen the box check.

A case is a line of evals/sets/health_strangers.jsonl: `edits` {file: [[first, last, [lines]]]} of
the lines of the capture `base`, and their maker's `what`, `expect` (the verdict), `gpus`, `why` and
`source`. `made` is the start of the hash of the folder that must come out. Ours are `names`, a
pattern that the evidence of a finding holds only if it names the fault; `first`, what the first run
answered; and `disputed`, why another verdict or silence is right.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from functools import lru_cache
from pathlib import Path

from . import healthy, report

RECORD = healthy.ROOT / "tests" / "records" / "gpu_campaign_h200.json"
RANK = {"fit": 0, "unknown": 1, "care": 2, "unfit": 3}
ALARMS = ("care", "unfit")
HEAD = ("run", "named", "verdict as theirs", "milder", "harder", "missed", "false on healthy ones")


def run(path: Path) -> tuple[str, list[str]]:
    """(a table of the first run and of today, what today lacks without a reason given)."""
    cases = read(path)
    today = {case["id"]: outcome(case, answer(case)) for case in cases}
    first = {case["id"]: case["first"] for case in cases}
    rows = [_row(name, cases, got) for name, got in (("first", first), ("today", today))]
    faults, count = len([case for case in cases if is_fault(case)]), len(cases)
    title = f"{faults} faulty boxes and {count - faults} odd healthy ones, made by a stranger"
    return report.table(title, HEAD, rows), [line for case in cases for line in lacks(case, today)]


def read(path: Path) -> list[dict]:
    """The cases of a set."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def is_fault(case: dict) -> bool:
    """Whether the box is faulty."""
    return case["id"].startswith("fault")


def texts(case: dict) -> dict[str, str]:
    """The files of the box. Raises ValueError if they aren't those that its maker made."""
    files = dict(_base(case["base"]))
    for name, edits in case["edits"].items():
        lines = files.get(name, "").splitlines(keepends=True)
        for first, last, new in reversed(edits):
            lines[first:last] = new
        files[name] = "".join(lines)
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{files[name]}\0".encode())
    if digest.hexdigest()[:12] != case["made"]:
        raise ValueError(f"{case['id']}: the capture {case['base']} has changed below its edits")
    return files


@lru_cache
def _base(name: str) -> dict[str, str]:
    if name.startswith("h200_"):
        runs = json.loads(RECORD.read_text(encoding="utf-8"))["parts"]["health"]["results"]
        return next(row["capture"] for row in runs if f"h200_{row['name']}" == name)
    folder = healthy.CAPTURES / name
    return {path.name: path.read_bytes().decode() for path in folder.iterdir() if path.is_file()}


def answer(case: dict) -> dict:
    """What the check says of the box."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts(case).items():
            (Path(folder) / name).write_bytes(text.encode())
        return healthy.ask(folder, "")[1]


def outcome(case: dict, told: dict) -> dict:
    """{verdict, named} of an answer; `named`: a finding of any level names the fault."""
    found = [finding["evidence"] for finding in told["findings"]]
    named = is_fault(case) and any(re.search(case["names"], text) for text in found)
    return {"verdict": told["verdict"], "named": named}


def lacks(case: dict, outcomes: dict[str, dict]) -> list[str]:
    """What the outcome of a case lacks, if the case gives no reason for it."""
    got, expected = outcomes[case["id"]], case["expect"]
    if not is_fault(case):
        alarm = got["verdict"] in ALARMS
        return [f"{case['id']}: false alarm, {got['verdict']}"] if alarm else []
    if case.get("disputed"):
        return []
    found = [] if got["named"] else [f"{case['id']}: no finding names it"]
    if got["verdict"] != expected:
        found.append(f"{case['id']}: {got['verdict']}, expected {expected}")
    return found


def _row(run_name: str, cases: list[dict], outcomes: dict[str, dict]) -> str:
    faults = [(case, outcomes[case["id"]]) for case in cases if is_fault(case)]
    missed = [got["verdict"] == "fit" and not got["named"] for _, got in faults]
    steps = [RANK[got["verdict"]] - RANK[case["expect"]] for case, got in faults]
    numbers = (
        sum(got["named"] for _, got in faults),
        steps.count(0),
        sum(step < 0 for step in steps) - sum(missed),
        sum(step > 0 for step in steps),
        sum(missed),
        sum(outcomes[case["id"]]["verdict"] in ALARMS for case in cases if not is_fault(case)),
    )
    return report.row(run_name, *map(str, numbers))
