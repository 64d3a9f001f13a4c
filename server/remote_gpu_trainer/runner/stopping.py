"""The request to save and end: it waits for a save that goes on, signals once, kills, and says what
the end cost."""

from __future__ import annotations

import os
import signal

from . import checkpoints, killing, procs, saving
from .context import Run
from .core import stop
from .core.model import Save, Seen
from .program import Program


class Asking:
    """What is seen, and done, of a request to end one attempt."""

    def __init__(self, run: Run, program: Program):
        self.run, self.program = run, program
        self._saves: saving.Watch | None = None
        self._asked_ns: int | None = None
        self._is_told = False

    def look(self) -> tuple[Save, bool, bool]:
        """Return the save that goes on, whether the program handles the save signal, and whether
        that was sent."""
        run = self.run
        self._saves = self._saves or saving.Watch(run)
        is_signalled = run.folder.has("save-now")
        if is_signalled and self._asked_ns is None:  # somebody else has asked
            self._note_time(run.folder.changed("save-now"))
        return (*see_save(run, self._saves, self.program.pids()), is_signalled)

    def signal(self, why: str) -> None:
        """Send the signal. `why`: who asked."""
        self.run.folder.remove(saving.FILE)
        asked = self.run.now  # a handler may have saved before the next line
        self.program.ask_to_save(why)
        self._note_time(asked)

    def tell_wait(self, path: str) -> None:
        """Tell, once, that the signal waits for a save; the doubt of the first looks is none."""
        if self._saves is not None and self._saves.has_seen and not self._is_told:
            self._is_told = True
            tell_wait(self.run, path)

    def kill(self, why: str) -> None:
        """Kill what hasn't ended in its time."""
        killing.kill_program(self.run.folder)
        self.run.event("killed", why=why, saved="yes" if self.has_saved() else "")

    def has_saved(self) -> bool:
        """Return whether there is a checkpoint from after the signal."""
        if self._asked_ns is None:
            return False
        return checkpoints.saved_since(self.run, self._asked_ns, now=True) is not None

    def _note_time(self, at: float) -> None:
        # The kernel stamps files by a clock that lags some milliseconds behind.
        self._asked_ns = int((at - 0.05) * 1e9)


def wait_for_save(run: Run, why: str, save: float, tells: bool = True) -> None:
    """Wait, as long as this request may, for a save that goes on, where no runner does it."""
    saves, request, is_told = saving.Watch(run), stop.Request(), not tells
    while True:
        pids = procs.of_program(run.folder, procs.alive(run.folder, "train"))
        at, (found, handles) = run.folder.number("deadline"), see_save(run, saves, pids)
        left = at - run.now if at else 1e9
        seen = Seen(left=left, save_seconds=save, save=found, handles=handles)
        request, do = stop.serve(run.spec, request, why, seen, run.up)
        if not pids or do != stop.WAIT:
            break
        if not is_told and saves.has_seen:
            is_told = True
            tell_wait(run, seen.save.path)
        run.clock.nap(0.1)
    run.folder.remove(saving.FILE)


def see_save(run: Run, saves: saving.Watch, pids: set[int]) -> tuple[Save, bool]:
    """Return the save that goes on, and whether these processes handle the save signal."""
    found, sign = saves.look(pids), getattr(signal, f"SIG{run.spec.save_signal}")
    return found, bool(found.path) and saving.catches(pids, sign)


def tell_wait(run: Run, path: str) -> None:
    """Tell that an end waits for the save of this path."""
    text = f"waiting for the save of {path} to end"
    run.folder.write(saving.FILE, text + "\n")
    run.log(text)
    run.event("waits-for-save", path=path)


def tell_cost(path: str, saved_step: int | None, step: int | None) -> str:
    """Say what an end cost that came without a save. Pure.

    `path`: the newest complete checkpoint, '' for none. `saved_step`: of that; `step`: of the log.
    """
    text = "it didn't save when asked"
    if not path:
        return f"{text}, and no complete checkpoint is here"
    lost = ""
    if step is not None and saved_step is not None and step >= saved_step:
        count = step - saved_step
        lost = f", {count} step{'' if count == 1 else 's'} lost"
    return f"{text}: it falls back to {os.path.basename(path)}{lost}"


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
