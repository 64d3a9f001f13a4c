"""The jobs that were started from here, so that `resume` can change one and say whether its code is
still the box's.

They lie in local files and never come from a box: a box could name any folder here as its code. If
the home is missing or read-only, nothing is kept, and commands work all the same.
"""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..boxes import box as boxes
from ..boxes.box import Box
from . import ledger, local_files
from .local_files import Damaged, Seconds

MOST = 500  # files; the oldest go
DAMAGED = (
    "a run that only it names has no deadline or budget here, and its box may still be billed; "
    "delete the file once you have looked at your boxes"
)


@dataclass(frozen=True)
class Known:
    """A job that was started.

    `address`: host:port of its box, '' for this machine. `folder`: the run's, as the job has it.
    `given`: the fields of the job, its `code` as an absolute path. `at`, and `first_start`, of the
    run: seconds since 1970. `moved_from`: the box that it came from, '' for none.
    """

    address: str
    folder: str
    profile: str
    given: dict[str, Any]
    at: Seconds
    first_start: Seconds | None = None
    moved_from: str = ""

    __pydantic_config__ = local_files.STRICT

    @property
    def name(self) -> str:
        """Return the name or the folder by which --run finds the run."""
        above, _, last = self.folder.rpartition("/")
        return last if above == "~/runs" else self.folder


def remember(
    box: Box,
    folder: str,
    profile: str,
    given: dict[str, Any],
    *,
    first_start: float | None = None,
    moved_from: str = "",
) -> None:
    """Remember the job that runs in a folder of a box. The rest: as `Known` has it."""
    code = given.get("code")
    if code:
        given = {**given, "code": str(Path(code).expanduser().resolve())}
    address = boxes.address(box)
    known = Known(address, folder, profile, given, time.time(), first_start, moved_from)
    key = hashlib.sha256(f"{known.address}\n{folder}".encode()).hexdigest()[:24]
    with suppress(OSError):
        record = json.dumps(asdict(known), default=str)
        local_files.write(place() / f"{key}.json", record.encode())
        files = sorted(place().glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in files[:-MOST]:
            path.unlink()


def find(box: Box, run: str) -> Known | None:
    """Return the job of a run, None for one that wasn't started from here.

    `run`: a name under ~/runs, or a folder as the job or the box has it; '' for the one that was
    started last on this box.
    """
    address = boxes.address(box)
    found = [
        known
        for known in every()
        if known.address == address and (not run or is_named(known.folder, run))
    ]
    return max(found, key=lambda known: known.at, default=None)


def told_place(box: Box, run: str) -> str:
    """Return the durable place of a run that was started from here, '' for none."""
    known = find(box, run)
    durable = known.given.get("durable") if known else None
    return str(durable.get("to") or "") if isinstance(durable, dict) else ""


def every() -> list[Known]:
    """Return all jobs that were started from here, but for those in damaged files."""
    return read()[0]


def read() -> tuple[list[Known], list[Damaged]]:
    """Return all jobs that were started from here, and what is wrong with other files of jobs."""
    return local_files.read_all(place(), Known, DAMAGED)


def lost(jobs: list[Known]) -> set[str]:
    """Return the addresses of the boxes on which jobs were started, and that the ledger lost."""
    return {job.address for job in jobs if job.address} - ledger.addresses()


def damage() -> list[str]:
    """Return what is wrong with the lists of boxes and of jobs, a sentence each."""
    return [str(fault) for fault in (ledger.damage(), *read()[1]) if fault]


def is_named(folder: str, run: str) -> bool:
    """Return whether a job's folder is the one that `run` names, as `find` takes it."""
    if "/" not in run:
        run = f"~/runs/{run}"
    run = run.rstrip("/")
    return folder == run or (folder.startswith("~/") and run.endswith(folder[1:]))


def place() -> Path:
    """Return the folder of the files."""
    return ledger.jobs_place()
