"""The job as the runner reads it: two objects, as JSON, in the run.sh.

`job` is the job itself in the words of its user, as runs/job.py dumps it: every field is there,
with its default where the user named none. `rendered` is what the server made of it for one
platform and target (runs/rendered.py): hashes, folders, the command that ends the box.
"""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

MUST_RESTORE = "must-restore"  # beside the run.sh: nothing begins without a durable checkpoint
SAVE_SECONDS = 30.0  # how long one save takes at most, where no job says it

# Waits and sizes that hardly a job changes, and tests do. Seconds, but for bytes and counts.
TIMINGS = {
    "heartbeat": 10.0,  # state.json, the step, the results of collectors
    "tick": 0.25,  # how often the runner looks at its program
    "retry_wait": 5.0,  # before an attempt is repeated; a lost network waits longer each time
    "room_wait": 600.0,  # for a full disk to have room again
    "place_wait": 3600.0,  # for a durable place that alone has a complete checkpoint to answer
    "place_again": 30.0,  # between two times that it is asked
    "tries_an_hour": 60,
    "leftover": 5.0,  # for workers that outlive their program and end by themselves
    "raise_after": 3.0,  # runner and supervisor raise each other when one is gone for this long
    "hung": 600.0,  # without a beat a living runner counts as hung
    "deadman": 5.0,  # how often the third hand looks
    "sync_wait": 5.0,  # between two tries of the last copy; doubles up to a minute
    "copy_quiet": 120.0,  # a copy without progress for this long is ended and tried otherwise
    "notify_every": 600.0,  # a message that asks for action is repeated
    "end_retry": 15.0,  # between two tries of the end command; doubles up to ten minutes
    "end_wait": 120.0,  # after an end command that answered, the box may take this long to go
    "lease_beat": 20.0,
    "lease_dead": 180.0,  # a lease whose beat hasn't changed for this long is a dead machine's
    "name_wait": 120.0,  # for the first node's name
    "settle": 600.0,  # after its boot a box may still lack what the last start had
    "settle_wait": 10.0,  # between two looks whether it is there
    "notice_every": 5.0,  # between two looks at the provider's metadata service
    "log_bytes": 50_000_000,  # of one log file
    "log_cap": 2_000_000_000,  # of all log files of a run
}

# The parts of a job that the runner reads by their fields. One that a job leaves out names nothing.
_PARTS: dict[str, dict[str, Any]] = {
    "checkpoint": {
        "folder": "",
        "pattern": "",
        "files": [],
        "every_minutes": None,
        "save_seconds": SAVE_SECONDS,
    },
    "durable": {"to": "", "what": [], "every_minutes": 0.0, "on_this_box": False},
    "queue": {"cells": [], "slots": 1},
    "at_end": {},
    "stall": {},
    "floors": {},
    "rehearsal": {},
    "slurm": {},
}
# Where a box keeps what is read of it; only tests say otherwise. The metadata service by its
# address: a name would be looked up anew each time, and a name server may hang.
_BOX = {"cgroup": "/sys/fs/cgroup", "metadata": "http://169.254.169.254"}


# How an address begins, and of which kind that place is.
_STARTS = {"rclone:": "rclone", "s3://": "s3", "gs://": "gs", "/": "local"}
_SCHEME = re.compile(r"([A-Za-z][\w+.-]*)://(.*)", re.S)


def place_kind(address: str) -> str:
    """Return local, ssh, rclone, s3 or gs; '' for no address. Raises ValueError for a scheme that
    no place here has, so that none is taken for the name of a host."""
    for start, kind in _STARTS.items():
        if address.startswith(start):
            return kind
    if found := _SCHEME.match(address):
        scheme, rest = found[1], found[2]
        low = scheme.lower()
        line = f"rclone:REMOTE:{rest}, where REMOTE is of the box's own rclone"
        if f"{low}://" in _STARTS:
            line = f"{low}://{rest}"
        elif low == "file":
            line = f"/{rest.lstrip('/')}"
        elif low in ("ssh", "sftp", "scp", "rsync"):
            line = "[user@]host:path"
        raise ValueError(f"{scheme}:// is no kind of place; write {line}")
    return "ssh" if ":" in address else "local" if address else ""


class SpecError(ValueError):
    """The JSON of a run.sh can't be used. One line: what is wrong, what to do."""


def read(text: str) -> SimpleNamespace:
    """Return the job in a run.sh, as `of` does. Raises SpecError."""
    try:
        given = json.loads(text)
        return of(given["job"], given["rendered"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise SpecError(f"the job in this run.sh can't be read ({why}); render it again") from None


def of(job: dict[str, Any], rendered: dict[str, Any]) -> SimpleNamespace:
    """Return the job with its parts as objects, and `rendered` and all `timings` beside them.

    Both are kept as they are. A part that the job leaves out is there and empty.
    """
    job, rendered = json.loads(json.dumps([job, rendered]))
    spec = SimpleNamespace(**job)
    for name, absent in _PARTS.items():
        setattr(spec, name, SimpleNamespace(**(job[name] or absent)))
    spec.processes = spec.processes or max(spec.gpus, 1)
    spec.gpus_shared = False  # other runs of ours may hold the cards already
    spec.rendered = SimpleNamespace(**{**_BOX, **rendered})
    for name in ("end", "stop"):
        setattr(spec.rendered, name, SimpleNamespace(**rendered[name]))
    # JSON of a job gives fractions for bytes and counts too.
    given = spec.timings
    whole = {name: type(usual)(given.get(name, usual)) for name, usual in TIMINGS.items()}
    spec.timings = SimpleNamespace(**whole)
    return spec
