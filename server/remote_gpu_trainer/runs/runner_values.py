"""A job and a platform as the variables that the runner reads. Pure.

Each part in runs/templates/ names those that it reads.
"""

from __future__ import annotations

import re
import shlex

from ..platforms.profile import Profile
from .job import Job, Queue, Resume, Secret
from .script_parts import Value
from .snapshot import Snapshot
from .targets import kubernetes, skypilot, slurm

UNIT = "\x1f"  # between the parts of a cell; no argument may hold it
# "step 12", "'global_step': 12", a progress bar's "| 12/100"
STEP = """(global_step|[Ss]tep|[Ii]ter(ation)?)["' =:#]*[0-9]+|[|] +[0-9]+/"""
NOTICES = {
    "aws": "aws",
    "gcp": "gcp",
}  # whose metadata service tells of a preemption; the others send signals, or nothing
_PYTHON = re.compile(r"\A\s*python3?(?=\s|\Z)")
# A word of a command that starts a Python program, such as python3.11, train.py or torchrun.
_TRAINING = re.compile(r"(?:^|/)(?:python[\d.]*|torchrun|accelerate|deepspeed)$|\.py$")
_KEY = re.compile(r"\$\{?([A-Z][A-Z0-9_]*(?:KEY|TOKEN)[A-Z0-9_]*)")


class Unfit(ValueError):
    """A job that this target can't run. One line: field, what is wrong, what to do."""


def values(
    job: Job,
    profile: Profile,
    target: str,
    version: str,
    sha: str,
    folders: tuple[str, str],
    snapshot: Snapshot | None = None,
) -> dict[str, Value]:
    """{variable: value} for the runner. Raises Unfit."""
    stop, needs = self_stop(job, profile)
    found: dict[str, Value] = {
        "RGT_VERSION": version,
        "RGT_JOB_SHA": sha,
        "RGT_TARGET": target,
        "RGT_PROFILE": profile.name,
        "RGT_NAME": job.name,
        "RGT_RUN_DIR": folders[0],
        "RGT_WORK_DIR": folders[1],
        "RGT_COMMAND": command(job),
        "RGT_LAUNCHER": job.launcher,
        "RGT_PYTHON": job.python,
        "RGT_GPUS": job.gpus,
        "RGT_PROCS": job.processes or max(job.gpus, 1),
        "RGT_NODES": job.nodes,
        "RGT_RDZV_HOST": (job.rendezvous or "").partition(":")[0],
        "RGT_RDZV_PORT": (job.rendezvous or "").partition(":")[2] or "29400",
        "RGT_ENV": [f"{name}={value}" for name, value in sorted(job.variables.items())],
        "RGT_SECRET_FILES": [
            f"{name}={secret.file}" for name, secret in sorted(job.secrets.items()) if secret.file
        ],
        "RGT_SECRET_VARS": [
            _secret_variable(name, secret)
            for name, secret in sorted(job.secrets.items())
            if secret.variable
        ],
        "RGT_SETUP": setup(job),
        "RGT_STAGE": [path for copy in job.data for path in (copy.source, copy.to)],
        "RGT_SAVE_SIGNAL": job.save_signal,
        "RGT_SAVE_SECONDS": _number(job.checkpoint.save_seconds if job.checkpoint else 30),
        "RGT_CHECKPOINT_DIR": job.checkpoint.folder if job.checkpoint else "",
        "RGT_CHECKPOINT_GLOB": (job.checkpoint.pattern or "*") if job.checkpoint else "",
        **_resume(job),
        "RGT_DURABLE": job.durable.to if job.durable else "",
        "RGT_SYNC": job.durable.what if job.durable else [],
        "RGT_SYNC_MINUTES": _number(job.durable.every_minutes if job.durable else 15),
        "RGT_EXPECT": job.results,
        "RGT_FINAL_STEP": job.final_step or 0,
        "RGT_ON_NAN": "stop" if job.on_nan == "stop" else "",
        "RGT_DEADLINE": job.deadline,
        "RGT_AT_END": job.at_end.do,
        "RGT_SELF_STOP": stop,
        "RGT_SELF_STOP_NEEDS": needs,
        "RGT_BOX_ID": job.at_end.box_id or "",
        "RGT_NOTIFY": job.notify,
        "RGT_NOTIFY_EVERY": 600,
        "RGT_NOTICE": NOTICES.get(profile.name, ""),
        "RGT_RETRY": [f"{name}={count}" for name, count in sorted(job.retries.items())],
        "RGT_STALL_LOG_SECONDS": _number(job.stall.log_minutes * 60),
        "RGT_STALL_STEP_SECONDS": _number(job.stall.step_minutes * 60),
        "RGT_STALL_POWER_SECONDS": _number(job.stall.idle_power_minutes * 60 if job.gpus else 0),
        "RGT_MIN_FREE_MB": _number(job.floors.free_gb * 1000),
        "RGT_MIN_FREE_INODES": job.floors.free_inodes,
        "RGT_STEP_PATTERN": job.step_pattern or STEP,
        "RGT_REHEARSE": job.rehearsal.arguments,
        "RGT_REHEARSE_MINUTES": _number(job.rehearsal.minutes),
        "RGT_PROBE": "on" if probed(job) else "off",
        "RGT_CODE_COMMIT": snapshot.commit if snapshot else "",
        "RGT_CODE_DIFF": snapshot.difference if snapshot else "",
        "RGT_CODE_IGNORED": snapshot.ignored if snapshot else "",
    }
    if target == "slurm":
        found["RGT_REQUEUE"] = "yes" if job.slurm.requeue else "no"
    if job.queue:
        found |= _queue(job.queue)
    return found


def self_stop(job: Job, profile: Profile) -> tuple[str, str]:
    """The shell line by which the box stops itself and keeps its disk, and what that line needs.

    What it needs is a credential: the name of a variable on the box, or NAME=FILE. ('', '') where
    the platform has no such line, or the job doesn't ask for it.
    """
    fact = profile.facts.self_stop
    if (
        job.at_end.do != "stop"
        or profile.kind != "rental"
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


def command(job: Job) -> list[str]:
    """The program's words. Where the job names an interpreter, a first `python` becomes it.

    Raises Unfit.
    """
    if job.python.startswith("~"):
        raise Unfit("python: nothing reads the ~ there; write an absolute path")
    named = "python" in job.model_fields_set
    if isinstance(job.command, str):
        line = shlex.quote(job.python)
        return ["bash", "-c", _PYTHON.sub(lambda _: line, job.command) if named else job.command]
    first, *rest = job.command
    return [job.python if named and first in ("python", "python3") else first, *rest]


def probed(job: Job) -> bool:
    """Whether a rehearsal uses the probe: the job has one, a Python program, and doesn't refuse."""
    words = job.command.split() if isinstance(job.command, str) else job.command
    named = job.launcher != "none" or any(map(_TRAINING.search, words))
    return job.probe and job.checkpoint is not None and named


def setup(job: Job) -> list[str]:
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


def _secret_variable(name: str, secret: Secret) -> str:
    return name if secret.variable == name else f"{name}={secret.variable}"


def _resume(job: Job) -> dict[str, Value]:
    if isinstance(job.resume, Resume):
        return {
            "RGT_RESUME": "flag" if job.resume.flag else "variable",
            "RGT_RESUME_NAME": job.resume.flag or job.resume.variable or "",
        }
    return {"RGT_RESUME": job.resume, "RGT_RESUME_NAME": ""}


def _queue(queue: Queue) -> dict[str, Value]:
    for place, cell in enumerate(queue.cells):
        if any(UNIT in argument for argument in cell.arguments):
            raise Unfit(
                f"queue.cells.{place}.arguments: an argument has the character U+001F; leave it out"
            )
    return {
        "RGT_CELLS": [UNIT.join([cell.name, *cell.arguments]) for cell in queue.cells],
        "RGT_CLAIMS": queue.claims or "",
        "RGT_LEASE": _number(queue.lease_minutes * 60),
        "RGT_SLOTS": queue.slots,
    }


def _number(value: float) -> int:
    """Whole seconds or megabytes: bash counts in integers. What is more than nothing stays so."""
    return max(int(round(value)), 1 if value > 0 else 0)


# A placeholder such as ID must not be looked for inside a shell variable such as $RUNPOD_POD_ID.
def _without_variables(line: str) -> str:
    return re.sub(r"\$(\{?)([A-Z_][A-Z0-9_]*)", lambda m: f"${m[1]}\x00{m[2].lower()}\x00", line)


def _with_variables(line: str) -> str:
    return re.sub("\x00([a-z0-9_]*)\x00", lambda m: m[1].upper(), line)


SECRETS = "{name}-secrets"  # the Kubernetes Secret with the keys that the job's secrets name


def for_slurm(job: Job) -> slurm.Options:
    """What the sbatch head needs. Raises Unfit and ValueError."""
    if job.hours is None:
        raise Unfit(
            "deadline: a Slurm job waits in the queue first, so a time of day doesn't work; write "
            "a span such as 20h"
        )
    wanted = job.slurm
    return slurm.Options(
        name=job.name,
        hours=job.hours,
        nodes=job.nodes,
        gpus=job.gpus,
        gpu_type=wanted.gpu_type or "",
        cpus=wanted.cpus or 0,
        memory_mb=(wanted.memory_gb or 0) * 1024,
        limit_hours=wanted.most_hours,
        partition=wanted.partition or "",
        account=wanted.account or "",
        qos=wanted.qos or "",
        cells=len(job.queue.cells) if job.queue else 0,
        at_once=wanted.at_a_time or 0,
        requeue=wanted.requeue,
        signal_seconds=wanted.signal_seconds,
    )


def for_kubernetes(job: Job) -> kubernetes.Options:
    """What the Kubernetes objects need. Raises Unfit and ValueError."""
    wanted = job.kubernetes
    if wanted is None:
        raise Unfit(
            "kubernetes: missing; set kubernetes.image, and kubernetes.claim if anything is to "
            "outlive the pod"
        )
    return kubernetes.Options(
        name=job.name,
        image=wanted.image,
        hours=job.hours,
        gpus=job.gpus,
        nodes=job.nodes,
        claim=wanted.claim or "",
        mount=wanted.mount,
        namespace=wanted.namespace or "",
        secret=SECRETS.format(name=job.name) if job.secrets else "",
        shm_gb=wanted.shm_gb,
        cpus=wanted.cpus or 0,
        memory_gb=wanted.memory_gb or 0,
        node_selector=tuple(sorted(wanted.node_selector.items())),
    )


def for_skypilot(job: Job) -> skypilot.Options:
    """What the SkyPilot task needs. Raises Unfit and ValueError."""
    wanted = job.skypilot
    if job.gpus and not wanted.accelerator:
        raise Unfit("skypilot.accelerator: missing; name a GPU such as H100, or set gpus: 0")
    return skypilot.Options(
        name=job.name,
        gpus=job.gpus,
        accelerator=wanted.accelerator or "",
        nodes=job.nodes,
        infra=wanted.infra or "",
        spot=wanted.spot,
        disk_gb=wanted.disk_gb or 0,
        image=wanted.image or "",
        workdir=job.code or "",
    )


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


def field_of(message: str) -> str:
    """A target's refusal, with the field as the job names it."""
    renamed = {
        "hours": "deadline",
        "limit_hours": "slurm.most_hours",
        "memory_mb": "slurm.memory_gb",
        "at_once": "slurm.at_a_time",
        "cells": "queue.cells",
    }
    return re.sub(r"^(\w+):", lambda found: renamed.get(found[1], found[1]) + ":", message)
