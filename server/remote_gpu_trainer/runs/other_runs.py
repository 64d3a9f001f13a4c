"""The runs of a box that would be lost with it: those that live, and those that aren't here yet.

A run's results are safe while the copy that a release verified here is whole and the run didn't go
on since, or once its last copy to a durable place off the box is verified.
"""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..boxes import box as boxes
from ..boxes.box import Box
from ..numbers import finite
from ..text.masking import shown
from . import ledger, run_script
from .home_copy import Copy, why_lost
from .status_reply import Status, ended_as, status_from

LIMIT = 120.0  # seconds for all runs of a box
UNREAD = "its answer about its runs can't be read"
A_RUN = 25.0  # of them for one run's script


@dataclass(frozen=True)
class Other:
    """A run on a box. `run`: what --run takes. `state`: as `Status` has it, or unknown.
    `why`: what became of the copy that a release from here had verified."""

    run: str
    state: str
    step: int | None = None
    why: str = ""

    @property
    def words(self) -> str:
        """Return the run and its state for people."""
        step = "" if self.step is None else f" at step {self.step}"
        return f"{self.run} ({self.state}{step}{self.why and f'; {self.why}'})"


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


def find_others(box: Box, folder: str, verified: Copy | None) -> Others:
    """Return the runs of a box that its end would cost, beside the one in `folder`.

    `verified`: where the results of that one lie, which have just been verified here: it is noted.
    """
    try:
        rows = rows_of(box, (folder,), LIMIT)
    except NoRows as error:
        return Others(why=str(error))
    address, others = boxes.address(box), Others()
    released = ledger.releases(address)
    for row in rows:
        place, mark = str(row.get("folder", "")), str(row.get("mark", ""))
        status = status_of(box, row)
        found = Other(name_of(place), status.state, status.step if not row.get("end") else None)
        if found.state in ("alive", "stalled", "unknown"):
            others.living.append(found)
        elif row.get("asked_for") is True:
            if verified:
                ledger.released(address, place, mark, verified)
        elif found.state != "nothing" and not row.get("saved"):
            copy = copy_of(row, released)
            why = why_lost(copy) if copy else ""
            others.owed += [replace(found, why=why)] if why or not copy else []
    return others


def copy_of(row: dict, released: dict[str, tuple[str, Copy]]) -> Copy | None:
    """Return where the copy of a run lies that a release from here has verified and that didn't go
    on since; None where none did. `row`: as `rows_of` returns it."""
    mark, copy = released.get(str(row.get("folder")), ("", None))
    return copy if mark and mark == row.get("mark") else None


class NoRows(Exception):
    """A box didn't tell its runs. The text says why. `reason`: of ssh, '' where it answered."""

    def __init__(self, text: str, reason: str = ""):
        super().__init__(text)
        self.reason = reason


def rows_of(box: Box, folders: tuple[str, ...], limit: float) -> list[dict]:
    """Return what a box tells of its runs, those in `folders` among them. Raises NoRows.

    `limit`: seconds for all of it. Each row is for `status_of`.
    """
    args = (str(min(0.7 * limit, A_RUN)), *folders)  # the others answer where one's script hangs
    rows = ask_json(box, "runs.run_lister", args, limit)
    if not isinstance(rows, list):
        raise NoRows(UNREAD)
    return [row for row in rows if isinstance(row, dict)]


def ask_json(box: Box, main: str, args: tuple[str, ...], limit: float) -> Any:
    """Return the JSON that one of our programs prints on a box. Raises NoRows.

    `main`: its module, as `run_script.program` takes it.
    """
    program = run_script.program(main)
    reply = boxes.run(box, program, interpreter=boxes.PYTHON, args=args, limit=limit)
    try:
        if reply.outcome == "ok" and not reply.code:
            return json.loads(reply.out)
    except (ValueError, RecursionError):
        pass
    raise NoRows(reply.text or UNREAD, reply.why)


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
        f"another run lives on this box, and would be lost with it: {other.words}; "
        f"{named.format('stop', shlex.quote(other.run))} saves and ends it"
        for other in others.living
    ]
    out += [
        f"another run has ended, and no release from here has verified its results: {other.words}; "
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
