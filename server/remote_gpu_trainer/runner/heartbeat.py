"""The heartbeat: what grew, where the run is, who must be raised, and the files that say so."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Any

from . import checkpoints, child, log, nan, notices, procs
from .collectors import Collectors
from .context import Run
from .locks import Lease
from .series import Series
from .state import StateFile

LIMIT = 5.0  # seconds for a look among the checkpoints


class Heartbeat:
    """Made once for a runner. `beat` is called at every tick of whatever the runner waits for."""

    def __init__(self, run: Run, state: StateFile, lease: Lease):
        self.run, self.state, self.lease = run, state, lease
        self.collectors = Collectors(run)
        self.series = Series(run, state, self.collectors)
        self.saves = checkpoints.SaveTimes(run)
        self.first = 0  # number of the attempt's first log file
        self.log_grew = False  # since a stall was last looked for
        self.nan = ""  # told once in an attempt
        self.begin_attempt(0)
        self.has_lost_lease = False
        self._signals: list[int] = []
        self._seen: Any = None
        self._newest = ""  # the id of the newest checkpoint
        self._last = -1e9

    def begin_attempt(self, first: int, is_restart: bool = False) -> None:
        """Read the log from this file on, as that of another attempt."""
        self.first, self.nan = first, ""
        self._reader = log.Reader(self.run, first)
        self.series.begin_attempt(is_restart)
        self._losses = nan.Watch(lambda text: log.find_step(self.run, text))

    def listen(self) -> None:
        """Let TERM, INT and USR1 ask for a save; a closed terminal or pipe does nothing."""
        for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(sign, lambda number, _: self._signals.append(number))
        for sign in (signal.SIGHUP, signal.SIGPIPE):
            signal.signal(sign, signal.SIG_IGN)

    @property
    def signalled(self) -> str:
        """Return the name of the last signal that asked, '' for none."""
        return signal.Signals(self._signals[-1]).name[3:] if self._signals else ""

    def beat(self) -> bool:
        """Serve signals, and once a heartbeat all else; True when the run is asked to end."""
        run = self.run
        if self._signals and not run.asked:
            run.asked = run.folder.read("asked").strip() or f"signal {self.signalled}"
            run.folder.write("asked", run.asked + "\n")  # a runner that is raised must know
        if run.up - self._last >= run.spec.timings.heartbeat:
            self._last = run.up
            self._beat()
        return bool(run.asked)

    def _beat(self) -> None:
        run, state = self.run, self.state
        with suppress(OSError):
            run.folder.make()  # somebody may have removed it, and the run goes on
        self.look_at_log()
        self.collectors.poll()
        state.free_mb, state.gpu = self.collectors.free_mb, self.collectors.gpu
        keep_supervisor(run)
        if run.has_begun:
            note_beat(run)
        self._look_at_saves()
        self.series.beat()
        state.save_seconds = round(self.saves.seconds(), 1)
        state.write()
        if self.lease.lost() and not self.has_lost_lease:
            self.has_lost_lease = True
            run.asked = run.asked or "another machine took this run over"
            run.event("lease-lost")
            run.log("another machine took this run over; ending here")
        else:
            self.lease.beat()

    def _look_at_saves(self) -> None:
        """Note the newest complete checkpoint, and the step at which it was there."""
        run, state = self.run, self.state
        state.checkpoint = checkpoints.glance(run) or state.checkpoint
        newest = checkpoints.latest(run)
        if newest is not None:
            self.note_save(newest)

    def note_save(self, newest: checkpoints.Checkpoint) -> None:
        """Note the step of a checkpoint that is new: by its name, else by the log when it was
        written."""
        if newest.id != self._newest:
            self._newest = newest.id
            step = self._step_at(newest.saved) if newest.step is None else newest.step
            self.state.checkpoint_step = step
            self.series.note_save(step, newest.saved / 1e9)

    def _step_at(self, saved: int) -> int | None:
        """Return the step of the run at a time, in ns since 1970, None where it isn't known."""
        run, course = self.run, self.series.course.step
        then = log.step_at(run, self.first, saved / 1e9)
        now = self.series.course.printed
        if run.spec.step_pattern or then is None or now is None or course is None or course <= now:
            return then
        # Its lines count the steps of an epoch: since then these were as many, in the same one.
        return course - (now - then) if then <= now else None

    def look_at_log(self) -> None:
        """Note whether the log grew, the newest step, and a loss of nan."""
        run, state = self.run, self.state
        files = log.files(run)
        newest = files[-1] if files else ""
        seen = None
        with suppress(OSError):
            file_stat = os.stat(newest)
            seen = (newest, file_stat.st_size, file_stat.st_mtime)
            state.log_age = int(max(run.now - file_stat.st_mtime, 0))
        state.log = newest
        if seen is None or seen == self._seen:
            return
        self._seen, self.log_grew = seen, True
        while piece := self._reader.read():
            self._losses.feed(piece)
            self.series.feed(piece, min(seen[2], run.now))
        self._note_step()
        if not self.nan and self._losses.is_lost:
            self._tell_nan(self._losses.step)

    def end_log(self) -> None:
        """Look at the log of a program that has ended: its last line may be without an end."""
        self.look_at_log()
        self.series.feed(b"\n", self.run.now)
        self._note_step()

    def _note_step(self) -> None:
        """Note the newest step: of the run, where a line tells that of an epoch."""
        course, step = self.series.course, None
        if self.run.spec.step_pattern:
            step = log.find_step(self.run, log.tail(self.run, self.first, 65536))
        else:
            step = course.printed if course.step is None else course.step
        if step is not None:
            self.state.step = step

    def _tell_nan(self, step: int | None) -> None:
        """Tell from which step on the loss is nan, and what was saved before it."""
        run, state = self.run, self.state
        shown = "an unknown step" if step is None else f"step {step}"
        self.nan = f"the loss is nan, first at {shown}"
        state.is_nan, state.before_nan = True, self._saved_before(step)
        if state.before_nan:
            self.nan += f"; the last checkpoint saved before it is {state.before_nan}"
        elif state.checkpoint:
            self.nan += "; no checkpoint here is known to be from before it"
        state.reason = self.nan
        run.log(self.nan)
        notices.notify(run, self.nan)

    def _saved_before(self, step: int | None) -> str:
        """Return the path of the newest complete checkpoint from before a step, '' for none."""
        run, state = self.run, self.state
        if step is None or not run.checkpoints or not run.spec.checkpoint.pattern:
            return ""
        where = (run.checkpoints, run.spec.checkpoint.pattern, run.folder.at("own/whole.cache"))
        with suppress(child.Failed):
            found = str(child.call(run, nan.find_before, *where, step, limit=LIMIT))
            if found:
                return found
        self._look_at_saves()
        is_before = state.checkpoint_step is not None and state.checkpoint_step < step
        return state.checkpoint if is_before else ""


def note_beat(run: Run) -> None:
    """Note in the run's lock which process its runner is, and that it looks now."""
    procs.note_pid(run.folder, "runner", os.getpid(), int(run.now))


def keep_supervisor(run: Run) -> None:
    """Start a supervisor where a runner has lost its own."""
    is_alone = run.link is not None and run.link.is_alone
    if is_alone and not procs.alive(run.folder, "supervisor"):
        start_detached(run, "supervisor")


def start_detached(run: Run, *words: str, log: str = "") -> child.Command | None:
    """Start another process of this run, which outlives this one; None where that fails.

    `log`: the file in log/ for what it prints; its verb names one otherwise.
    """
    try:
        with open(run.folder.at("log", log or f"{words[0]}.log"), "ab") as output:
            started = child.Command(run.self_command(*words), output=output, folder="/")
    except OSError as error:
        run.log(f"can't start {words[0]}: {error.strerror}")
        return None
    return started
