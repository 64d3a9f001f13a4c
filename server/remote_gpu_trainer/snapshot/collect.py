"""Collect a snapshot: ask each question in a child of its own, and leave behind what hangs.

Nothing on the box is changed. A snapshot is one dictionary that JSON can hold; `files` are the
dumps of the Flight Recorder, packed; `missing` names what didn't answer, and why.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ..text.proc import is_same_process, read_environment, read_noted, read_table, with_descendants
from .files import find_output, is_run_log, measure_checkpoint, read_dumps, read_log, read_tail
from .frames import parse_fault_handler
from .machine import (
    ask_cards,
    find_mount,
    read_disk,
    read_kernel_log,
    read_memory,
    read_mounts,
    read_sockets,
    read_software,
    read_uptime,
)
from .members import (
    RUN_MARK,
    expected_ranks,
    find_members,
    find_runs,
    find_without_a_run,
    find_zombies,
    gone_ranks,
    is_only_machine,
)
from .processes import examine_process
from .questions import ask_all
from .stacks import ABORTED, abort_processes, collect_stacks

FINDING = 5.0  # seconds at most, and a quarter of the limit, for who belongs to the run
LAST_SECOND = 1.0  # of the limit, to put the answers together
MOST_CHILDREN = 64  # processes below the ranks that are examined
ENDS = ("done", "failed", "preempted", "unsaved")  # markers in the folder of a run that has ended
ROLL = "own/ranks.json"  # in the run's folder: {rank: [pid, start]}, for ranks that are gone
_STATE = ("name", "phase", "attempt", "step", "exit", "class", "reason", "checkpoint", "stalled",
          "started", "log_age", "log", "gpu")  # fmt: skip
_OF_RUN = ("folder", "run", "end", "expected", "gone", "zombies", "processes", "others")
_SUPERVISORS = ("runner", "supervisor")
_ABORT_LINE = "Fatal Python error: Aborted"


def collect_snapshot(
    folder: str, limit: float, why: str = "asked", abort: bool = False
) -> dict[str, Any]:
    """Return the snapshot of a run by its folder; with '' that of what trains here without one.

    It takes `limit` seconds at most. `why`: what it is taken for, "asked", "stall" or "failure".
    `abort`: those whose stacks can't be had otherwise are to be killed anyway, and may be aborted.
    """
    began = time.monotonic()
    ends = began + limit - LAST_SECOND - (ABORTED if abort else 0)
    run, missing = _find_run(folder, min(FINDING, limit / 4))
    answers, more = ask_all(_questions(run, ends - time.monotonic()), ends)
    if abort:
        _abort_the_rest(run, answers)
    return _assemble(run, why, answers, {**missing, **more}, time.monotonic() - began)


def _find_run(folder: str, seconds: float) -> tuple[dict[str, Any], dict[str, str]]:
    """Return who belongs to the run, and what the run's folder says; and what didn't answer.

    The folder may hang: who is the run's is known without it, by the marks of processes.
    """
    first: dict[str, Sequence[Any]] = {"processes": (_marked_processes, folder)}
    if folder:
        first["folder"] = (_read_folder, folder)
    until = time.monotonic() + seconds
    answers, missing = ask_all(first, until)
    marked, files = answers.get("processes") or {}, answers.get("folder") or {}
    supervisors = files.get("supervisors", [])
    pids = {*marked.get("pids", []), *files.get("pids", [])} - set(supervisors)
    place = marked.get("inner") or folder
    if place != folder and "folder" not in missing:
        # The folder of this box's node lies in that of the run.
        files = ask_all({"folder": (_read_folder, place)}, until)[0].get("folder") or files
    parents = {*pids, *files.get("supervisors", [])}
    ranks = {"ranks": (_find_ranks, sorted(pids), sorted(parents), files.get("roll") or {})}
    last, more = ask_all(ranks, until + seconds / 2)
    run = {"members": [], "expected": [], "gone": {}, "zombies": [], **(last.get("ranks") or {})}
    run.update(
        folder=place,
        others=[name for name in marked.get("others", []) if name != place],
        run=files.get("run") or {},
        end=files.get("end") or "",
        processes=sorted(pids)[:200],
    )
    return run, {**missing, **more}


def _marked_processes(folder: str) -> dict[str, Any]:
    """Return the processes of a run by what /proc tells alone."""
    runs = find_runs()
    top = os.path.normpath(folder) if folder else ""
    # The cells of a queue lie below its folder.
    names = {name for name in runs if top and (name + "/").startswith(top + "/")}
    pids = set().union(*(runs[name] for name in names)) if top else find_without_a_run()
    pids = with_descendants(pids, read_table())
    marks = (read_environment(pid).get(RUN_MARK, "") for pid in sorted(pids))
    return {
        "pids": sorted(pids),
        "inner": next(filter(None, marks), ""),
        "others": sorted(set(runs) - names),
    }


def _read_folder(folder: str) -> dict[str, Any]:
    """Return what the folder of a run says. `pids`: the program's first process, the others of its
    session, orphans that the supervisor inherited, and what lives below them."""
    table = read_table()
    leader, above = _noted_process(folder, "train"), _noted_process(folder, "supervisor")
    supervisors = [pid for name in _SUPERVISORS if (pid := _noted_process(folder, name))]
    own = [pid for pid, stat in table.items() if leader and leader in (pid, stat.session)]
    orphans = [pid for pid, stat in table.items() if above and stat.parent == above]
    own += [pid for pid in orphans if "RGT_OWN" not in read_environment(pid)]
    state = read_object(os.path.join(folder, "state.json"))
    return {
        "pids": sorted(with_descendants(own, table) - set(supervisors)),
        "supervisors": supervisors,
        "run": {name: state.get(name) for name in _STATE} if state else {},
        "end": next((end for end in ENDS if os.path.lexists(f"{folder}/.{end}")), ""),
        "roll": read_object(os.path.join(folder, ROLL)),
    }


def _noted_process(folder: str, name: str) -> int:
    """Return the pid of one of a run's processes, 0 where that is gone."""
    pid, start = read_noted(folder, name)
    return pid if is_same_process(pid, start) else 0


def read_object(path: str, most: int = 1 << 20) -> dict[str, Any]:
    """Return a file's JSON object, {} where there is none, or a longer one."""
    with suppress(OSError, ValueError, RecursionError):
        if os.path.getsize(path) <= most:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                value = json.load(file)
            return value if isinstance(value, dict) else {}
    return {}


def _find_ranks(pids: list[int], parents: list[int], roll: dict[str, Any]) -> dict[str, Any]:
    """Return the ranks among processes, and which of them are missing."""
    members = find_members(pids)
    is_alone = is_only_machine(read_environment(members[0]["pid"])) if members else False
    return {
        "members": members,
        "expected": expected_ranks(members, is_alone),
        "gone": gone_ranks(roll, members),
        "zombies": find_zombies(parents),
    }


def _examined(run: dict[str, Any]) -> list[int]:
    """Return the processes to examine: the ranks, and the first of those below them."""
    children = [pid for one in run["members"] for pid in one["children"]]
    return [*(one["pid"] for one in run["members"]), *children[:MOST_CHILDREN]]


def _questions(run: dict[str, Any], seconds: float) -> dict[str, Sequence[Any]]:
    """Return all that is asked, by name. `seconds`: until the answers have to be there."""
    ranks, folder, state = run["members"], run["folder"], run["run"]
    pids = [one["pid"] for one in ranks]
    since = float(state.get("started") or 0)
    first = pids[0] if pids else 0
    by_rank = {str(one["rank"] or 0): one["pid"] for one in ranks}
    asked: dict[str, Sequence[Any]] = {
        "stacks": (collect_stacks, _examined(run), seconds - LAST_SECOND),
        "cards": (ask_cards,),
        "kernel": (read_kernel_log, _begin_after_boot(since, ranks)),
        "memory": (read_memory, first),
        "sockets": (read_sockets, {_name_member(one): one["pid"] for one in ranks}),
        "software": (read_software, first),
        "recorder": (_read_dumps_of, by_rank, folder, since),
        "shm": (read_disk, "/dev/shm"),
    }
    asked.update({f"process {pid}": (examine_process, pid) for pid in _examined(run)})
    asked.update({f"output {_name_member(one)}": (_read_output, one["pid"]) for one in ranks})
    if folder:
        asked["log"] = (read_log, folder)
    if state.get("checkpoint"):
        asked["checkpoint"] = (measure_checkpoint, state["checkpoint"])
    for path in _choose_folders(folder, state, pids):
        asked[f"disk {path}"] = (read_disk, path)
    return asked


def _begin_after_boot(since: float, ranks: list[dict[str, Any]]) -> float:
    """Return when the run began, in seconds after the machine's start; 0 where nothing says so."""
    if since:
        return max(read_uptime() - (time.time() - since), 0.0)
    return min((one["start"] for one in ranks), default=0) / os.sysconf("SC_CLK_TCK")


def _name_member(one: dict[str, Any]) -> str:
    return f"process {one['pid']}" if one["rank"] is None else f"rank {one['rank']}"


def _choose_folders(folder: str, state: dict[str, Any], pids: list[int]) -> list[str]:
    """Return the folders whose disks matter, one a mount: of run, checkpoints, work and /tmp."""
    paths = [folder, os.path.dirname(str(state.get("checkpoint") or "")), "/tmp"]
    for pid in pids[:8]:
        with suppress(OSError):
            paths.append(os.readlink(f"/proc/{pid}/cwd"))
    mounts = read_mounts()
    by_mount = {find_mount(path, mounts)[0]: path for path in reversed(paths) if path}
    return sorted(by_mount.values())


def _read_output(pid: int) -> dict[str, Any]:
    path = find_output(pid)
    return {"path": path, **read_tail(path)} if path else {}


def _read_dumps_of(pids: dict[str, int], folder: str, since: float) -> dict[str, Any]:
    return read_dumps({rank: read_environment(pid) for rank, pid in pids.items()}, folder, since)


def _abort_the_rest(run: dict[str, Any], answers: dict[str, Any]) -> None:
    """Abort the processes without a stack, and read anew the log into which they write theirs."""
    stacks = answers.setdefault("stacks", {})
    pids = [pid for pid in _examined(run) if str(pid) not in stacks]
    if not pids:
        return
    abort_processes(pids)
    log = ask_all({"log": (read_log, run["folder"])}, time.monotonic() + LAST_SECOND)[0].get("log")
    answers["log"] = log or answers.get("log")
    written = ((log or {}).get("text") or "").split(_ABORT_LINE)[1:]
    if len(pids) == 1 and written and (threads := parse_fault_handler(written[-1])):
        stacks[str(pids[0])] = {"how": "abort", "threads": threads}


def _assemble(
    run: dict[str, Any], why: str, answers: dict[str, Any], missing: dict[str, str], seconds: float
) -> dict[str, Any]:
    """Put the answers together."""
    stacks = answers.get("stacks") or {}

    def describe(pid: int) -> dict[str, Any]:
        facts = answers.get(f"process {pid}") or {}
        return {"pid": pid, **facts, **(stacks.get(str(pid)) or {"how": "", "threads": []})}

    ranks = []
    for one in run["members"]:
        rank = {**one, **describe(one["pid"]), "name": _name_member(one)}
        rank["children"] = [describe(pid) for pid in one["children"]]
        rank["output"] = answers.get(f"output {_name_member(one)}") or {}
        ranks.append(rank)
    log = _separate_outputs(ranks, answers.get("log") or {})
    recorder = answers.get("recorder") or {"files": {}, "left_out": []}
    return {
        "why": why,
        "at": int(time.time()),
        "seconds": round(seconds, 1),
        "host": os.uname().nodename,
        **{name: run[name] for name in _OF_RUN},
        "ranks": ranks,
        "cards": answers.get("cards") or {"cards": []},
        "kernel": answers.get("kernel") or {"lines": [], "xids": []},
        "memory": answers.get("memory") or {},
        "disks": {n.partition(" ")[2]: a for n, a in answers.items() if n.startswith("disk ")},
        "shm": answers.get("shm") or {},
        "sockets": answers.get("sockets") or [],
        "software": answers.get("software") or {},
        "checkpoint": answers.get("checkpoint") or {},
        "log": log,
        "recorder": {"left_out": recorder["left_out"]},
        "files": recorder["files"],
        "missing": missing,
    }


def _separate_outputs(ranks: list[dict[str, Any]], log: dict[str, Any]) -> dict[str, Any]:
    """Leave each rank the file that it alone writes; return the log of all of them."""
    paths = [one["output"].get("path") for one in ranks]
    for one in ranks:
        path = one["output"].get("path", "")
        if path and (paths.count(path) > 1 or is_run_log(path)):
            log = log or one["output"]
            one["output"] = {}
    return log
