"""Many runs of the torture, side by side, each in namespaces of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conftest import ROOT

from . import faults as all_faults

KINDS = tuple(kind.name for kind in all_faults.ALL)
LONGEST = 240  # seconds, of one run with all that follows it
OWN = [
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--propagation",
    "private",
]


def missing() -> str:
    """Why this machine can't torture a run, '' where it can."""
    if sys.platform != "linux":
        return "needs Linux"
    tried = subprocess.run(
        [*own(), "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True
    )
    return tried.stderr.strip() if tried.returncode else ""


def own() -> list[str]:
    """The words in front of a command that give it namespaces of its own; a plain user needs one of users too."""
    return OWN if os.geteuid() == 0 else [*OWN, "--map-root-user"]


def one(seed: int, faults: list[str], keep: Path | None) -> dict:
    """The record of one run. `keep`: a folder for what a broken run leaves."""
    words = [argument for name in faults for argument in ("--fault", name)]
    with tempfile.TemporaryFile("w+") as answer, tempfile.TemporaryFile() as left:
        given = [
            "--seed",
            str(seed),
            "--answer",
            str(answer.fileno()),
            "--keep",
            str(left.fileno()),
        ]
        try:
            done = subprocess.run(
                [*own(), sys.executable, "-m", "tests.torture.one", *given, *words],
                cwd=ROOT,
                pass_fds=(answer.fileno(), left.fileno()),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LONGEST,
            )
            said = (done.stdout + done.stderr)[-2000:]
        except subprocess.TimeoutExpired:
            said = f"it took more than {LONGEST} s"
        answer.seek(0)
        text = answer.read()
        found = (
            json.loads(text)
            if text
            else {"seed": seed, "held": False, "broke": [f"the harness: {said}"]}
        )
        left.seek(0)
        if keep and not found["held"]:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{seed}.tar.gz").write_bytes(left.read())
    return found


def many(
    seeds: list[int],
    faults: list[str],
    side_by_side: int,
    keep: Path | None,
    tell: Callable[[dict], None],
) -> list[dict]:
    """The records of all, in the order of their seeds."""

    def run(seed: int) -> dict:
        found = one(seed, faults, keep)
        tell(found)
        return found

    with ThreadPoolExecutor(side_by_side) as pool:
        return list(pool.map(run, seeds))


def line(found: dict) -> str:
    """One run in a line."""
    faults = ", ".join(f"{f['fault']} @{f['step']}" for f in found.get("faults", ())) or "nothing"
    numbers = f"{found.get('restarts')} restarts, {found.get('lost')} steps lost, {found.get('seconds')} s"
    broke = "; ".join(" ".join(what.split())[-300:] for what in found["broke"])
    end = "held" if found["held"] else f"BROKE: {broke}"
    return f"seed {found['seed']}: {faults}: {numbers}: {end}"
