"""The lines that a user or an agent types around a rendered script: start, watch, stop, resume.

Their templates quote every value. BOX stands for the box's name.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import shell_text
from .code_snapshot import Snapshot
from .job import Job


@dataclass(frozen=True)
class Commands:
    start: str
    watch: str
    stop: str
    resume: str


def commands(job: Job, target: str, file: str, snapshot: Snapshot | None) -> Commands:
    """The lines for a target. `file`: the rendered script here."""
    code = (job.code or "").rstrip("/") or "/"
    secrets = sorted({secret.variable for secret in job.secrets.values() if secret.variable})
    lines = shell_text.blocks(
        f"commands/{target}.j2",
        name=job.name,
        file=_here(file),
        folder=job.folder,
        folder_from_home=job.folder.removeprefix("~/"),  # rsync begins in the home folder
        named=job.run_dir is None,
        queue=job.queue is not None,
        nodes=job.nodes,
        code=_here(code) if job.code else "",
        code_inside=_here(code + "/") if job.code else "",
        listed=snapshot is None or bool(snapshot.tracked),
        secrets=secrets,
        namespace=(job.kubernetes.namespace if job.kubernetes else None) or "",
        spot=job.skypilot.spot,
    )
    return Commands(**lines)


def _here(path: str) -> str:
    """A local path that no program takes for an option."""
    return f"./{path}" if path.startswith("-") else path
