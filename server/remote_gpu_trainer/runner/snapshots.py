"""Snapshots that the runner takes by itself before a program's processes are gone.

The program that takes them, scripts/snapshot.py, lies in run.d. It is a child with a limit:
the heartbeat goes on while it runs.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

from ..text import proc
from . import child, parts, procs
from .context import Run, plain_environment
from .folder import Folder

KEPT = os.path.join("log", "snapshots")  # with the log, so they go where it goes
MOST_KEPT = 4  # the first one stays, since what came later may follow from it
LIMITS = {"stall": 20.0, "failure": 8.0}  # seconds, by what the snapshot is taken for
LATE = 5.0  # seconds after its limit in which the child may still end
ROLL = "own/ranks.json"  # who was which rank, for a snapshot of those that are gone
# What names a rank, PyTorch's first: below torchrun each process has those of the batch step too.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK")


def program_words() -> list[str]:
    """Return the words that start the snapshot's program; its own follow."""
    return [sys.executable, "-I", "-S", "-B", "-X", "utf8", parts.folder("snapshot.py")]


def keep_snapshot(run: Run, why: str, beat: child.Beat) -> str:
    """Take a snapshot for a "stall" or a "failure" into the run's folder; return its folder, ''
    where that failed or the run is asked to end.

    `beat` is called meanwhile. Before a stalled program is killed, those of its processes whose
    stacks can't be had otherwise are aborted.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(run.now))
    name = os.path.join(KEPT, f"{stamp}-{why}")
    with suppress(OSError):
        os.makedirs(run.folder.at(KEPT), exist_ok=True)
    options = ["--why", why, "--limit", f"{LIMITS[why]:g}", "--to", run.folder.at(name)]
    options += ["--abort"] if why == "stall" else []
    words = [*program_words(), *options, run.folder.path]
    code, output = child.ask(run, LIMITS[why] + LATE, beat, words, plain_environment())
    if code != 0:
        said = "it was given up" if code is None else output.strip().rpartition("\n")[2]
        run.log(f"no snapshot could be taken: {said}")
        shutil.rmtree(run.folder.at(name), ignore_errors=True)
        return ""
    _drop_old(run.folder.at(KEPT))
    first = output.partition("\n\n")[2].splitlines()[:2]
    run.event("snapshot", why=why, folder=name, says=" ".join(map(str.strip, first))[:300])
    return run.folder.at(name)


def _drop_old(folder: str) -> None:
    names: list[str] = []
    with suppress(OSError):
        names = sorted(name for name in os.listdir(folder) if name[:1].isdigit())
    for name in names[1 : len(names) - MOST_KEPT + 1]:
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def note_ranks(folder: Folder, pids: Iterable[int]) -> None:
    """Keep in the run's folder which process is which rank, {rank: [pid, start]}.

    Of several processes of a rank it is the Python that began first.
    """
    table = procs.table()
    pythons = {pid: procs.environ(pid) for pid in pids if pid in table and _is_python(pid)}
    name = next((name for name in _RANKS if any(name in one for one in pythons.values())), "")
    now: dict[str, list[int]] = {}
    for pid in sorted(pythons, key=lambda pid: (table[pid].start, pid)):
        rank = pythons[pid].get(name, "")
        if rank.isdigit():
            now.setdefault(rank, [pid, table[pid].start])
    before = folder.json(ROLL)
    if now and {**before, **now} != before:
        folder.write(ROLL, json.dumps({**before, **now}) + "\n")


def _is_python(pid: int) -> bool:
    return os.path.basename(proc.read_executable(pid)).startswith(("python", "pypy"))
