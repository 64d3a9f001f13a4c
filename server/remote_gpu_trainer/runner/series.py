"""series.jsonl: a row a minute of where the run is, its numbers, the cards and the disk.

Nothing here can stop a run: what can't be read or written is left out.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any

from ..readings.course import NAMES, Course
from ..readings.files import read_metrics_csv, read_trainer_state
from ..readings.pace import WINDOW, Sample, estimate
from .collectors import Collectors
from .context import Run
from .state import StateFile

FILE = "series.jsonl"
EVERY = 60.0  # seconds between two rows
MOST = 20_000  # rows; then every second one goes
LARGEST = 8 << 20  # bytes of a library's file that are read
POINTS = 40  # of the loss, in a status


class Series:
    """What a runner knows of the course of its attempt. `beat` is called once a heartbeat."""

    def __init__(self, run: Run, state: StateFile, collectors: Collectors):
        self.run, self.state, self.collectors = run, state, collectors
        self.course = Course(run.spec.final_step or 0)
        self._samples: list[Sample] = []
        self._is_restart = False
        self._rows = 0
        self._written = -1e9
        self._phase = ""
        self._files: dict[str, float] = {}  # a library's file -> when it was written
        self._last_numbers: dict[str, Any] = {}  # the numbers of the last row
        self._losses: list[float] = []  # of the run so far, one of each `_every` heartbeats
        self._begun = run.now
        self._saved: list[tuple[int, int]] = []  # steps and times of saves since the last row
        self._every, self._beats = 1, 0

    def begin_attempt(self, is_restart: bool = False) -> None:
        """Read on as another attempt, and remember the numbers of those before it. `is_restart`: it
        had a checkpoint to go on from, or follows another one."""
        self._is_restart, self._begun = is_restart, self.run.now
        before = self.state.reading
        self.course = Course(self.run.spec.final_step or 0)
        self.course.recall(before)
        self._samples, self.state.progress = [], {}
        rows = [row for row in self.run.folder.rows(FILE) if _is_number(row.get("t"))]
        if not self._losses:  # those that another runner saw
            self._losses = _thinned([row["loss"] for row in rows if _is_number(row.get("loss"))])
            self._every = 1 + len(rows) * 6 // POINTS
        self._rows = len(rows)
        for row in rows:
            if row.get("attempt") == self.state.attempt and isinstance(row.get("step"), int):
                self._note(float(row["t"]), row["step"])

    def feed(self, piece: bytes, written: float) -> None:
        """Read what the log has more of, and when it was written."""
        self.course.feed(piece, written)
        if self.course.step is not None:
            self._note(written, self.course.step)

    def note_save(self, step: int | None, written: float) -> None:
        """Note a complete checkpoint, and when it was written: the next row tells both."""
        step = self.course.step if step is None else step
        if written >= self._begun and step is not None:
            self._saved.append((step, int(written)))

    def beat(self) -> None:
        """Bring the state up to date; leave a row once a minute and where the phase changed."""
        run, state, course = self.run, self.state, self.course
        is_due = run.up >= self._written + EVERY
        if is_due and not course.losses:
            self._read_files()
        state.reading = course.as_dict()
        state.progress = estimate(self._samples, course.total, run.now, self._is_restart)
        state.course = self._add_loss()
        state.gpus, state.disk = self.collectors.gpus, self.collectors.disk
        if is_due or state.phase != self._phase:
            self._written, self._phase = run.up, state.phase
            self._append(self._row())

    def _add_loss(self) -> list[float]:
        """Return up to POINTS losses of the run, spread evenly, with the newest one."""
        newest = self.course.newest.get("loss", {}).get("value")
        if not isinstance(newest, (int, float)):
            return _thinned(self._losses)
        self._beats += 1
        if self._beats % self._every == 0:
            self._losses.append(newest)
        if len(self._losses) >= 2 * POINTS:
            self._losses, self._every = self._losses[::2], self._every * 2
        return _thinned([*self._losses, newest])

    def _note(self, t: float, step: int) -> None:
        samples = self._samples
        if samples and (step < samples[-1][1] or t < samples[-1][0]):
            samples.clear()
        if not samples or step > samples[-1][1]:
            samples.append((t, step))
        while len(samples) > 2 and samples[1][0] < t - WINDOW:
            del samples[0]

    def _row(self) -> dict[str, Any]:
        now, course, state = self.run.now, self.course, self.state
        row: dict[str, Any] = {"t": int(now), "attempt": state.attempt, "phase": state.phase}
        place = {"step": course.step, "total": course.total, "epoch": course.epoch}
        row.update({name: value for name, value in place.items() if value is not None})
        for name in NAMES:
            number = course.newest.get(name)
            if number and number is not self._last_numbers.get(name):  # new since the last row
                row[name] = number["value"]
        self._last_numbers = dict(course.newest)
        if self._saved:
            row["saved"], self._saved = self._saved, []
        if state.gpus:
            row["gpus"] = state.gpus
        if state.disk:
            row["disk_free"], row["disk_total"] = state.disk
        return row

    def _append(self, row: dict[str, Any]) -> None:
        if self._rows >= MOST:
            kept = self.run.folder.read(FILE).splitlines()[1::2]
            if not self.run.folder.write(FILE, "".join(f"{line}\n" for line in kept)):
                return  # a full disk: it doesn't grow, either
            self._rows = len(kept)
        if self.run.folder.append(FILE, json.dumps(row) + "\n"):
            self._rows += 1

    def _read_files(self) -> None:
        """Take the numbers of a log that has none from the file of a library beside the newest
        checkpoint."""
        newest = self.state.checkpoint
        if not newest:
            return
        above = os.path.dirname(newest)
        for path, read in (
            (os.path.join(newest, "trainer_state.json"), read_trainer_state),
            (os.path.join(above, "metrics.csv"), read_metrics_csv),
            (os.path.join(os.path.dirname(above), "metrics.csv"), read_metrics_csv),
        ):
            with suppress(OSError, ValueError):
                file_stat = os.stat(path)
                if file_stat.st_size > LARGEST or self._files.get(path) == file_stat.st_mtime:
                    continue
                self._files[path] = file_stat.st_mtime
                with open(path, encoding="utf-8", errors="replace") as file:
                    found = read(file.read())
                self._take(found, file_stat.st_mtime)

    def _take(self, found: dict[str, Any], written: float) -> None:
        course = self.course
        for name, number in found.get("newest", {}).items():
            course.newest[name] = {**number, "t": int(written)}
        if course.step is None and isinstance(found.get("step"), int):
            course.step, course.total = found["step"], found.get("total")
            self._note(written, found["step"])


def _thinned(values: list[float]) -> list[float]:
    if len(values) <= POINTS:
        return list(values)
    return [values[round(at * (len(values) - 1) / (POINTS - 1))] for at in range(POINTS)]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
