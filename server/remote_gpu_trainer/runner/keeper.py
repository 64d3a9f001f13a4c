"""The keeper: a process of its own that enforces the deadline and raises a dead runner."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from contextlib import suppress

from . import asking, failures, notices, procs, program, results, safe, saving, state, stopping
from .context import Run
from .deadline import Window, known
from .ending import Ending
from .heart import start_apart
from .preemption import Poll
from .sync import Sync, unverified

COPY_AT_DEADLINE = 20.0  # seconds for one more copy after the deadline
HEARS = 2.0 + saving.STILL  # seconds for a runner to hear a request, and to look for a save
MOST_RAISES = 5  # of a runner that comes no further
OWED_FIRST, OWED_MOST = 5.0, 60.0  # seconds between two tries of an owed copy
SAFE_EVERY = 5.0  # seconds between two looks whether all is safe elsewhere
FIRST_TRY = 30.0  # seconds for the first of them, before anybody is told


class Keeper:
    """One keeper. It outlives the training, the runner and the connection."""

    def __init__(self, run: Run):
        self.run = run
        self.sync = Sync(run)
        self.ending = Ending(run)
        self.poll = Poll(run)
        self.window = _window(run)
        self.asked = self.passed = False
        self._gone_since: float | None = None
        self._raised_at = -1e9
        self._raises = 0  # since it last came further
        self._came_to: object = None
        self._beat_seen = (0.0, 0.0)  # the newest beat, and when it was seen first, by run.up
        self._owed_at, self._owed_wait, self._owed_tries = -1e9, OWED_FIRST, 0
        self._copy: subprocess.Popen[bytes] | None = None
        self._safe_at, self._safe_of, self._is_all_safe = -1e9, "", False

    def go(self) -> int:
        """Look once a second until nothing is left to do."""
        run = self.run
        with suppress(OSError):  # a full disk may have hidden that another one is there
            lock = os.open(run.folder.at("keeper.lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return 0
        procs.note_pid(run.folder, "keeper", os.getpid())
        for sign in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(sign, signal.SIG_IGN)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("-500")
        while not self.look():
            run.clock.nap(min(1.0, run.spec.timings.raise_after))
        run.folder.remove("keeper.pid")  # it goes by itself: nobody is to raise another one
        return 0

    def look(self) -> bool:
        """Do what this second needs; True when nothing is left to do."""
        run = self.run
        end = run.folder.ended() if not procs.alive(run.folder, "runner") else ""
        at = _deadline(run)
        if at not in (None, self.window.at):
            self.window = _window(run)
        # One save may go on, and another is asked for.
        now = self.window.look(run.now, run.up, 2 * save_seconds(run))
        if not end and now != "over":
            self._look_for_runner()
            self._pass_on(now)
            return False
        if now == "over" and not self.passed:
            self.passed = True
            self._at_deadline()
            end = run.folder.ended()
        is_safe = self._is_safe(end)
        if not is_safe and self._is_in_first_try():
            return False
        late = max(run.now - self.window.at, 0.0) if self.passed else -1.0
        return self.ending.step(end, late, is_safe)

    def _pass_on(self, now: str) -> None:
        """Ask for a save: before the deadline, or when the provider tells that the box goes."""
        if self.asked:
            return
        notice = self.poll.look()
        if now == "save" or notice:
            self.asked = True
            reason = "deadline" if now == "save" else notice
            self.run.log(f"{reason}: asking to save")
            ask(self.run, reason)

    def _look_for_runner(self) -> None:
        """Raise a runner that is gone, replace one that hangs."""
        run, timings = self.run, self.run.spec.timings
        pid = procs.alive(run.folder, "runner")
        if pid:
            self._gone_since = None
            beat = run.folder.number("heartbeat")
            if beat is not None and run.now - beat > timings.hung and self._hangs():
                procs.send([pid], signal.SIGKILL)
            return
        self._gone_since = run.up if self._gone_since is None else self._gone_since
        # Each time that it comes no further it is given twice as long.
        wait = timings.raise_after * 2 ** min(self._raises, 5)
        if run.up - self._gone_since < timings.raise_after or run.up - self._raised_at < wait:
            return
        self._raised_at = run.up
        if self._is_hopeless():
            return
        run.event("raising", process="runner")
        run.log("the runner is gone without an end; raising it again")
        start_apart(run, "run", "--raised")

    def _is_hopeless(self) -> bool:
        """End a run whose runner was raised again and again, and comes no further.

        While its program lives nothing is ended: the program may still come to its end.
        """
        run = self.run
        now = (run.folder.read("attempt"), run.folder.json("state.json").get("checkpoint"))
        self._raises = self._raises + 1 if now == self._came_to else 1
        self._came_to = now
        if self._raises <= MOST_RAISES or procs.of_program(run.folder):
            return False
        told = state.State(run)
        told.read()
        told.phase, told.failure, told.entry = "failed", "unknown", ""
        told.again = failures.USED_UP
        told.reason = (
            f"its runner ended {MOST_RAISES} times without a word; rgt pull BOX log/runner.log may "
            "tell why"
        )
        run.log(told.reason)
        told.write()
        told.mark("failed")
        notices.notify(run, told.reason)
        return True

    def _hangs(self) -> bool:
        """A jumped clock makes a beat look old: it must also stand still for as long."""
        run = self.run
        beat = run.folder.number("heartbeat") or 0.0
        if self._beat_seen[0] != beat:
            self._beat_seen = (beat, run.up)
        return run.up - self._beat_seen[1] > run.spec.timings.hung

    def _at_deadline(self) -> None:
        run = self.run
        run.log("deadline reached")
        run.event("deadline")
        if procs.alive(run.folder, "runner") or not run.folder.ended():
            self._end_run()
        if run.spec.durable and not self.sync.is_whole():
            if self._copy is None:
                self._start_copy()
            self._wait_for_copy(COPY_AT_DEADLINE)

    def _end_run(self) -> None:
        """End the program, and a runner that doesn't notice; its marker is there afterwards."""
        run = self.run
        if procs.kill_program(run.folder):
            run.event("killed", why="deadline")
        self.sync.stop()
        until = run.up + 4
        while run.up < until and procs.alive(run.folder, "runner"):
            run.clock.nap(0.1)
        if pid := procs.alive(run.folder, "runner"):
            procs.send([pid], signal.SIGKILL)
            procs.kill_program(run.folder)  # one between two attempts may just have started one
        if run.folder.ended():
            return
        now = state.State(run)
        now.read()
        now.phase = now.outcome if now.outcome in ("preempted", "failed") else "preempted"
        if now.outcome == "done":
            now.phase, now.failure = "unsaved", "unsaved"
            now.reason = f"{unverified(run)}; ended by the deadline"
        elif now.phase == "preempted":
            now.failure = now.reason = "deadline"
            now.exit = 137
        now.mark(now.phase)
        now.write()
        if now.failure in ("deadline", "unsaved"):
            notices.notify(
                run, now.reason if now.failure == "unsaved" else notices.at_deadline(now.step)
            )

    def _is_safe(self, end: str) -> bool:
        """Return whether all is safe elsewhere; where it isn't, copy it again and again."""
        run = self.run
        if not run.spec.durable:
            return False
        if self._copy is not None:
            self._take_copy()
        elif end and not self._looks_safe(end) and run.up - self._owed_at >= self._owed_wait:
            self._owed_at = run.up
            self._owed_tries += 1
            self._owed_wait = min(self._owed_wait * 2, OWED_MOST)
            self._start_copy()
        return self._looks_safe(end)

    def _looks_safe(self, end: str) -> bool:
        """Look at most once in a few seconds: a look reads among the checkpoints."""
        run = self.run
        if run.up - self._safe_at >= SAFE_EVERY or self._safe_of != end:
            now = safe.look_safe(run)
            # A run that came to its end owes a copy of all that durable.what names, too; so does
            # one of which no checkpoint and no result is proven.
            has_proof = bool(now.verified) or bool(run.spec.results and not now.results_missing)
            is_cut = end not in ("done", "unsaved")
            is_copied = (is_cut and has_proof) or self.sync.is_whole()
            self._is_all_safe = is_copied and is_safe_for(end, now, _has_left(run, now))
            self._safe_at, self._safe_of = run.up, end
        return self._is_all_safe

    def _is_in_first_try(self) -> bool:
        """Return whether a first copy after the end may still come through: nobody is woken, and
        no box ended, for what is there a moment later."""
        since = self.run.up - self._owed_at
        return self._copy is not None and self._owed_tries == 1 and since < FIRST_TRY

    def _start_copy(self) -> None:
        self._copy = start_apart(self.run, "sync", log="runner.log")

    def _take_copy(self) -> None:
        """See whether a copy has come to its end; one that hangs is given up."""
        copy = self._copy
        if copy is None:
            return
        if copy.poll() is not None:
            self._copy = None
            self._safe_at = -1e9  # what was seen before it is told to nobody
        elif self.run.up - self._owed_at > 3600:
            self._end_copy(copy)

    def _wait_for_copy(self, seconds: float) -> None:
        until = self.run.up + seconds
        while self._copy is not None and self.run.up < until:
            self.run.clock.nap(0.1)
            self._take_copy()
        if self._copy is not None:
            self._end_copy(self._copy)
            self._copy = None

    def _end_copy(self, copy: subprocess.Popen[bytes]) -> None:
        self.sync.stop()
        with suppress(OSError):
            os.killpg(copy.pid, signal.SIGKILL)


def is_safe_for(end: str, now: safe.Safe, left: bool) -> bool:
    """Return whether nothing that this end leaves would be lost with the box. Pure.

    `left`: results that aren't safe elsewhere, or checkpoints that nothing proves complete, are
    here. A run that failed, or was ended, makes no results any more.
    """
    if now.is_all_safe:
        return True
    is_cut = end in ("", "failed", "preempted")
    return is_cut and now.is_newest_safe and not left


def _has_left(run: Run, now: safe.Safe) -> bool:
    """Return whether anything is here that isn't safe elsewhere. What hangs counts as if."""
    paths = [run.inside(name) for name in now.results_missing]  # globs among them
    where = () if now.newest or now.verified or not run.checkpoints else (run.checkpoints,)
    with suppress(asking.Failed):
        return bool(asking.call(run, 5.0, None, _any_there, paths, where))
    return True


def _any_there(paths: list[str], folders: list[str]) -> bool:
    filled = any(names for folder in folders for _, _, names in os.walk(folder))
    return filled or any(os.path.lexists(path) for name in paths for path in results.expand(name))


def _window(run: Run) -> Window:
    """Count down to the deadline from now on, as a keeper does that begins, or begins anew."""
    owes = bool(procs.alive(run.folder, "train")) and not run.folder.has("save-now")
    at = _deadline(run)
    return Window(run.now + 1e9 if at is None else at, run.now, run.up, owes)


def _deadline(run: Run) -> float | None:
    """Return the deadline that the run began with, None where nothing tells it any more; no damaged
    file gives it other hours."""
    found = known(run) or run.folder.number("deadline")
    if not found:
        found = run.folder.json("state.json").get("deadline")
    return float(found) if found else None


def save_seconds(run: Run) -> float:
    """Return how long a save takes: as measured, else as the job says."""
    measured = run.folder.number("save-seconds")
    return measured or run.spec.save_seconds


def ask(run: Run, reason: str) -> None:
    """Ask runner and program to save: the runner by signal, and the program itself when the runner
    is dead or hung."""
    if not run.folder.read("asked").strip():
        run.folder.write("asked", reason + "\n")
    pid = procs.alive(run.folder, "runner")
    if pid:
        procs.send([pid], signal.SIGTERM)
        until = run.up + HEARS
        while run.up < until:
            if run.folder.has("save-now") or run.folder.has(saving.FILE):
                return
            run.clock.nap(0.1)
    if procs.alive(run.folder, "train"):
        stopping.wait_for_save(run, reason, save_seconds(run))
        program.ask_to_save(run, reason)
