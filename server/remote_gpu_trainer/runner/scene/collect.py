"""Take the scene: ask each question in a process of its own, and leave behind what hangs.

Nothing on the box is changed. A scene is one dictionary that JSON can hold; `files` are the dumps
of the Flight Recorder, packed.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any, Mapping, Sequence

from .. import procs
from ..asking import Failed, Job
from ..folder import Folder
from . import asked_stacks, box, kept, members, processes

VERSION = 1
BUDGET = 20.0  # seconds for all of it
FINDING = 5.0  # of them for who belongs to the run
MOST_CHILDREN = 64  # processes below the ranks that are looked at
_STATE = ("name", "phase", "attempt", "step", "exit", "class", "reason", "checkpoint", "stalled",
          "started", "log_age", "log", "gpu")  # fmt: skip
_FOUND = ("folder", "run", "end", "expected", "gone", "zombies", "processes", "others")
_HANDS = ("runner", "keeper", "holder", "deadman")
Question = Sequence[Any]  # a function and its arguments


def take(folder: str, why: str = "asked", budget: float = BUDGET) -> dict[str, Any]:
    """Return the scene of a run by its folder; with '' that of what trains here without one.

    `why`: what it is taken for, "asked", "stall" or "failure".
    """
    began = time.monotonic()
    ends = began + budget - 1.0
    found, silent = _found(folder)
    answers, more = _answers(_questions(found), ends)
    return _scene(found, why, answers, {**silent, **more}, time.monotonic() - began)


def _found(folder: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return who belongs to the run, and what the run's folder tells; and what didn't answer.

    The folder may hang: who is the run's is known without it, by the marks of processes.
    """
    first = {"processes": (_marked, folder)}
    if folder:
        first["folder"] = (_told, folder)
    until = time.monotonic() + FINDING
    answers, silent = _answers(first, until)
    marked, told = answers.get("processes") or {}, answers.get("folder") or {}
    pids = {*marked.get("pids", []), *told.get("pids", [])}
    pids -= set(told.get("hands", []))
    place = marked.get("inner") or folder
    if place != folder and "folder" not in silent:
        # The folder of this box's node lies in that of the run.
        told = (_answers({"folder": (_told, place)}, until)[0]).get("folder") or told
    parents = {*pids, *told.get("hands", [])}
    roll = told.get("roll") or {}
    last, more = _answers({"ranks": (_members, sorted(pids), sorted(parents), roll)}, until + 2)
    found = {"members": [], "expected": [], "gone": {}, "zombies": [], **(last.get("ranks") or {})}
    found.update(
        folder=place,
        others=[name for name in marked.get("others", []) if name != place],
        run=told.get("run") or {},
        end=told.get("end") or "",
        processes=sorted(pids)[:200],
    )
    return found, {**silent, **more}


def _marked(folder: str) -> dict[str, Any]:
    """Return the processes of a run by what /proc tells alone."""
    living = members.living_runs()
    top = os.path.normpath(folder) if folder else ""
    # The cells of a queue lie below its folder.
    names = {name for name in living if top and (name + "/").startswith(top + "/")}
    pids = set().union(*(living[name] for name in names)) if top else members.without_a_run()
    pids = procs.children(pids, procs.table())
    marks = (procs.environ(pid).get(procs.MARK, "") for pid in sorted(pids))
    return {
        "pids": sorted(pids),
        "inner": next(filter(None, marks), ""),
        "others": sorted(set(living) - names),
    }


def _told(folder: str) -> dict[str, Any]:
    """Return what the folder of a run tells."""
    run = Folder(folder)
    leader = procs.alive(run, "train")
    told = run.json("state.json")
    return {
        "pids": sorted(procs.of_program(run, leader)),
        "hands": [pid for name in _HANDS if (pid := procs.alive(run, name))],
        "run": {name: told.get(name) for name in _STATE} if told else {},
        "end": run.ended(),
        "roll": run.json(members.ROLL),
    }


def _members(pids: list[int], parents: list[int], roll: dict[str, Any]) -> dict[str, Any]:
    """Return the ranks among processes, and which of them are missing."""
    found = members.ranks(pids)
    alone = members.is_alone(procs.environ(found[0]["pid"])) if found else False
    return {
        "members": found,
        "expected": members.expected(found, alone),
        "gone": members.gone(roll, found),
        "zombies": members.zombies(parents),
    }


def _questions(found: dict[str, Any]) -> dict[str, Question]:
    """Return all that is asked, by name."""
    ranks, folder = found["members"], found["folder"]
    pids = [one["pid"] for one in ranks]
    children = [pid for one in ranks for pid in one["children"]][:MOST_CHILDREN]
    run = found["run"]
    since = float(run.get("started") or 0)
    first = pids[0] if pids else 0
    named = {_name(one): one["pid"] for one in ranks}
    asked: dict[str, Question] = {
        "stacks": (asked_stacks.take, [*pids, *children]),
        "cards": (box.cards,),
        "kernel": (box.kernel, _began(since, ranks)),
        "memory": (box.memory, first),
        "sockets": (box.sockets, named),
        "software": (box.software, first),
        "recorder": (_dumps, {str(one["rank"] or 0): one["pid"] for one in ranks}, folder, since),
        "shm": (box.disk, "/dev/shm"),
    }
    asked.update({f"process {pid}": (processes.look, pid) for pid in [*pids, *children]})
    asked.update({f"output {_name(one)}": (_own_log, one["pid"]) for one in ranks})
    if folder:
        asked["log"] = (kept.log_tail, folder)
    if run.get("checkpoint"):
        asked["checkpoint"] = (kept.checkpoint, run["checkpoint"])
    for path in _folders(folder, run, pids):
        asked[f"disk {path}"] = (box.disk, path)
    return asked


def _began(since: float, ranks: list[dict[str, Any]]) -> float:
    """Return when the run began, in seconds after the machine's start; 0 where nothing says so."""
    if since:
        return max(box.uptime() - (time.time() - since), 0.0)
    return min((one["start"] for one in ranks), default=0) / os.sysconf("SC_CLK_TCK")


def _name(one: dict[str, Any]) -> str:
    return f"process {one['pid']}" if one["rank"] is None else f"rank {one['rank']}"


def _folders(folder: str, run: dict[str, Any], pids: list[int]) -> list[str]:
    """Return the folders whose disks matter, one a mount: of run, checkpoints, work and /tmp."""
    paths = [folder, os.path.dirname(str(run.get("checkpoint") or "")), "/tmp"]
    for pid in pids[:8]:
        with suppress(OSError):
            paths.append(os.readlink(f"/proc/{pid}/cwd"))
    among = box.mounts()
    by_mount = {box.mount_of(path, among)[0]: path for path in reversed(paths) if path}
    return sorted(by_mount.values())


def _own_log(pid: int) -> dict[str, Any]:
    path = kept.output_of(pid)
    return {"path": path, **kept.tail(path)} if path else {}


def _dumps(pids: dict[str, int], folder: str, since: float) -> dict[str, Any]:
    return kept.dumps({rank: procs.environ(pid) for rank, pid in pids.items()}, folder, since)


def _answers(
    questions: Mapping[str, Question], until: float
) -> tuple[dict[str, Any], dict[str, str]]:
    """Ask everything at once; return {name: answer}, and {name: why} of what didn't answer."""
    silent: dict[str, str] = {}
    open_jobs: dict[str, Job] = {}
    for name, (function, *arguments) in questions.items():
        try:
            open_jobs[name] = Job(function, *arguments)
        except OSError as error:
            silent[name] = str(error)
    answers = {}
    while open_jobs:
        late = time.monotonic() >= until
        for name, job in list(open_jobs.items()):
            if job.poll() or late:
                del open_jobs[name]
                if job.is_open:
                    job.give_up()
                    silent[name] = "no answer in time"
                    continue
                try:
                    answers[name] = job.value()
                except Failed as error:
                    silent[name] = str(error)
        time.sleep(0.02)
    return answers, silent


def _scene(
    found: dict[str, Any],
    why: str,
    answers: dict[str, Any],
    silent: dict[str, str],
    seconds: float,
) -> dict[str, Any]:
    """Put the answers together."""
    stacks = answers.get("stacks") or {}

    def about(pid: int) -> dict[str, Any]:
        told = answers.get(f"process {pid}") or {}
        return {"pid": pid, **told, **(stacks.get(str(pid)) or {"how": "", "threads": []})}

    ranks = []
    for one in found["members"]:
        told = {**one, **about(one["pid"]), "name": _name(one)}
        told["children"] = [about(pid) for pid in one["children"]]
        told["output"] = answers.get(f"output {_name(one)}") or {}
        ranks.append(told)
    whole = _sort_outputs(ranks, answers.get("log") or {})
    recorder = answers.get("recorder") or {"files": {}, "left_out": []}
    return {
        "version": VERSION,
        "why": why,
        "at": int(time.time()),
        "seconds": round(seconds, 1),
        "host": procs.host(),
        **{name: found[name] for name in _FOUND},
        "ranks": ranks,
        "cards": answers.get("cards") or {"cards": []},
        "kernel": answers.get("kernel") or {"lines": [], "xids": []},
        "memory": answers.get("memory") or {},
        "disks": {n.partition(" ")[2]: a for n, a in answers.items() if n.startswith("disk ")},
        "shm": answers.get("shm") or {},
        "sockets": answers.get("sockets") or [],
        "software": answers.get("software") or {},
        "checkpoint": answers.get("checkpoint") or {},
        "log": whole,
        "recorder": {"left_out": recorder["left_out"]},
        "files": recorder["files"],
        "silent": silent,
    }


def _sort_outputs(ranks: list[dict[str, Any]], log: dict[str, Any]) -> dict[str, Any]:
    """Leave each rank the file that it alone writes; return the log of all of them."""
    paths = [one["output"].get("path") for one in ranks]
    for one in ranks:
        path = one["output"].get("path", "")
        if path and (paths.count(path) > 1 or kept.is_run_log(path)):
            log = log or one["output"]
            one["output"] = {}
    return log
