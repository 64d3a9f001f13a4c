"""Which processes are the run's, and which rank each of them is."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any, Iterable, Mapping

from ...text.masking import shown
from .. import procs
from ..folder import Folder

ROLL = "ranks.json"  # in the run folder: who was which rank, for those that are gone
MOST = 128  # processes that are looked at
# Variables with a rank, the number of all, and the number on this machine. PyTorch's count first:
# below torchrun each process has those of the batch step too.
_SPELLINGS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)  # fmt: skip
_TRACKERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


def is_python(pid: int) -> bool:
    """Return whether a process is a Python; an exe that can't be read is judged by its name."""
    try:
        name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        told = procs.stat(pid)
        name = told.name if told else ""
    return name.startswith(("python", "pypy", "pt_main_thread", "pt_data_worker"))


def command(pid: int) -> str:
    """Return a process's command line as one masked line, '' where there is none."""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        text = file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace")
        return shown(text.strip(), 300)
    return ""


def living_runs() -> dict[str, set[int]]:
    """Return {run folder: processes} of all runs that carry the mark of this tool's runner."""
    found: dict[str, set[int]] = {}
    for pid in procs.table():
        folder = procs.environ(pid).get(procs.MARK)
        if folder:
            found.setdefault(_base(folder), set()).add(pid)
    return found


def _base(folder: str) -> str:
    """Return the folder of the whole run for that of one of its nodes."""
    head, _, last = folder.rstrip("/").rpartition("/")
    return head if last.startswith("node-") and last[5:].isdigit() else folder.rstrip("/")


def without_a_run() -> set[int]:
    """Return the processes that train without this tool: those with a rank, or with a card open."""
    found = set()
    for pid in procs.table():
        env = procs.environ(pid)
        if procs.MARK not in env and ({"RANK", "WORLD_SIZE"} <= env.keys() or _has_card(pid)):
            found.add(pid)
    return found


def _has_card(pid: int) -> bool:
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                path = os.readlink(f"/proc/{pid}/fd/{name}")
                if path.startswith("/dev/nvidia") and path[11:].isdigit() or path == "/dev/kfd":
                    return is_python(pid)
    return False


def ranks(pids: Iterable[int]) -> list[dict[str, Any]]:
    """Return the members among a run's processes: pid, start, rank and sizes, children, command.

    A member is the topmost Python of each rank; without ranks each Python that isn't below another
    one. Those below a member are its children.
    """
    table = procs.table()
    pids = {pid for pid in pids if pid in table}
    envs = {pid: procs.environ(pid) for pid in pids}
    names = next((row for row in _SPELLINGS if any(row[0] in env for env in envs.values())), None)
    pythons = {pid for pid in pids if is_python(pid)}
    pythons = {pid for pid in pythons if not any(t in command(pid) for t in _TRACKERS)}
    found = []
    for pid in sorted(pythons):
        told = _told(envs[pid], names)
        if names and told["rank"] is None:
            continue
        if _above(pid, pythons, envs, table, told["rank"], names):
            continue
        below = (procs.children([pid], table) - {pid}) & pythons
        told.update(pid=pid, start=table[pid].start, children=sorted(below), command=command(pid))
        found.append(told)
    return sorted(found, key=lambda one: (one["rank"] is None, one["rank"] or 0, one["pid"]))[:MOST]


def _told(env: Mapping[str, str], names: tuple[str, str, str, str] | None) -> dict[str, Any]:
    """Return what a process's variables say of its rank."""
    keys = ("rank", "world", "local_rank", "local_world")
    if names is None:
        return dict.fromkeys(keys)
    return {key: _number(env.get(name, "")) for key, name in zip(keys, names)}


def _number(text: str) -> int | None:
    digits = text.partition("(")[0]
    return int(digits) if digits.isdigit() and len(digits) < 8 else None


def _above(
    pid: int,
    pythons: set[int],
    envs: Mapping[int, Mapping[str, str]],
    table: Mapping[int, procs.Stat],
    rank: int | None,
    names: tuple[str, str, str, str] | None,
) -> int:
    """Return the Python above a process that is the same rank, 0 for none."""
    at = table[pid].parent
    while at in table:
        if at in pythons and _told(envs.get(at, {}), names)["rank"] == rank:
            return at
        at = table[at].parent
    return 0


def expected(members: list[dict[str, Any]], alone: bool) -> list[int]:
    """Return the ranks that this machine should have, [] where nothing says so.

    `alone`: no other machine takes part.
    """
    found: set[int] = set()
    for one in members:
        rank, local, size = one["rank"], one["local_rank"], one["local_world"]
        if None not in (rank, local, size):
            found.update(range(rank - local, rank - local + size))
        elif alone and one["world"] and rank is not None:
            found.update(range(one["world"]))
    return sorted(found)


def is_alone(env: Mapping[str, str]) -> bool:
    """Return whether a rank's variables say that all ranks are on this machine."""
    nodes = env.get("SLURM_JOB_NUM_NODES") or env.get("SLURM_NNODES") or "1"
    address = env.get("MASTER_ADDR", "")
    here = ("", "localhost", "::1", procs.host(), procs.host().partition(".")[0])
    return nodes == "1" and (address in here or address.startswith("127."))


def note(folder: Folder, pids: Iterable[int]) -> None:
    """Keep in the run folder who is which rank, so that one that is gone has a name."""
    now = {str(one["rank"]): [one["pid"], one["start"]]
           for one in ranks(pids) if one["rank"] is not None}  # fmt: skip
    before = folder.json(ROLL)
    if now and {**before, **now} != before:
        folder.write(ROLL, json.dumps({**before, **now}) + "\n")


def gone(roll: Mapping[str, Any], members: list[dict[str, Any]]) -> dict[int, int]:
    """Return {rank: pid} of those that a roll names and that live no more."""
    here = {one["rank"] for one in members}
    noted = {int(rank): told for rank, told in roll.items()
             if rank.isdigit() and isinstance(told, list) and len(told) == 2}  # fmt: skip
    return {rank: pid for rank, (pid, start) in noted.items()
            if rank not in here and not procs.same(pid, start)}  # fmt: skip


def zombies(parents: Iterable[int]) -> list[dict[str, Any]]:
    """Return the dead whose parents haven't waited for them: pid, parent, and the wait status."""
    among, found = set(parents), []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
            head, _, rest = file.read().decode("utf-8", "replace").rpartition(")")
            words = rest.split()
            if words[0] == "Z" and int(words[1]) in among:
                code = int(words[49]) if len(words) > 49 else 0
                found.append({"pid": int(name), "parent": int(words[1]), "status": code,
                              "name": head.partition("(")[2]})  # fmt: skip
    return found
