"""A run folder whose script only prints what a test wants `status --json` to say, and whose `sync` ends as its file `syncs` says."""

from __future__ import annotations

import json
from pathlib import Path

SAYS = {
    "name": "toy", "phase": "running", "alive": True, "attempt": 1, "step": 120, "exit": None, "class": "", "entry": "", "reason": "", "started": 1, "updated": 2,
    "heartbeat_age": 3, "log_age": 4, "log": "log/train.log.0000", "deadline": None, "supervisor_alive": True, "stalled": False, "gpu": None, "disk_free_mb": 90000,
    "last_sync": None, "host": "box", "boot_id": "b", "tail": "step 119 loss 0.3\nstep 120 loss 0.2\n", "expect_missing": [],
}  # fmt: skip


def fake_run(home: Path, name: str = "toy", raw: bytes | None = None, **says) -> Path:
    """Make or change the run `name`; `says` goes over SAYS, `raw` is printed instead of JSON."""
    folder = home / "runs" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "says").write_bytes(raw if raw is not None else json.dumps({**SAYS, **says}).encode())
    (folder / "run.sh").write_text(
        'cd "$(dirname "$0")"; [ "$1" = sync ] && { echo sync >>../../asked; exit "$(cat syncs)"; }\n'
        '[ "$1 $2" = "status --json" ] || exit 64\ncat says\n'
    )
    return folder


def put_job(folder: Path, job: dict) -> None:
    """Put the job of a run beside its run.sh, as a real one has it."""
    script = folder / "run.sh"
    before = script.read_text() if script.exists() else "exit\n"
    script.write_text(f"{before}\nRGT_JOB=job-0\n")
    (folder / "run.d" / "job-0").mkdir(parents=True, exist_ok=True)
    (folder / "run.d" / "job-0" / "job.json").write_text(json.dumps(job))
