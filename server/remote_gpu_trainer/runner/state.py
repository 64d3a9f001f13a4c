"""What state.json and the markers of an end say."""

from __future__ import annotations

import json
from typing import Any

from . import failures, procs
from .context import Run
from .folder import Folder

CORE = "core"  # of state.json


class StateFile:
    """What state.json says; `write` leaves the file."""

    def __init__(self, run: Run):
        self.run = run
        self.phase = "new"
        self.attempt = 0
        self.step: int | None = None
        self.exit: int | None = None
        self.failure = self.entry = self.reason = ""  # class, entry and reason of the last end
        self.again = ""  # why another attempt would fail too; "" where that isn't known
        self.started = 0
        self.deadline = 0
        self.stalled = False
        self.checkpoint = ""  # the newest whole one, by its path
        self.checkpoint_step: int | None = None  # at which that was saved, by its name or the log
        self.is_nan = False  # the loss of this attempt
        self.before_nan = ""  # the newest checkpoint from before it
        self.missing: list[str] = []
        self.cost = ""  # what an end that was asked for cost, "" where the program saved
        self.save_seconds = 0.0  # how long a save takes, as measured; 0 where that isn't known
        self.core: dict[str, Any] = {}  # what core/decide.py goes by: its State, as JSON
        self.is_same_boot = False  # as when what was read was written
        self.note = ""  # what is odd about how this attempt began
        self.probe = ""  # what the probe said of the first steps
        self.outcome = ""  # what the run came to, while its last copy is still on the way
        self.log = ""
        self.log_age: int | None = None
        self.gpu: str | None = None
        self.free_mb: int | None = None
        self.reading: dict[str, Any] = {}  # readings.course.Course.as_dict of the log
        self.progress: dict[str, Any] = {}  # readings.pace.estimate at the last heartbeat
        self.course: list[float] = []  # losses of the run so far
        self.gpus: list[dict[str, int]] = []
        self.disk: tuple[int, int] | None = None  # bytes free and in all

    def as_dict(self) -> dict[str, Any]:
        """All keys of `status --json` but those that only a reader can fill in."""
        return {
            "name": self.run.spec.name,
            "phase": self.phase,
            "alive": True,
            "attempt": self.attempt,
            "step": self.step,
            "exit": self.exit,
            "class": self.failure,
            "entry": self.entry,
            "reason": self.reason,
            "again": self.again,
            "started": self.started,
            "updated": int(self.run.now),
            "heartbeat_age": 0,
            "log_age": self.log_age,
            "log": self.log,
            "deadline": self.deadline,
            "stalled": self.stalled,
            "gpu": self.gpu,
            "disk_free_mb": self.free_mb,
            "checkpoint": self.checkpoint,
            "checkpoint_step": self.checkpoint_step,
            "is_nan": self.is_nan,
            "before_nan": self.before_nan,
            "cost": self.cost,
            "note": self.note,
            "probe": self.probe,
            "last_sync": self.run.folder.json("own/last-sync") or None,
            "runner_alive": True,
            "elsewhere": False,
            "host": procs.host(),
            "boot_id": procs.boot_id(),
            "tail": "",
            "expect_missing": self.missing,
            "outcome": self.outcome,
            "waits": "",
            "reading": self.reading,
            "progress": self.progress,
            "course": self.course,
            "gpus": self.gpus,
            "disk_free": self.disk[0] if self.disk else None,
            "disk_total": self.disk[1] if self.disk else None,
        }

    def write(self, lasting: bool = False) -> bool:
        """Write state.json. False on a full disk; the run goes on."""
        record = {**self.as_dict(), "save_seconds": self.save_seconds, CORE: self.core}
        return self.run.folder.write("state.json", json.dumps(record) + "\n", lasting)

    def read(self) -> None:
        """Take over what the last runner wrote; what can't be read stays as it is."""
        written = read(self.run.folder)
        numbers = ("attempt", "step", "exit", "started", "deadline", "checkpoint_step")
        kinds_text = {"phase": "phase", "class": "failure", "entry": "entry", "reason": "reason",
                      "again": "again", "checkpoint": "checkpoint", "outcome": "outcome",
                      "note": "note", "cost": "cost", "probe": "probe",
                      "before_nan": "before_nan"}  # fmt: skip
        for key in numbers:
            if isinstance(written.get(key), int) and not isinstance(written.get(key), bool):
                setattr(self, key, written[key])
        for key, name in kinds_text.items():
            if isinstance(written.get(key), str):
                setattr(self, name, written[key])
        self.core = _core_in(written, self.run.folder)
        self.is_same_boot = written.get("boot_id") == procs.boot_id()
        self.is_nan = written.get("is_nan") is True
        reading = written.get("reading")
        self.reading = reading if isinstance(reading, dict) else {}

    def decision(self) -> dict[str, str] | None:
        """Return what to do now that the run has ended; None while it goes on."""
        end = failures.end_of(self.phase, self.failure, self.reason)
        decision = failures.decide(end, self.entry, self.again, self.exit)
        return failures.as_answer(decision, self.good_checkpoint)

    @property
    def good_checkpoint(self) -> str:
        """Return the newest complete one that isn't from after a loss of nan, '' for none."""
        return self.before_nan if self.is_nan else self.checkpoint

    def mark(self, end: str) -> None:
        """Leave the marker of an end, with class, entry, reason, exit, step, attempt and the
        newest whole checkpoint."""
        self.run.folder.mark(
            end,
            {
                "t": int(self.run.now),
                "exit": self.exit,
                "class": self.failure,
                "entry": self.entry,
                "reason": self.reason,
                "again": self.again,
                "refused": self.core.get("is_refused") is True,
                "step": self.step,
                "attempt": self.attempt,
                "checkpoint": self.checkpoint,
                "is_nan": self.is_nan,
                "before_nan": self.before_nan,
            },
        )


def read(folder: Folder) -> dict[str, Any]:
    """Return what state.json says; what events.jsonl tells, where that was lost or came out of a
    crash empty."""
    if written := folder.json("state.json"):
        return written
    core: dict[str, Any] = {}
    for event in folder.rows("events.jsonl"):
        name, number = event.get("event"), str(event.get("attempt"))
        if name == "phase":
            written["phase"] = event.get("phase")
        elif name == "start":
            written["started"] = event.get("t")
        elif name == "first-checkpoint":
            core["last_whole"] = event.get("path")
        elif name == "attempt" and number.isdigit():
            written["attempt"] = int(number)
            core["last_whole"] = event.get("resume") or core.get("last_whole", "")
    return {**written, CORE: core} if written else {}


def core_of(folder: Folder) -> dict[str, Any]:
    """Return what the core of the start before this one went by."""
    return _core_in(read(folder), folder)


def _core_in(written: dict[str, Any], folder: Folder) -> dict[str, Any]:
    core = written.get(CORE)
    core = core if isinstance(core, dict) else {}
    # A run that an older version began has it in a file of its own.
    if "last_whole" not in core and (last := folder.read("last-checkpoint").strip()):
        core["last_whole"] = last
    return core


def forget_tries(folder: Folder) -> None:
    """Forget how a run failed before, where somebody starts it again all the same."""
    written = folder.json("state.json")
    if _core_in(written, folder).pop("tries", None):
        folder.write("state.json", json.dumps(written) + "\n")
