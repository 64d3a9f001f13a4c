"""The job as the runner reads it: JSON in the run.sh, and a default for each field."""

from __future__ import annotations

import copy
import json
from types import SimpleNamespace
from typing import Any

MUST_RESTORE = "must-restore"  # beside the run.sh: nothing begins without a durable checkpoint

# Waits and sizes that hardly a job changes, and tests do. Seconds, but for bytes and counts.
TIMINGS = {
    "heartbeat": 10.0,  # state.json, the step, the results of collectors
    "tick": 0.25,  # how often the runner looks at its program
    "retry_wait": 5.0,  # before an attempt is repeated; a lost network waits longer each time
    "room_wait": 600.0,  # for a full disk to have room again
    "tries_an_hour": 60,
    "leftover": 5.0,  # for workers that outlive their program and end by themselves
    "raise_after": 3.0,  # runner and keeper raise each other when one is gone for this long
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

DEFAULTS: dict[str, Any] = {
    "version": "",
    "job_sha": "",
    "target": "local",
    "profile": "",
    "name": "run",
    "run_dir": "",
    "work_dir": "",
    "command": [],  # a list of words, or one line for bash
    "python": "python3",
    "launcher": "none",
    "gpus": 0,
    "gpus_shared": False,  # other runs of ours may hold the cards already
    "processes": 1,
    "nodes": 1,
    "rendezvous_host": "",
    "rendezvous_port": "29400",
    "variables": {},
    "secret_files": {},  # {variable: file on the box}
    "secret_variables": {},  # {variable of the program: variable of the box}
    "setup": [],  # lines of bash before the program, in its shell
    "container": {},  # engine, image, mounts, options; {} for none
    "install": [],  # words that install the environment file
    "data": [],  # [[from, to], ...]
    "save_signal": "TERM",
    "save_seconds": 30.0,
    "save_every_seconds": 0.0,  # how often the program saves, 0 where the job doesn't say
    "checkpoint_folder": "",
    "checkpoint_pattern": "",
    "checkpoint_files": [],  # patterns of files that belong to each checkpoint besides
    "resume": "automatic",  # automatic, none, flag, variable
    "resume_name": "",
    "durable": "",
    "durable_what": [],
    "durable_seconds": 30.0,  # between two looks for something new to copy
    "durable_on_this_box": False,  # the durable place may be this box's own root disk
    "results": [],
    "final_step": 0,
    "on_nan": "go-on",
    "deadline": "",  # hours:N after the first start, or at:EPOCH
    "end_do": "keep",  # keep, run
    "end_command": "",  # a list of words, or one line for bash
    "end_when": ["done", "failed", "deadline"],  # of done, failed, deadline, unsaved
    "end_needs": "",  # the credential that the command needs: NAME, or NAME=FILE
    "end_keeps_disk": False,  # the command deletes nothing
    "end_limit_seconds": 3600.0,  # after the deadline, until the box ends without a proof
    "end_stop": "",  # the platform's stop that keeps the disk, for that end
    "end_stop_needs": "",
    "box_id": "",
    "billed": False,  # somebody rents this box out by the hour
    "notify": [],
    "notice": "",  # whose metadata service tells of a preemption: aws, gcp, azure
    "metadata": "",  # where it is, for tests
    "retries": {},
    "stall_log_seconds": 0.0,
    "stall_step_seconds": 0.0,
    "stall_power_seconds": 0.0,
    "min_free_mb": 0,
    "min_free_inodes": 0,
    "step_pattern": "",
    "rehearse": [],
    "rehearse_minutes": 10.0,
    "probe": False,
    "code_commit": "",
    "code_diff": "",
    "code_ignored": "",
    "requeue": False,
    "cells": [],  # [{"name": ..., "arguments": [...]}, ...]
    "slots": 1,
    "timings": {},
    "cgroup": "/sys/fs/cgroup",
}


class SpecError(ValueError):
    """The JSON of a run.sh can't be used. One line: what is wrong, what to do."""


def read(text: str) -> SimpleNamespace:
    """Return the fields of a job, each with its default, and `timings` as one object.

    Raises SpecError.
    """
    try:
        given = json.loads(text)
    except ValueError as error:
        raise SpecError(f"the job in this run.sh is no JSON ({error}); render it again") from None
    return of(given)


def of(given: dict[str, Any]) -> SimpleNamespace:
    """The same from a dictionary. Raises SpecError for a field that doesn't exist."""
    timings = dict(given.get("timings") or {})
    for name in [*(set(given) - set(DEFAULTS)), *(set(timings) - set(TIMINGS))]:
        raise SpecError(f"the job in this run.sh has an unknown field {name!r}; render it again")
    spec = SimpleNamespace(**{**copy.deepcopy(DEFAULTS), **given})
    # JSON of a job gives fractions for bytes and counts too.
    whole = {name: type(usual)(timings.get(name, usual)) for name, usual in TIMINGS.items()}
    spec.timings = SimpleNamespace(**whole)
    return spec
