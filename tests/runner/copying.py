"""A run that copies, for tests: its workers are real processes, its clock is the test's."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from remote_gpu_trainer.runner import notices, sync
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.core import copying
from remote_gpu_trainer.runner.core.decide import State, decide, is_over
from remote_gpu_trainer.runner.core.model import (
    Copy,
    CutCopy,
    Note,
    NoteFailure,
    Seen,
    Tell,
    Verdict,
)

from tests.conftest import ROOT
from tests.runner.clocks import Clock
from tests.runner.jobs import job_of, script_of

# What a run.sh does for the one verb that these tests need.
WORKER = """\
import json, sys
sys.path.insert(0, sys.argv[1])
from remote_gpu_trainer.runner import spec, sync
from remote_gpu_trainer.runner.context import Run
sys.exit(sync.worker(Run(spec.of(**json.loads(sys.argv[2]))), sys.argv[4]))
"""


# An ssh whose other machine is this one.
HERE = """\
while [ $# -gt 0 ]; do case $1 in -o) shift 2 ;; --) shift ;; *) shift; break ;; esac; done
[ "$1" = -- ] && shift
exec sh -c "$*"
"""


class RealClock(Clock):
    """A clock that tests own, but whose naps wait for real processes."""

    def nap(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.02))
        super().nap(seconds)


def make(folder: Path, rank: int = 0, **fields) -> Run:
    """Return a run whose checkpoints and final.bin go to the folder `durable`."""
    given = {
        "name": "toy",
        "rendered": {"run_dir": str(folder / "run")},
        "checkpoint": {"folder": str(folder / "ckpt"), "pattern": "step-*.pt"},
        "durable": {
            "to": str(folder / "durable"),
            "what": [str(folder / "ckpt"), "final.bin"],
            "on_this_box": True,
        },
        "timings": {"tick": 0.1, "sync_wait": 0.5},
    }
    script = folder / "worker.sh"
    words = " ".join(
        map(
            quoted,
            (
                sys.executable,
                "-c",
                WORKER,
                str(ROOT / "server"),
                json.dumps(script_of(given, fields)),
            ),
        )
    )
    script.write_text(f'exec {words} "$@"\n')
    run = Run(job_of(given, fields), script=str(script), rank=rank, clock=RealClock())
    run.folder.make()
    return run


class Copier:
    """The copies of a run as its loop has them: what is seen is decided about, and done."""

    def __init__(self, run: Run, copies: sync.Sync | None = None):
        self.run, self.copies = run, copies or sync.Sync(run)
        begun = copying.begin(run.spec, copying.Copying(), run.up)
        self.state = State("running", attempt=1, is_open=True, copying=begun)
        self.noted: list[Note] = []

    def step(self, **seen) -> None:
        run, before = self.run, self.state
        trains = before.phase == "running"
        now = Seen(attempt=1, is_alive=trains, durable=run.durable)._replace(**seen)
        now = self.copies.see(before.copying, trains, now)
        self.state, actions, _ = decide(run.spec, before, now, run.up)
        self.copies.note_success(before.copying, self.state.copying)
        for action in actions:
            if isinstance(action, Copy):
                self.copies.start(action)
            elif isinstance(action, CutCopy):
                self.copies.cut(self.state.copying.failures > before.copying.failures)
            elif isinstance(action, NoteFailure):
                self.copies.note_failure(action)
            elif isinstance(action, Note):
                self.noted.append(action)
            elif isinstance(action, Tell) and action.key in ("copy", "hold"):
                notices.notify(run, action.text)

    def hold(self, **seen) -> Verdict | None:
        """Hold what another attempt could write over; None once it begins, else what was decided
        in its place."""
        holder = sync.Holder(self.run)
        self.state = State("staging", attempt=1, copying=self.state.copying)
        while self.state.phase == "staging":
            unheld, worker = holder.look()
            self.step(staged=Verdict(), unheld=unheld, hold_worker=worker, **seen)
            number = self.state.holding.number
            if self.state.phase == "staging" and number > worker.number:
                holder.begin(number)
            self.run.clock.nap(self.run.spec.timings.tick)
        holder.stop()
        return None if self.state.phase == "running" else self.state.verdict

    def last(self, whole: bool, until: float, beat: Callable[[], bool]) -> bool:
        """Copy all for the last time; return whether it is verified."""
        outcome = "done" if whole else "failed"
        self.state = State("syncing", outcome=outcome, copying=self.state.copying)
        while not is_over(self.state):
            self.step(asked="asked" if beat() else "", left=until - self.run.now)
            self.run.clock.nap(min(self.run.spec.timings.tick, 0.1))
        return "not verified" not in self.state.verdict.reason


def quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def fill(folder: Path, *steps: int, size: int = 2000) -> None:
    """Write checkpoints of these steps, and final.bin."""
    (folder / "ckpt").mkdir(exist_ok=True)
    for step in steps:
        (folder / f"ckpt/step-{step}.pt").write_bytes(bytes([step % 251]) * size)
    (folder / "run").mkdir(exist_ok=True)
    (folder / "run/final.bin").write_bytes(b"the end" * 100)


def kept(folder: Path, name: str, home: str = "durable/ckpt.generations") -> Path:
    """Return a file of the newest committed generation at the durable place that holds it."""
    found = [
        path.parent / "files" / name
        for path in (folder / home).glob("gen-*/manifest.json")
        if name in json.loads(path.read_text())["files"]
    ]
    return max(found, key=lambda path: path.stat().st_mtime_ns)


def kept_steps(folder: Path, home: str = "durable/ckpt.generations") -> list[int]:
    """Return the steps of the committed generations that have one."""
    paths = (folder / home).glob("gen-*/manifest.json")
    steps = (json.loads(path.read_text())["step"] for path in paths)
    return sorted(step for step in steps if step is not None)


def rows(run: Run) -> list[dict[str, str]]:
    """Return what synced.tsv says."""
    names = ("t", "mode", "result", "item", "to", "seconds", "detail")
    return [
        dict(zip(names, row.split("\t"), strict=True))
        for row in run.folder.read("log/synced.tsv").splitlines()
    ]


def events(run: Run, name: str) -> list[dict]:
    """Return the run's events of one name."""
    lines = map(json.loads, run.folder.read("events.jsonl").splitlines())
    return [line for line in lines if line["event"] == name]


def tool(folder: Path, name: str, text: str, monkeypatch) -> Path:
    """Put a program on the path."""
    place = folder / "bin"
    place.mkdir(exist_ok=True)
    (place / name).write_text(text)
    (place / name).chmod(0o755)
    path = os.environ["PATH"]
    if not path.startswith(f"{place}:"):
        monkeypatch.setenv("PATH", f"{place}:{path}")
    return place / name


def far(folder: Path, monkeypatch, first: str = ":") -> str:
    """Return a place on a machine that is this one, behind an ssh that does something first."""
    tool(folder, "ssh", f"#!/bin/sh\n{first}\n{HERE}", monkeypatch)
    return f"gpu:{folder}/durable"


def same_size(path: Path) -> bytes:
    """Change a byte of a file, but neither its size nor its time; return what it was."""
    right, when = path.read_bytes(), path.stat().st_mtime_ns
    path.write_bytes(right[:-9] + b"!" + right[-8:])
    os.utime(path, ns=(when, when))
    return right
