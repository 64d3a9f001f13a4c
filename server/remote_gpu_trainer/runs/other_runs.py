"""The runs of a box that would be lost with it: those that live, and those that aren't here yet.

A run's results are safe once a release verified them here and it didn't go on since, or once its
last copy to a durable place off the box is verified.
"""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import asdict, dataclass, field

from ..boxes import box as boxes
from ..boxes.box import Box
from ..numbers import finite
from ..text.masking import shown
from . import ledger
from .status_reply import Status, ended_as, status_from

LIMIT = 120.0  # seconds for all runs of a box
A_RUN = 25.0  # of them for one run's script

# Runs on the box: each run under ~/runs, and each that a process of this user belongs to. One with
# the marker of an end and no process is told by it, any other by its own script. Arguments: the
# seconds for a script, the folder of the run that is asked for, and further folders.
LIST = r"""
import json, os, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
home, limit = os.path.expanduser("~"), float(sys.argv[1])
given = [os.path.realpath(os.path.expanduser(path)) for path in sys.argv[2:]]
asked_for = given[0] if given else ""
def lives(folder, name):
    try:
        with open(os.path.join(folder, name + ".pid")) as file:
            pid, start = file.read().split()[:2]
        with open("/proc/" + pid + "/stat") as file:
            words = file.read().rpartition(")")[2].split()
        return words[0] not in "ZX" and words[19] == start
    except (OSError, ValueError, IndexError):
        return False
def is_run(folder):
    return os.path.isfile(os.path.join(folder, "run.sh"))
def of_processes():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/" + pid + "/environ", "rb") as file:
                pairs = dict(pair.partition(b"=")[::2] for pair in file.read().split(b"\0"))
        except OSError:
            continue
        folder = os.fsdecode(pairs.get(b"RGT_RUN_DIR", b""))
        if pairs.get(b"HOME") == os.fsencode(home) and os.path.isabs(folder):
            while not is_run(folder) and folder != "/":
                folder = os.path.dirname(folder)  # that of a cell or of a further node
            if folder != "/":
                yield folder
def saved(folder):
    if not os.path.exists(os.path.join(folder, "final-sync")):
        return False
    try:
        with open(os.path.join(folder, "run.sh"), encoding="utf-8") as file:
            job = json.loads(file.read().split("\n#=== job ===\n")[1].split("\n#=== ")[0])
        return not job.get("durable_on_this_box")
    except (OSError, ValueError, IndexError, AttributeError):
        return False
def look(folder):
    ends = [name for name in ("done", "unsaved", "failed", "preempted")
            if os.path.exists(os.path.join(folder, "." + name))]
    paths = [os.path.join(folder, name) for name in ("state.json", *("." + end for end in ends))]
    end = ends[0] if ends else ""
    try:
        with open(os.path.join(folder, "." + end), encoding="utf-8") as file:
            marker = json.load(file)
    except (OSError, ValueError):
        marker = {}
    told = {"folder": folder, "end": end, "marker": marker,
            "asked_for": folder == asked_for, "saved": saved(folder),
            "mark": str(max((os.stat(path).st_mtime_ns for path in paths if os.path.exists(path)),
                            default="")),
            "began": os.path.exists(os.path.join(folder, "attempt"))}
    if not end or lives(folder, "runner") or lives(folder, "train"):
        told["end"] = ""
        try:
            done = subprocess.run(["bash", os.path.join(folder, "run.sh"), "status", "--json"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, timeout=limit)
            told["status"] = done.stdout.decode("utf-8", "replace")[:200000]
        except (OSError, subprocess.TimeoutExpired):
            told["status"] = ""
    return told
runs = os.path.join(home, "runs")
folders = {os.path.join(runs, name) for name in os.listdir(runs)} if os.path.isdir(runs) else set()
folders = {os.path.realpath(folder) for folder in folders if is_run(folder)}
folders |= {os.path.realpath(folder) for folder in of_processes()}
folders |= {folder for folder in given if is_run(folder)}
with ThreadPoolExecutor(8) as pool:
    print(json.dumps(list(pool.map(look, sorted(folders)))))
"""


@dataclass(frozen=True)
class Other:
    """A run on a box. `run`: what --run takes. `state`: as `Status` has it, or unknown."""

    run: str
    state: str
    step: int | None = None

    @property
    def text(self) -> str:
        """Return the run and its state for people."""
        return f"{self.run} ({self.state}{'' if self.step is None else f' at step {self.step}'})"


@dataclass
class Others:
    """The runs that would be lost with a box.

    `living`: those that live, or of which nobody knows. `owed`: those that ended and whose results
    are on the box only. `why`: why the box couldn't be asked, '' if it was.
    """

    living: list[Other] = field(default_factory=list)
    owed: list[Other] = field(default_factory=list)
    why: str = ""

    @property
    def may_end(self) -> bool:
        """Return whether the box's end would end no run."""
        return not self.living and not self.why

    def as_dict(self) -> dict:
        """Return all fields, as `release --json` prints them."""
        return asdict(self)


def look(box: Box, folder: str, verified: bool) -> Others:
    """Return the runs of a box that its end would cost, beside the one in `folder`.

    `verified`: whether the results of that one have just been verified here, which is noted.
    """
    try:
        rows = rows_of(box, (folder,), LIMIT)
    except NoRows as error:
        return Others(why=str(error))
    address, others = boxes.address(box), Others()
    marks = ledger.releases(address)
    for row in rows:
        place, mark = str(row.get("folder", "")), str(row.get("mark", ""))
        status = status_of(box, row)
        found = Other(name_of(place), status.state, status.step if not row.get("end") else None)
        if found.state in ("alive", "stalled", "unknown"):
            others.living.append(found)
        elif row.get("asked_for") is True:
            if verified:
                ledger.released(address, place, mark)
        elif found.state != "nothing" and not row.get("saved") and marks.get(place) != mark:
            others.owed.append(found)
    return others


class NoRows(Exception):
    """A box didn't tell its runs. The text says why."""


def rows_of(box: Box, folders: tuple[str, ...], limit: float) -> list[dict]:
    """Return what a box tells of its runs, those in `folders` among them. Raises NoRows.

    `limit`: seconds for all of it. Each row is for `status_of`.
    """
    args = (str(min(0.7 * limit, A_RUN)), *folders)  # the others answer where one's script hangs
    reply = boxes.run(box, LIST, interpreter=boxes.PYTHON, args=args, limit=limit)
    try:
        rows = json.loads(reply.out) if reply.outcome == "ok" and not reply.code else None
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list):
        raise NoRows(reply.text or "its answer about its runs can't be read")
    return [row for row in rows if isinstance(row, dict)]


def name_of(folder: str) -> str:
    """Return what --run takes for a run in this folder."""
    above, _, last = folder.rpartition("/")
    return shown(last if above.endswith("/runs") else folder, 200)


def status_of(box: Box, row: dict) -> Status:
    """Return the state of a run that `rows_of` told; of one that has ended, by its marker alone."""
    folder, end = str(row.get("folder", "")), str(row.get("end", ""))
    if not end:
        reply = f"rgt-dir {folder}\nrgt-status\n{row.get('status', '')}"
        return status_from(box.name, reply, False, folder, time.time())
    if end == "failed" and row.get("began") is not True:
        return Status("nothing", box.name, folder)  # refused before it began
    marker = row.get("marker")
    marker = marker if isinstance(marker, dict) else {}
    state = ended_as(end, marker.get("class"), marker.get("reason"))
    step = finite(marker.get("step"))
    return Status(state, box.name, folder, step=None if step is None else int(step))


def as_text(others: Others, box: Box, profile: str) -> str:
    """Return what a release says of the other runs, for a terminal. `profile`: the box's."""
    named = f"rgt {{}} {box.argument} --run {{}}"
    out = [
        f"another run lives on this box, and would be lost with it: {other.text}; "
        f"{named.format('stop', shlex.quote(other.run))} saves and ends it"
        for other in others.living
    ]
    out += [
        f"another run has ended, and no release from here has verified its results: {other.text}; "
        f"{named.format('release', shlex.quote(other.run))} --profile {profile} brings them"
        for other in others.owed
    ]
    if others.why:
        out.append(f"the box couldn't be asked for its other runs: {others.why}")
    if not others.may_end:
        out.append(
            "don't end the box yet: the command for it is shown once no other run lives there"
        )
    return "\n".join(out)
