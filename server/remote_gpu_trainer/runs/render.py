"""Render a job for a platform as one self-contained script.

Pure: no clock, no network, no file but the runner's source. Equal input gives equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import date
from pathlib import PurePath

from .. import __version__
from ..platforms.profile import Profile
from . import TARGETS, run_script, shell_text
from .engine_options import field_of, for_kubernetes, for_skypilot, for_slurm
from .job import Job
from .job_text import Unfit, folders, probed, spec_of
from .launch_risks import Warning, warnings
from .run_script import OURS
from .snapshot import Snapshot
from .targets import kubernetes, skypilot, slurm

_ENGINES = {
    "kubernetes": (kubernetes, for_kubernetes),
    "skypilot": (skypilot, for_skypilot),
}
_USUAL = {"slurm": "slurm", "kubernetes": "kubernetes", "local": "local"}
ENDINGS = {
    "ssh": "run.sh",
    "local": "run.sh",
    "slurm": "sbatch",
    "kubernetes": "k8s.yaml",
    "skypilot": "sky.yaml",
}


@dataclass(frozen=True)
class Rendered:
    """A script and the commands around it.

    `start`, `watch`, `stop` and `resume` are for the user's own shell; BOX is the box's name there.
    """

    file_name: str
    script: str
    start: str
    watch: str
    stop: str
    resume: str
    warnings: list[Warning]

    def as_dict(self) -> dict:
        """Return the fields by their names, each warning as {"id", "text"}: what JSON can hold."""
        return {
            "file_name": self.file_name,
            "script": self.script,
            "start": self.start,
            "watch": self.watch,
            "stop": self.stop,
            "resume": self.resume,
            "warnings": [{"id": warning.id, "text": warning.text} for warning in self.warnings],
        }


def usual_target(profile: Profile) -> str:
    """Return the target that fits a platform: its own scheduler, this machine, or ssh."""
    return _USUAL.get(profile.name, "ssh")


def render(
    job: Job,
    profile: Profile,
    target: str,
    on: date,
    snapshot: Snapshot | None = None,
    file: str | None = None,
) -> Rendered:
    """Return the script for a target. Raises Unfit.

    `on`: the day by which facts are judged stale. `file`: the path that the script will have.
    """
    if target not in TARGETS:
        raise Unfit(f"target: unknown target {target[:40]!r}; use one of {', '.join(TARGETS)}")
    try:
        text = _text(job, profile, target, snapshot)
    except Unfit:
        raise
    except ValueError as error:
        raise Unfit(field_of(str(error))) from None
    name = f"{job.name}.{ENDINGS[target]}"
    probe = probe_beside(job, target, file) if file else ""
    around = commands(job, target, file or name, probe)
    return Rendered(
        name,
        text,
        around.start,
        around.watch,
        around.stop,
        around.resume,
        warnings(job, profile, target, on, snapshot),
    )


def probe_beside(job: Job, target: str, file: str) -> str:
    """Return the path of the probe, beside the script at `file`; '' for a run without it."""
    takes = probed(job) and target in ("ssh", "slurm", "local")
    return str(PurePath(file).with_suffix(".probe.py")) if takes else ""


def _text(job: Job, profile: Profile, target: str, snapshot: Snapshot | None) -> str:
    sha = fingerprint(job)
    spec = spec_of(job, profile, target, __version__, sha, folders(job, target), snapshot)
    if target == "slurm":
        wanted = for_slurm(job)
        slurm.check(spec, wanted)
        return run_script.text(spec, slurm.head(wanted))
    text = run_script.text(spec)
    if target in _ENGINES:
        engine, options = _ENGINES[target]
        text = f"{OURS}.\n{engine.text(spec, options(job), text)}"
    return text


def fingerprint(job: Job) -> str:
    """SHA-256 of the job's canonical JSON, first 16 digits.

    Where its code lies here is no part of it, nor what is as usual: a newer version knows more
    fields.
    """
    text = json.dumps(
        job.model_dump(mode="json", by_alias=True, exclude={"code"}, exclude_defaults=True),
        sort_keys=True,
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Commands:
    """What the user types for a script: the four fields of `Rendered` with the same names."""

    start: str
    watch: str
    stop: str
    resume: str


def commands(job: Job, target: str, file: str, probe: str = "") -> Commands:
    """Return the lines for a target. `file`: the script here; `probe`: the probe, or ''."""
    code = (job.code or "").rstrip("/")
    secrets = sorted({secret.variable for secret in job.secrets.values() if secret.variable})
    lines = shell_text.blocks(
        f"commands/{target}.j2",
        name=job.name,
        file=_here(file),
        probe=_here(probe),
        folder=job.folder,
        folder_from_home=job.folder.removeprefix("~/"),  # rsync begins in the home folder
        named=job.run_dir is None,
        queue=job.queue is not None,
        nodes=job.nodes,
        code=_here(code) if job.code else "",
        code_inside=_here(code + "/") if job.code else "",
        secrets=secrets,
        namespace=(job.kubernetes.namespace if job.kubernetes else None) or "",
        managed=job.is_managed,
        boxes=job.boxes,
    )
    return Commands(**lines)


def _here(path: str) -> str:
    """Return a local path in a form that no program takes for an option."""
    return f"./{path}" if path.startswith("-") else path
