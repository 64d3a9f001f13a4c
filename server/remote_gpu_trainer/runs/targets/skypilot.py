"""SkyPilot: the text of a task. Pure.

Its `run` writes the script with a here-document, whose delimiter is no line of the script, and runs
it. SkyPilot gives `run` to `bash -i`, which replaces `!` even inside double quotes. So `set +H`
comes first. The task only names secrets: `sky launch --secret NAME` brings the value.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from .. import shell_text, targets
from ..job import Job
from ..rendered import Unfit
from ..shell_text import Static

_NAME = r"[a-zA-Z0-9]+(?:[._-]{1,2}[a-zA-Z0-9]+)*"  # sky/task.py, _VALID_NAME_REGEX


def as_yaml(job: Job, rendered: Mapping[str, Any], script: str) -> str:
    """Return the task as YAML. Raises Unfit."""
    _check(job)
    targets.check_script(script)
    return targets.dump(lambda line: [_task(job, line)], run(job, script))


def _check(job: Job) -> None:
    """Raises Unfit for a job that SkyPilot can't run so."""
    if not re.fullmatch(_NAME, job.name):
        raise Unfit("name: SkyPilot takes at most two '-' side by side; choose another name")
    if job.gpus and not job.skypilot.accelerator:
        raise Unfit("skypilot.accelerator: missing; name a GPU such as H100, or set gpus: 0")
    if job.skypilot.accelerator and not job.gpus:
        raise Unfit("skypilot.accelerator: must be left out where gpus is 0; set gpus")
    if job.code and "$" in job.code:
        raise Unfit("code: must be a path without variables for SkyPilot; rename it")


def _task(job: Job, line: str) -> dict:
    wanted = job.skypilot
    task = {
        "name": job.name,
        "resources": _given(
            infra="/".join(filter(None, (wanted.infra, wanted.region, wanted.zone))),
            # Of several SkyPilot takes one that can be had.
            accelerators=dict.fromkeys((wanted.accelerator or "").split(","), job.gpus)
            if job.gpus
            else None,
            cpus=f"{wanted.cpus}+" if wanted.cpus else None,
            memory=f"{wanted.memory_gb}+" if wanted.memory_gb else None,
            use_spot=wanted.spot,
            job_recovery={"recover_on_exit_codes": [targets.AGAIN]} if job.is_managed else None,
            disk_size=wanted.disk_gb,
            image_id=wanted.image,
        ),
        "num_nodes": job.nodes,
        "workdir": job.code,
        "file_mounts": dict(sorted(wanted.file_mounts.items())),
        # SkyPilot asks for the value of an empty one: `--env RGT_PART=1/3`.
        "envs": {"RGT_PART": None} if job.boxes > 1 else None,
        "secrets": dict.fromkeys(
            sorted({secret.variable for secret in job.secrets.values() if secret.variable})
        ),
        # SkyPilot gives it to `bash -i`, which replaces `!`.
        "setup": "".join(f"{line}\n" for line in ("set +H", *wanted.setup)) if wanted.setup else "",
        "run": line,
    }
    return _given(**task)


def _given(**items: object) -> dict:
    return {key: value for key, value in items.items() if value}


def run(job: Job, script: str) -> str:
    """Return the bash that SkyPilot runs on each node."""
    lines = set(script.split("\n"))
    delimiter = "RGT_" + hashlib.sha256(script.encode()).hexdigest()[:16].upper()
    while delimiter in lines:
        delimiter += "_"
    return shell_text.filled(
        "skypilot_run.j2",
        name=job.name,
        delimiter=delimiter,
        script=Static(script),
        verb="queue" if job.queue else "run",
        nodes=job.nodes,
    )
