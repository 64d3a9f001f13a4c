"""The request to save and end: it waits for a save that goes on, signals once, kills, and says what
the end cost."""

from __future__ import annotations

import os
import signal

from . import checkpoints, preemption, procs, saving
from .context import Run
from .program import Program


class Asking:
    """One request, of one attempt.

    `begun`: when it began, by run.up; `asked_at`: when the signal was sent, None before.
    """

    def __init__(self, run: Run, program: Program):
        self.run, self.program = run, program
        self.begun: float | None = None
        self.asked_at: float | None = None
        self._kill_at = 0.0
        self._saves = saving.Watch(run)
        self._asked_ns = 0
        self._is_told = False

    def step(self, why: str, save: float) -> None:
        """Do what is due. `why`: who asked; `save`: seconds that a save takes here."""
        run = self.run
        if self.begun is None:
            self.begun = run.up
            self._saves = saving.Watch(run)
        if run.folder.has("save-now") and self.asked_at is None:
            self._sent(save, run.folder.changed("save-now"))  # somebody else has asked
        path = self._saves.look(self.program.pids())
        if self.asked_at is None:
            if path and self._may_wait(why, save):
                if self._saves.has_seen:
                    self._tell_wait(path)
                return
            run.folder.remove(saving.FILE)
            asked = run.now  # a handler may have saved before the next line
            self.program.ask_to_save(why)
            self._sent(save, asked)
        elif run.up >= self._kill_at:
            if path and self._may_wait(why, save):
                return
            procs.kill_program(run.folder)
            seconds = f"{run.up - self.asked_at:.0f}"
            saved = "yes" if self.has_saved() else ""
            run.event("killed", why=f"not ended {seconds} s after the save signal", saved=saved)
            self._kill_at = run.up + 5

    def has_saved(self) -> bool:
        """Return whether there is a checkpoint from after the signal."""
        if self.asked_at is None:
            return False
        return checkpoints.saved_since(self.run, self._asked_ns, look=True) is not None

    def over(self) -> None:
        """The program has ended; one that ended while it was waited for wasn't asked."""
        self.run.folder.remove(saving.FILE)

    def _sent(self, save: float, at: float) -> None:
        # The kernel stamps files by a clock that lags some milliseconds behind.
        self.asked_at, self._asked_ns = self.run.up, int((at - 0.05) * 1e9)
        self._kill_at = self.run.up + max(self.run.spec.save_seconds, save)

    def _may_wait(self, why: str, save: float) -> bool:
        """Return whether a save that goes on may go on for another moment."""
        is_first = self.asked_at is None or why.startswith(("notice", "signal"))
        since = self.begun if is_first else self._kill_at
        waited, pids = self.run.up - (since or self.run.up), self.program.pids()
        return _may_wait(self.run, why, waited, save, self._saves, pids, self.asked_at is None)

    def _tell_wait(self, path: str) -> None:
        if not self._is_told:
            self._is_told = True
            _tell_wait(self.run, path)


def wait_for_save(run: Run, why: str, save: float, tells: bool = True) -> None:
    """Wait, as long as this request may, for a save that goes on, where no runner does it."""
    saves, begun, is_told = saving.Watch(run), run.up, not tells
    while True:
        pids = procs.of_program(run.folder, procs.alive(run.folder, "train"))
        path = saves.look(pids) if pids else ""
        if not path or not _may_wait(run, why, run.up - begun, save, saves, pids, True):
            break
        if not is_told and saves.has_seen:
            is_told = True
            _tell_wait(run, path)
        run.clock.nap(0.1)
    run.folder.remove(saving.FILE)


def _may_wait(
    run: Run, why: str, waited: float, save: float, saves: saving.Watch, pids: set[int], first: bool
) -> bool:
    """`first`: the signal is still to be sent, so that a save of the program's own may follow."""
    at = run.folder.number("deadline")
    sign = getattr(signal, f"SIG{run.spec.save_signal}")
    return saving.may_wait(
        why,
        waited=waited,
        left=at - run.now if at else 1e9,
        save=save,
        handles=first and saving.catches(pids, sign),
        notice=preemption.notice_seconds(run),
        grows=saves.grows(),
        is_one_save=saves.is_one_save,
    )


def _tell_wait(run: Run, path: str) -> None:
    told = f"waiting for the save of {path} to end"
    run.folder.write(saving.FILE, told + "\n")
    run.log(told)
    run.event("waits-for-save", path=path)


def tell_cost(path: str, saved_step: int | None, step: int | None) -> str:
    """Say what an end cost that came without a save. Pure.

    `path`: the newest complete checkpoint, '' for none. `saved_step`: of that; `step`: of the log.
    """
    told = "it didn't save when asked"
    if not path:
        return f"{told}, and no complete checkpoint is here"
    lost = ""
    if step is not None and saved_step is not None and step >= saved_step:
        count = step - saved_step
        lost = f", {count} step{'' if count == 1 else 's'} lost"
    return f"{told}: it falls back to {os.path.basename(path)}{lost}"


def tell_steps_between(
    first: int | None, second: int | None, is_shortened: bool, every_seconds: float
) -> str:
    """Say what an end loses that comes just before a save. Pure.

    `first`, `second`: two saves of a rehearsal. `is_shortened`: it had arguments of its own, so
    that its rhythm isn't the run's. `every_seconds`: of the run's saves by the job, 0 for unknown.
    """
    lost = "all that it trained since its last save"
    if every_seconds:
        return f"{lost}: up to {every_seconds / 60:g} min, by the job's checkpoint.every_minutes"
    if is_shortened or first is None or second is None or second <= first:
        return f"{lost}, which depends on how often the run saves"
    count = second - first
    return f"up to {count} step{'' if count == 1 else 's'} (what it trains between two saves here)"
