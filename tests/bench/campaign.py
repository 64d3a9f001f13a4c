"""Many cells side by side, each in namespaces of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conftest import ROOT

from . import faults, shapes

# SHAPE/FAULT of the whole table: each shape with each fault, and each real framework killed.
TABLE = {f"{shape.name}/{fault}" for shape in shapes.ALL for fault in faults.TABLE}
TABLE |= {f"{shape.name}/kill" for shape in shapes.REAL}
LONGEST = 420  # seconds of one cell, of which three faults take most
OWN = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--propagation", "private"]  # fmt: skip


def own() -> list[str]:
    """The words in front of a command that give it namespaces of its own; a plain user needs one of users too."""
    return OWN if os.geteuid() == 0 else [*OWN, "--map-root-user"]


def missing() -> str:
    """Why this machine can't run a cell, '' where it can."""
    if sys.platform != "linux":
        return "needs Linux"
    tried = subprocess.run(
        [*own(), "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True
    )
    return tried.stderr.strip() if tried.returncode else ""


def one(shape: str, faults: list[str], seed: int, keep: Path | None = None) -> dict:
    """The verdict on one cell. `keep`: a folder for all that it leaves."""
    words = [word for fault in faults for word in ("--fault", fault)]
    if keep:
        place = keep / f"{shape}-{'-'.join(faults)}-{seed}"
        place.mkdir(parents=True, exist_ok=True)
        words += ["--keep", str(place.absolute())]
    with tempfile.TemporaryFile("w+") as answer:
        command = [
            *own(),
            sys.executable,
            "-m",
            "tests.bench.cell",
            "--shape",
            shape,
            "--seed",
            str(seed),
        ]
        command += ["--answer", str(answer.fileno()), *words]
        try:
            done = subprocess.run(
                command, cwd=ROOT, pass_fds=(answer.fileno(),), stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=LONGEST,
            )  # fmt: skip
            said = (done.stdout + done.stderr)[-1500:]
        except subprocess.TimeoutExpired:
            said = f"it took more than {LONGEST} s"
        answer.seek(0)
        text = answer.read()
    if text:
        return json.loads(text)
    cell = f"{shape}/{'+'.join(faults)}"
    return {"cell": cell, "shape": shape, "faults": faults, "seed": seed, "kept": "void", "copied_after": [], "window": 0, "said": "",
            "messages": [], "end_command": False, "wrong": [], "void": f"the harness: {said}", "seconds": 0}  # fmt: skip


def many(
    cells: list[tuple[str, list[str], int]],
    side_by_side: int,
    keep: Path | None,
    tell: Callable[[dict], None],
    until: float | None = None,
) -> list[dict]:
    """The verdicts on all, in their order. `until`: no cell begins after this time, by time.monotonic()."""

    def run(cell: tuple[str, list[str], int]) -> dict | None:
        if until and time.monotonic() > until:
            return None
        found = one(*cell, keep)
        tell(found)
        return found

    with ThreadPoolExecutor(side_by_side) as pool:
        return [found for found in pool.map(run, cells) if found]


def line(found: dict) -> str:
    """One cell in a line."""
    end = "end command ran" if found["end_command"] else "box on"
    head = f"{found['cell']:32} {found['kept']:15} window {found['window']:4.1f} s  copied after {max(found['copied_after'], default=0):4.1f} s  {found['seconds']:3} s"
    told = f"{found['said']}; {found.get('not_copied', 0)} not copied; {len(found['messages'])} messages; {end}"
    wrong = found["void"].strip()[-400:] if found["void"] else "; ".join(found["wrong"])
    return f"{head}  {told}" + (f"\n    {wrong}" if wrong else "")


def write_record(path: Path, found: list[dict]) -> None:
    """The verdicts with the commit on which they were found; of the messages, how many were sent."""
    git = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    rows = [{**one, "messages": len(one["messages"])} for one in found]
    text = json.dumps({"commit": commit, "results": rows}, ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")
