"""A job and a platform in, one self-contained script out. Pure: no clock, no file but the parts of the runner, no network; equal input gives equal bytes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import date

from .. import __version__
from ..platforms.profile import Profile
from . import shell_text
from .code_snapshot import Snapshot
from .job import Job
from .launch_risks import Warning, warnings
from .runner_values import Unfit, values
from .start_commands import commands
from .target_options import field_of, folders, for_kubernetes, for_skypilot, for_slurm
from .targets import kubernetes, skypilot, slurm

TARGETS = ("ssh", "slurm", "kubernetes", "skypilot", "local")
_ENGINES = {
    "slurm": (slurm, for_slurm),
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
    """A script and the commands around it. `start` and the rest are for the user's own shell; BOX is the box's name there."""

    file_name: str
    script: str
    start: str
    watch: str
    stop: str
    resume: str
    warnings: list[Warning]

    def as_dict(self) -> dict:
        return {
            "file_name": self.file_name, "script": self.script, "start": self.start, "watch": self.watch, "stop": self.stop,
            "resume": self.resume, "warnings": [{"id": w.id, "text": w.text} for w in self.warnings],
        }  # fmt: skip


def usual_target(profile: Profile) -> str:
    """The target that fits a platform: its own scheduler, this machine, or ssh."""
    return _USUAL.get(profile.name, "ssh")


def render(
    job: Job,
    profile: Profile,
    target: str,
    on: date,
    snapshot: Snapshot | None = None,
    file: str | None = None,
) -> Rendered:
    """The script for a target. `on`: the day by which facts are judged stale; `file`: where the script will lie. Raises Unfit."""
    if target not in TARGETS:
        raise Unfit(f"target: found {target[:40]!r}, expected one of {', '.join(TARGETS)}")
    sha = fingerprint(job)
    given = values(job, profile, target, __version__, sha, folders(job, target), snapshot)
    text = shell_text.script(given)
    if target in _ENGINES:
        engine, options = _ENGINES[target]
        try:
            text = engine.text(given, options(job), text)
        except Unfit:
            raise
        except ValueError as error:
            raise Unfit(field_of(str(error))) from None
    name = f"{job.name}.{ENDINGS[target]}"
    around = commands(job, target, file or name, snapshot)
    return Rendered(
        name,
        text,
        around.start,
        around.watch,
        around.stop,
        around.resume,
        warnings(job, profile, target, on),
    )


def fingerprint(job: Job) -> str:
    """SHA-256 of the job's canonical JSON, first 16 digits."""
    text = json.dumps(
        job.model_dump(mode="json", by_alias=True),
        sort_keys=True,
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]
