"""A job as the runner reads it, for tests: what they say, over a job that says nothing."""

from __future__ import annotations

import itertools
import tempfile
from types import SimpleNamespace
from typing import Any

from remote_gpu_trainer.runner import spec
from remote_gpu_trainer.runs import rendered, run_script
from remote_gpu_trainer.runs.job import Checkpoint, Durable, Job

_JOB = rendered.job_of(Job(name="run", command=["true"], deadline="1h", gpus=0)) | {
    "command": [],
    "deadline": "",
    "stall": {"log_minutes": 0.0, "step_minutes": 0.0, "idle_power_minutes": 0.0},
    "floors": {"free_gb": 0.0, "free_inodes": 0},
}
_RENDERED = {
    "version": "",
    "job_sha": "",
    "target": "local",
    "profile": "",
    "run_dir": "",
    "work_dir": "",
    "install": [],
    "end": {"command": "", "needs": "", "keeps_disk": False},
    "stop": {"command": "", "needs": ""},
    "billed": False,
    "notice": "",
    "probe": False,
    "code": {},
}
# The parts that a job may leave out, with the rest of their fields.
_PARTS = {
    "checkpoint": Checkpoint(folder="x").model_dump(mode="json") | {"folder": ""},
    "durable": Durable(to="x", what=["x"]).model_dump(mode="json") | {"to": "", "what": []},
    "queue": {"cells": [], "slots": 1, "boxes": 1},
    "container": {"mounts": [], "options": []},
}
_WHOLE = ("variables", "secrets", "retries", "code", "resume")  # replaced, not filled up
# What a box has, and no job says.
_BOX = ("cgroup", "metadata")
# A run without a folder of its own would write into the working folder.
_FOLDERS, _numbers = tempfile.TemporaryDirectory(prefix="rgt-jobs-"), itertools.count()


def merged(*layers: dict[str, Any]) -> dict[str, Any]:
    """Return the layers as one, each over those before it, part by part."""
    whole: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            if isinstance(value, dict) and name not in _WHOLE:
                whole[name] = merged(whole.get(name) or _PARTS.get(name, {}), value)
            else:
                whole[name] = value
    return whole


def script_of(*layers: dict[str, Any]) -> dict[str, Any]:
    """Return what a run.sh holds, {"job": ..., "rendered": ...}, of fields of a job and `rendered`.

    Without a `run_dir` it has a temporary one. Raises KeyError for a field that doesn't exist.
    """
    job = merged(_JOB, {"rendered": _RENDERED}, *layers)
    rendered = job.pop("rendered")
    known = {"": _JOB, "rendered.": dict.fromkeys([*_RENDERED, *_BOX])}
    known |= {f"{name}.": part for name, part in _PARTS.items() if name != "container"}
    known |= {f"{name}.": _JOB[name] for name in ("at_end", "stall", "floors", "rehearsal")}
    for part, fields in known.items():
        given = {"": job, "rendered.": rendered}.get(part, job.get(part[:-1]))
        for name in set(given or {}) - set(fields):
            raise KeyError(f"{part}{name}")
    usual = job["run_dir"] or f"{_FOLDERS.name}/{next(_numbers)}"
    rendered["run_dir"] = rendered["run_dir"] or usual
    return {"rendered": rendered, "job": job}


def secrets_of(files: dict[str, str], variables: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the `secrets` of a job: {variable: file on the box} and {variable: variable of the box}."""
    by_name = {name: {"file": None, "variable": place} for name, place in (variables or {}).items()}
    return {name: {"file": place, "variable": None} for name, place in files.items()} | by_name


def job_of(*layers: dict[str, Any]) -> SimpleNamespace:
    """Return the same as the runner has it."""
    return spec.of(**script_of(*layers))


def files_of(*layers: dict[str, Any], sbatch: str = "") -> dict[str, str]:
    """Return its run.sh and run.d, {path: text}."""
    return run_script.files(**script_of(*layers), sbatch=sbatch)


def text_of(*layers: dict[str, Any], sbatch: str = "") -> str:
    """Return them as one file."""
    return run_script.packed(files_of(*layers, sbatch=sbatch))


def unpacked(script: str) -> dict[str, str]:
    """Return what `run_script.packed` was given, but for the runner's own files."""
    head, *parts = script.split("\n# run.d/")
    head = head.removesuffix(f"\n{run_script.BEGIN.strip()}")
    found = {"run.sh": head}
    for part in parts:
        name, _, content = part.partition("\n")
        if name.startswith("job-"):
            found[f"run.d/{name}"] = content + "\n"
    return found
