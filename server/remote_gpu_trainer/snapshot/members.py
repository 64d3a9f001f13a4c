"""Which processes are a run's, and which rank each of them is."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from typing import Any

from ..text.masking import shown
from ..text.proc import (
    Stat,
    is_same_process,
    read_environment,
    read_executable,
    read_open_files,
    read_stat,
    read_table,
    read_words,
    with_descendants,
)

RUN_MARK = "RGT_RUN_DIR"  # in the environment of each process of a run's program: the run's folder
MOST_MEMBERS = 128
# Variables with a rank, the number of all, its number on this machine, and how many are there.
# PyTorch's come first: below torchrun each process has those of the batch step too.
RANK_VARIABLES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)  # fmt: skip
_TRACKERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


def is_python(pid: int) -> bool:
    """Return whether a process is a Python; an exe that can't be read is judged by its name."""
    name = os.path.basename(read_executable(pid))
    if not name:
        stat = read_stat(pid)
        name = stat.name if stat else ""
    return name.startswith(("python", "pypy", "pt_main_thread", "pt_data_worker"))


def command_line(pid: int) -> str:
    """Return a process's command line as one masked line, '' where there is none."""
    text = read_words(pid)[:4096].replace(b"\0", b" ").decode("utf-8", "replace")
    return shown(text.strip(), 300)


def find_runs() -> dict[str, set[int]]:
    """Return {run folder: processes} of all runs whose program is alive."""
    runs: dict[str, set[int]] = {}
    for pid, stat in read_table().items():
        folder = read_environment(pid).get(RUN_MARK) if stat.lives else None
        if folder:
            runs.setdefault(_folder_of_all_nodes(folder), set()).add(pid)
    return runs


def _folder_of_all_nodes(folder: str) -> str:
    head, _, last = folder.rstrip("/").rpartition("/")
    return head if last.startswith("node-") and last[5:].isdigit() else folder.rstrip("/")


def find_without_a_run() -> set[int]:
    """Return the processes that train without this tool: those with a rank, or with a card open."""
    pids = set()
    for pid, stat in read_table().items():
        environment = read_environment(pid) if stat.lives else {RUN_MARK: ""}
        is_rank = {"RANK", "WORLD_SIZE"} <= environment.keys()
        if RUN_MARK not in environment and (is_rank or _has_card(pid)):
            pids.add(pid)
    return pids


def _has_card(pid: int) -> bool:
    for path in read_open_files(pid).values():
        if path.startswith("/dev/nvidia") and path[11:].isdigit() or path == "/dev/kfd":
            return is_python(pid)
    return False


def find_members(pids: Iterable[int]) -> list[dict[str, Any]]:
    """Return the members among a run's processes: pid, start, rank and sizes, children, command.

    A member is the topmost Python of each rank; without ranks each Python that isn't below another
    one. Those below a member are its children.
    """
    table = read_table()
    pids = {pid for pid in pids if pid in table and table[pid].lives}
    environments = {pid: read_environment(pid) for pid in pids}
    names = next(
        (row for row in RANK_VARIABLES if any(row[0] in one for one in environments.values())), None
    )
    pythons = {pid for pid in pids if is_python(pid)}
    pythons = {pid for pid in pythons if not any(t in command_line(pid) for t in _TRACKERS)}
    sizes = {pid: _read_rank(environments[pid], names) for pid in pythons}
    members = []
    for pid in sorted(pythons):
        if (names and sizes[pid]["rank"] is None) or _is_below_its_rank(pid, sizes, table):
            continue
        below = (with_descendants([pid], table) - {pid}) & pythons
        start, command = table[pid].start, command_line(pid)
        members.append(
            {
                **sizes[pid],
                "pid": pid,
                "start": start,
                "children": sorted(below),
                "command": command,
            }
        )
    members.sort(key=lambda one: (one["rank"] is None, one["rank"] or 0, one["pid"]))
    return members[:MOST_MEMBERS]


def _read_rank(
    environment: Mapping[str, str], names: tuple[str, str, str, str] | None
) -> dict[str, Any]:
    """Return what a process's variables say of its rank."""
    keys = ("rank", "world", "local_rank", "local_world")
    if names is None:
        return dict.fromkeys(keys)
    return {key: _parse_count(environment.get(name, "")) for key, name in zip(keys, names)}


def _parse_count(text: str) -> int | None:
    digits = text.partition("(")[0]
    return int(digits) if digits.isdigit() and len(digits) < 8 else None


def _is_below_its_rank(
    pid: int, sizes: Mapping[int, Mapping[str, Any]], table: Mapping[int, Stat]
) -> bool:
    """Return whether a Python above a process is the same rank."""
    at = table[pid].parent
    while at in table:
        if at in sizes and sizes[at]["rank"] == sizes[pid]["rank"]:
            return True
        at = table[at].parent
    return False


def expected_ranks(members: list[dict[str, Any]], is_alone: bool) -> list[int]:
    """Return the ranks that this machine should have, [] where nothing says so.

    `is_alone`: no other machine takes part.
    """
    ranks: set[int] = set()
    for one in members:
        rank, local, size = one["rank"], one["local_rank"], one["local_world"]
        if None not in (rank, local, size):
            ranks.update(range(rank - local, rank - local + size))
        elif is_alone and one["world"] and rank is not None:
            ranks.update(range(one["world"]))
    return sorted(ranks)


def is_only_machine(environment: Mapping[str, str]) -> bool:
    """Return whether a rank's variables say that all ranks are on this machine."""
    nodes = environment.get("SLURM_JOB_NUM_NODES") or environment.get("SLURM_NNODES") or "1"
    address, host = environment.get("MASTER_ADDR", ""), socket.gethostname()
    here = ("", "localhost", "::1", host, host.partition(".")[0])
    return nodes == "1" and (address in here or address.startswith("127."))


def gone_ranks(roll: Mapping[str, Any], members: list[dict[str, Any]]) -> dict[int, int]:
    """Return {rank: pid} of the ranks in a run's roll {rank: [pid, start]} that are gone."""
    here = {one["rank"] for one in members}
    noted = {int(rank): row for rank, row in roll.items()
             if rank.isdigit() and isinstance(row, list) and len(row) == 2}  # fmt: skip
    return {rank: pid for rank, (pid, start) in noted.items()
            if rank not in here and not is_same_process(pid, start)}  # fmt: skip


def find_zombies(parents: Iterable[int]) -> list[dict[str, Any]]:
    """Return the dead whose parents haven't waited for them: pid, parent, and the wait status."""
    among = set(parents)
    return [
        {"pid": pid, "parent": stat.parent, "status": stat.ended, "name": stat.name}
        for pid, stat in read_table().items()
        if stat.state == "Z" and stat.parent in among
    ]
