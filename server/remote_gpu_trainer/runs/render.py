"""Render a job for a platform as one self-contained script.

Pure: no clock, no network, no file but the source of runner and probe. Equal input gives equal
bytes.
"""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass
from datetime import date

from .. import __version__
from ..platforms.profile import Profile
from . import TARGETS, run_script, shell_text
from .job import Job
from .launch_risks import Warning, warnings
from .rendered import CodeState, Unfit, job_of, rendered_of
from .run_script import OURS
from .targets import kubernetes, skypilot, slurm

_ENGINES = {"kubernetes": kubernetes, "skypilot": skypilot}
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
    `files`: run.sh and run.d apart, {path below the run's folder: text}.
    """

    file_name: str
    script: str
    start: str
    watch: str
    stop: str
    resume: str
    warnings: list[Warning]
    files: dict[str, str]

    def as_dict(self) -> dict:
        """Return the fields by their names, each warning as {"id", "text"}: what JSON can hold."""
        fields = asdict(self)
        del fields["files"]
        return fields


def usual_target(profile: Profile) -> str:
    """Return the target that fits a platform: its own scheduler, this machine, or ssh."""
    return _USUAL.get(profile.name, "ssh")


def render(
    job: Job,
    profile: Profile,
    target: str,
    on: date,
    code: CodeState | None = None,
    file: str | None = None,
) -> Rendered:
    """Return the script for a target. Raises Unfit.

    `on`: the day by which facts are judged stale. `file`: the path that the script will have.
    """
    if target not in TARGETS:
        near = difflib.get_close_matches(target.lower(), TARGETS, 1, 0.7)
        hint = f"did you mean {near[0]}?" if near else f"use one of {', '.join(TARGETS)}"
        raise Unfit(f"target: unknown target {target[:40]!r}; {hint}")
    rendered = rendered_of(job, profile, target, __version__, code)
    files = run_script.files(job_of(job), rendered, slurm.head(job) if target == "slurm" else "")
    text = run_script.packed(files)
    if target in _ENGINES:
        text = f"{OURS}.\n{_ENGINES[target].as_yaml(job, rendered, text)}"
    name = f"{job.name}.{ENDINGS[target]}"
    return Rendered(
        name,
        text,
        warnings=warnings(job, profile, target, on, code),
        files=files,
        **_commands(job, target, file or name),
    )


def _commands(job: Job, target: str, file: str) -> dict[str, str]:
    """Return what the user types for a target, by the names that `Rendered` has for it. `file`: the
    script here."""
    code = (job.code or "").rstrip("/")
    secrets = sorted({secret.variable for secret in job.secrets.values() if secret.variable})
    return shell_text.blocks(
        f"commands/{target}.j2",
        name=job.name,
        file=_here(file),
        folder=job.folder,
        named=job.run_dir is None,
        queue=job.queue is not None,
        nodes=job.nodes,
        code=_here(code) if job.code else "",
        secrets=secrets,
        namespace=(job.kubernetes.namespace if job.kubernetes else None) or "",
        managed=job.is_managed,
        boxes=job.boxes,
    )


def _here(path: str) -> str:
    """Return a local path in a form that no program takes for an option."""
    return f"./{path}" if path.startswith("-") else path
