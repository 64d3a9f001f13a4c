"""A job and a platform as the fields that the runner reads: those of runner/spec.py. Pure."""

from __future__ import annotations

import re
from typing import Any

from ..platforms.profile import Profile
from .job import Job, Resume
from .snapshot import Snapshot

# "step 12", "'global_step': 12", a progress bar's "| 12/100"
NOTICES = {
    "aws": "aws",
    "gcp": "gcp",
}  # whose metadata service tells of a preemption; the others send signals, or nothing
# The variable by which a command names its key.
_KEY = re.compile(r"\$\{?([A-Z][A-Z0-9_]*(?:KEY|TOKEN)[A-Z0-9_]*)")
_PYTHON = re.compile(r"\A\s*python3?(?=\s|\Z)")
# A word of a command that starts a Python program, such as python3.11, train.py or torchrun.
_TRAINING = re.compile(r"(?:^|/)(?:python[\d.]*|torchrun|accelerate|deepspeed)$|\.py$")


class Unfit(ValueError):
    """A job that this target can't run. One line: field, what is wrong, what to do."""


def spec_of(
    job: Job,
    profile: Profile,
    target: str,
    version: str,
    sha: str,
    folders: tuple[str, str],
    snapshot: Snapshot | None = None,
) -> dict[str, Any]:
    """Return {field: value} for the runner. Raises Unfit.

    `folders`: run folder and work folder on the box. `sha`: the job's fingerprint.
    """
    _check_boxes(job, target)
    _check_end(job)
    host, _, port = (job.rendezvous or "").partition(":")
    checkpoint, durable, stall = job.checkpoint, job.durable, job.stall
    return {
        "version": version,
        "job_sha": sha,
        "target": target,
        "profile": profile.name,
        "name": job.name,
        "run_dir": folders[0],
        "work_dir": folders[1],
        "command": command(job),
        "python": job.python,
        "launcher": job.launcher,
        "gpus": job.gpus,
        "processes": job.processes or max(job.gpus, 1),
        "nodes": job.nodes,
        "rendezvous_host": host,
        "rendezvous_port": port or "29400",
        "variables": dict(job.variables),
        "secret_files": {name: s.file for name, s in job.secrets.items() if s.file},
        "secret_variables": {name: s.variable for name, s in job.secrets.items() if s.variable},
        "setup": list(job.setup),
        "container": container(job, target),
        "install": install(job),
        "data": [[copy.source, copy.to] for copy in job.data],
        "save_signal": job.save_signal,
        "save_seconds": checkpoint.save_seconds if checkpoint else 30.0,
        "save_every_seconds": (checkpoint and checkpoint.every_minutes or 0) * 60,
        "checkpoint_folder": checkpoint.folder if checkpoint else "",
        "checkpoint_pattern": (checkpoint.pattern or "*") if checkpoint else "",
        "checkpoint_files": list(checkpoint.files) if checkpoint else [],
        **_resume(job),
        "durable": durable.to if durable else "",
        "durable_what": list(durable.what) if durable else [],
        "durable_on_this_box": durable.on_this_box if durable else False,
        "durable_seconds": durable.every_minutes * 60 if durable else 30.0,
        "results": list(job.results),
        "final_step": job.final_step or 0,
        "on_nan": job.on_nan,
        "deadline": job.deadline,
        **end_of(job, profile),
        "billed": billed(job, profile, target),
        "notify": list(job.notify),
        "notice": NOTICES.get(profile.name, ""),
        "retries": dict(job.retries),
        "stall_log_seconds": stall.log_minutes * 60,
        "stall_step_seconds": stall.step_minutes * 60,
        "stall_power_seconds": stall.idle_power_minutes * 60 if job.gpus else 0.0,
        **dict(zip(("min_free_mb", "min_free_inodes"), floors(job), strict=True)),
        "step_pattern": job.step_pattern,
        "rehearse": list(job.rehearsal.arguments),
        "rehearse_minutes": job.rehearsal.minutes,
        "probe": probed(job),
        "code_commit": snapshot.commit if snapshot else "",
        "code_diff": snapshot.difference if snapshot else "",
        "code_ignored": snapshot.ignored if snapshot else "",
        # Of several nodes none asks for it: the batch shell does, when all have ended.
        "requeue": target == "slurm" and job.slurm.requeue and job.nodes == 1,
        "cells": [cell.model_dump() for cell in job.queue.cells] if job.queue else [],
        "slots": job.queue.slots if job.queue else 1,
        "timings": dict(job.timings),
    }


def command(job: Job) -> str | list[str]:
    """Return the program's words, or its line for bash.

    Where the job names an interpreter, a first `python` becomes it. Raises Unfit.
    """
    if job.python.startswith("~"):
        raise Unfit("python: nothing reads the ~ there; write an absolute path")
    named = "python" in job.model_fields_set
    if isinstance(job.command, str):
        # The user's own line: a path with a blank in it is quoted as they would.
        line = f"'{job.python}'" if " " in job.python and "'" not in job.python else job.python
        return _PYTHON.sub(lambda _: line, job.command) if named else job.command
    first, *rest = job.command
    return [job.python if named and first in ("python", "python3") else first, *rest]


def floors(job: Job) -> tuple[int, int]:
    """Return the megabytes and the inodes that must be free."""
    return round(job.floors.free_gb * 1000), job.floors.free_inodes


def probed(job: Job) -> bool:
    """Whether the probe is used: the job has a Python program, and doesn't refuse."""
    words = job.command.split() if isinstance(job.command, str) else job.command
    named = job.launcher != "none" or any(map(_TRAINING.search, words))
    return job.probe and named


def _check_boxes(job: Job, target: str) -> None:
    """Raises Unfit where a target can't share cells among boxes."""
    if job.boxes == 1 or target in ("skypilot", "kubernetes"):
        return
    do = "leave it out, and start each box with its part: bash run.sh start --queue --part 1/2"
    if target == "slurm":
        do = "leave it out: each cell is a task of the array; slurm.at_a_time limits them"
    raise Unfit(f"queue.boxes: target {target} shares no cells among boxes; {do}")


def container(job: Job, target: str) -> dict[str, Any]:
    """The container's fields, {} for none. Raises Unfit for a target that can't run it."""
    given = job.container
    if given is None:
        return {}
    if target == "kubernetes":
        raise Unfit("container: a pod is one already; set kubernetes.image")
    if given.engine == "pyxis" and target != "slurm":
        raise Unfit("container.engine: pyxis is a part of Slurm; use apptainer, docker or podman")
    folders = {"checkpoint.folder": job.checkpoint.folder} if job.checkpoint else {}
    folders |= {f"data.{at}.to": copy.to for at, copy in enumerate(job.data)}
    for field, path in folders.items():
        if ":" in path or "," in path:
            raise Unfit(f"{field}: no engine binds a path with ':' or ','; rename the folder")
    return given.model_dump()


def install(job: Job) -> list[str]:
    """The command that installs the environment file. Raises Unfit."""
    path = job.environment
    if not path:
        return []
    name = path.rsplit("/", 1)[-1]
    if name == "uv.lock":
        return ["uv", "sync", "--frozen"]
    if name.endswith((".yml", ".yaml")):
        return ["conda", "env", "update", "--file", path]
    if name.endswith(".txt"):
        return [job.python, "-m", "pip", "install", "--requirement", path]
    raise Unfit(
        "environment: not requirements.txt, environment.yml or uv.lock; "
        "install anything else in the image"
    )


def billed(job: Job, profile: Profile, target: str) -> bool:
    """Whether somebody pays for the box by the hour until they end it.

    A scheduler takes its machine back. `local` is a command typed on a box, which stays rented.
    """
    if target in ("slurm", "kubernetes") or (target == "skypilot" and job.is_managed):
        return False
    return profile.kind == "rental" or (
        profile.kind == "unnamed" and target in ("ssh", "local", "skypilot")
    )


def _resume(job: Job) -> dict[str, str]:
    if isinstance(job.resume, Resume):
        way = "flag" if job.resume.flag else "variable"
        return {"resume": way, "resume_name": job.resume.flag or job.resume.variable or ""}
    return {"resume": job.resume, "resume_name": ""}


def end_of(job: Job, profile: Profile) -> dict[str, Any]:
    """Return the fields of the command that ends the box, what it needs, and when it runs."""
    wanted = job.at_end
    stop, stop_needs = self_stop(job, profile) if wanted.do != "keep" else ("", "")
    if wanted.do == "run":
        line, needs, keeps_disk = wanted.command or "", _needed(job), wanted.keeps_disk
    else:
        line, needs, keeps_disk = stop, stop_needs, bool(stop)
    return {
        "end_do": "run" if line else "keep",
        "end_command": line,
        "end_when": list(wanted.when),
        "end_needs": needs,
        "end_keeps_disk": keeps_disk,
        "end_limit_seconds": wanted.unproven_minutes * 60,
        "end_stop": stop,
        "end_stop_needs": stop_needs,
        "box_id": wanted.box_id or "",
    }


def _check_end(job: Job) -> None:
    """Raises Unfit where a command would delete what is nowhere else."""
    end = job.at_end
    if end.do == "run" and not end.keeps_disk and not job.durable and "unsaved" not in end.when:
        raise Unfit(
            "at_end: its command may delete the box with all that the run makes, and no durable "
            "place is named; name durable.to, or write keeps_disk: true if it deletes nothing, or "
            "add unsaved to at_end.when if all may be lost"
        )


def _needed(job: Job) -> str:
    """Return NAME, a variable of the box, or NAME=FILE with the name that the command reads."""
    given, command = job.at_end.credential, job.at_end.command or ""
    if given is None or given.variable:
        return (given and given.variable) or ""
    named = _KEY.search(command if isinstance(command, str) else " ".join(command))
    return f"{named[1] if named else 'RGT_STOP_KEY'}={given.file}"


def self_stop(job: Job, profile: Profile) -> tuple[str, str]:
    """The shell line by which the box stops itself and keeps its disk, and what that line needs.

    What it needs is a credential: the name of a variable on the box, or NAME=FILE. ('', '') where
    the platform has no such line.
    """
    fact = profile.facts.self_stop
    if (
        profile.kind != "rental"
        or fact is None
        or not fact.value.possible
        or fact.value.keeps_disk is not True
    ):
        return "", ""
    line = re.sub(
        r"\b(?:INSTANCE_)?ID\b(?!=)",
        '"$RGT_BOX_ID"',
        re.sub(r"(?<= )KEY\b", '"$RGT_STOP_KEY"', _without_variables(fact.value.command)),
    )
    line = _with_variables(line)
    if "$RGT_BOX_ID" in line and not job.at_end.box_id:
        return "", ""
    named = _KEY.findall(line)
    name = named[0] if named else "RGT_STOP_KEY" if "$RGT_STOP_KEY" in line else ""
    given = job.at_end.credential
    if not name:
        return line, ""
    if given and given.file:
        return line, f"{name}={given.file}"
    if given and given.variable and given.variable != name:
        return f'{name}="${given.variable}"; export {name}; {line}', given.variable
    return line, name


# A placeholder such as ID must not be looked for inside a shell variable such as $RUNPOD_POD_ID.
def _without_variables(line: str) -> str:
    return re.sub(r"\$(\{?)([A-Z_][A-Z0-9_]*)", lambda m: f"${m[1]}\x00{m[2].lower()}\x00", line)


def _with_variables(line: str) -> str:
    return re.sub("\x00([a-z0-9_]*)\x00", lambda m: m[1].upper(), line)


def folders(job: Job, target: str) -> tuple[str, str]:
    """(run folder, work folder) on the box; the command runs in the work folder."""
    run = job.run_dir or (
        f"{job.kubernetes.mount.rstrip('/')}/runs/{job.name}"
        if target == "kubernetes" and job.kubernetes and job.kubernetes.claim
        else f"~/runs/{job.name}"
    )
    if target == "kubernetes":
        return run, "."  # the code is in the image
    if target == "skypilot" and job.code:
        return run, "~/sky_workdir"  # SkyPilot sends the code there
    return run, f"{run}/code" if job.code else run
