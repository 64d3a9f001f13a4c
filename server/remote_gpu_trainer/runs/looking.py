"""Look at a box for what a start there would refuse, and change nothing on it.

The checks before the start see more, but they write, and need the run's script on the box.
"""

from __future__ import annotations

import json
import posixpath

from ..boxes import box as boxes
from ..boxes.box import Box
from ..runner.preflight import judge_folder, megabytes_of
from ..text.masking import shown
from .job import Job
from .rendered import folders
from .transfer import link

LIMIT = 30.0  # seconds

# Runs on the box: of each folder, or of the nearest one above it that is there, whether this user
# can write, its free MB, and its free inodes.
LOOK = r"""
import json, os, sys
def look(path):
    path = os.path.abspath(os.path.expanduser(path))
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    is_writable = os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)
    try:
        told = os.statvfs(path)
    except OSError:
        return [is_writable, None, None]
    is_writable = is_writable and not told.f_flag & os.ST_RDONLY
    inodes = told.f_favail if told.f_files else None
    return [is_writable, told.f_bavail * told.f_frsize // (1 << 20), inodes]
print(json.dumps([look(path) for path in sys.argv[1:]]))
"""


def refusals(box: Box, job: Job, *, accept_new: bool = False) -> list[str]:
    """Return what the box lacks for a start of the job, a sentence each."""
    least = megabytes_of(job.floors.free_gb), job.floors.free_inodes
    run, work = folders(job, "local" if box.local else "ssh")
    places = {"the run folder": run}
    if job.checkpoint:
        places["the checkpoint folder"] = posixpath.join(work, job.checkpoint.folder)
    reply = boxes.run(
        box,
        b"",
        interpreter=("python3", "-I", "-c", LOOK),
        args=tuple(places.values()),
        limit=LIMIT,
        accept_new=accept_new,
    )
    if reply.outcome == "ok" and reply.code == 127:
        return [link.without_python(box)]
    try:
        seen = json.loads(reply.out) if reply.outcome == "ok" else []
        faults = []
        for (what, path), row in zip(places.items(), seen, strict=True):
            is_writable, megabytes, inodes = row
            free = bool(is_writable), megabytes, inodes
            faults.append(judge_folder(f"{what} {path}", *free, *least))
    except (ValueError, TypeError):
        why = reply.text or "its answer can't be read"
        return [f"{shown(box.name, 80)} couldn't be looked at for room: {why}"]
    return [reason for found in faults for _, reason in found]
