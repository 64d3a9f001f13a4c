"""The supervisor: parent of the runner and of the program. It holds deadline and end of the box."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from typing import Callable

from . import (
    backstop,
    child,
    ending,
    failures,
    killing,
    notices,
    parent,
    procs,
    program,
    results,
    safe,
    saving,
    state,
    stopping,
)
from .context import Run
from .core import supervise
from .core.box import End, is_all_kept, plan_unheard
from .core.ends import end_unheard
from .core.model import (
    ASKED,
    DEADLINE,
    AboutRunner,
    Action,
    Ask,
    AwaitSave,
    Copy,
    CutCopy,
    Kept,
    Kill,
    Mark,
    Seen,
    Signal,
    Tell,
    Verdict,
    Worker,
)
from .core.phases import CODES
from .core.stop import Window
from .deadline import Countdown, cause_of, known
from .ending import Ending
from .heartbeat import start_detached
from .link import LIMIT, Link, receive, send
from .locks import try_lock
from .preemption import Poll
from .sync import Sync, unverified

SAFE_EVERY = 5.0  # seconds between two looks whether all is safe elsewhere
QUICK = 0.1  # seconds between two looks while another supervisor leaves
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
LEAVE = signal.SIGUSR2  # asks a supervisor to leave the run to another one
LEFT = 143  # the exit code of one that was asked to leave


class Supervisor:
    """One supervisor: it looks, has core/supervise.py decide, and does what that says. It outlives
    the training, the runner and the connection.

    `start`: what a runner does, in a process of its own, and its exit code; it is told whether one
    before it is gone.
    """

    def __init__(self, run: Run, start: Callable[[bool], int]):
        self.run, self._start = run, start
        self.sync = Sync(run)
        self.ending = Ending(run)
        self.poll = Poll(run)
        self.backstop = backstop.Backstop(run)
        window, self.countdown = _count_down(run)
        self.state = supervise.SupervisorState(window)
        self._copy: child.Command | None = None
        self._saves: saving.Watch | None = None  # while a request goes on
        self._kept_at, self._kept_of, self._kept = -1e9, "", Kept()
        self._runner = 0  # the pid of the one that is a child of this process
        self._line: socket.socket | None = None  # to it
        self._has_begun = False  # it holds the run
        self._reported_code: int | None = None  # the exit code of one that came to its end
        self._status = 1  # of the process
        self._programs: list[parent.ProgramProcess] = []  # all but the last one are ending
        self._signals: list[int] = []
        self._lock = -1
        self._has_charge = self._leaves = False
        self._asked_pid = 0  # a supervisor that was asked to leave
        self._woken, self._waker = -1, -1

    def begin(self) -> int:
        """Supervise a run from its start; return the exit code of its runner.

        What is left to do after its end is done by another process.
        """
        self._listen()
        with suppress(OSError):
            self.run.folder.make()
        self._take_charge()
        self._start_runner(False)
        while True:
            self._wait(self._pause() if self._has_charge else QUICK)
            if not self._has_charge and (self._has_begun or not self._runner):
                self._take_charge()
            if not self._runner:
                if self._leaves:
                    self.backstop.dismiss()
                    return LEFT
                # What is left to do then is done by the other process, which can wait for it.
                if not self._has_begun or (self._has_charge and self._has_ended()):
                    break
            if self._has_charge and self._has_begun and self.look() and not self._runner:
                break  # its end can't be noted, and nothing is left to do
        if not self._has_begun:
            return self._status if self._reported_code is None else self._reported_code
        if os.fork():
            return self._code_of_end() if self._reported_code is None else self._reported_code
        self._detach()
        self._go_on()
        os._exit(0)

    def go(self, has_line: bool) -> int:
        """Take a run over whose supervisor is gone; return 0 once nothing is left to do.

        `has_line`: the shell that raised this process hears its standard output.
        """
        if has_line:
            self.backstop.take_output()
        self._listen()
        if not self._take_charge():
            self.backstop.dismiss()  # who is in charge has a shell of its own
            return 0
        return self._go_on()

    def _go_on(self) -> int:
        while not self.look():
            self._wait(self._pause())
            if self._leaves and not self._runner:
                self.backstop.dismiss()
                return LEFT
        self.backstop.dismiss()
        return 0

    def _pause(self) -> float:
        return min(1.0, self.run.spec.timings.raise_after)

    def _has_ended(self) -> bool:
        return bool(self.run.folder.ended())

    def _code_of_end(self) -> int:
        """Return the exit code of a run whose runner could not tell one."""
        end = self.run.folder.ended()
        failure = str(self.run.folder.json(f".{end}").get("class") or "")
        return CODES.get(failure, CODES.get(end, 1))

    def _listen(self) -> None:
        """Have signals, and children that end, wake this process."""
        for sign in FORWARDED:
            signal.signal(sign, lambda number, _: self._signals.append(number))
        for sign in (signal.SIGHUP, signal.SIGPIPE):
            signal.signal(sign, signal.SIG_IGN)
        signal.signal(LEAVE, lambda *_: setattr(self, "_leaves", True))
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._woken, self._waker = os.pipe()
        for end in (self._woken, self._waker):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        parent.inherit_orphans()

    def _take_charge(self) -> bool:
        """Become the supervisor of the run, unless another process is. One that has nothing but a
        run before this one is asked to leave."""
        run = self.run
        with suppress(OSError):  # a full disk may have hidden that another one is there
            lock = try_lock(run.folder.at("own/supervisor.lock"))
            if lock is None:
                pid = procs.alive(run.folder, "supervisor")
                if self._has_begun and pid and pid != self._asked_pid:
                    self._asked_pid = pid
                    procs.send([pid], LEAVE)
                return False
            self._lock = lock
        self._has_charge = True
        procs.note_pid(run.folder, "supervisor", os.getpid())
        if run.folder.has("supervisor.pid"):  # of an older version, whose deadman reads it
            run.folder.remove("supervisor.pid", "deadman.pid")
        procs.protect(True)
        window, self.countdown = _count_down(run)
        self.state = supervise.SupervisorState(window)
        program = parent.take_over(run) if not self._programs else None
        self._programs += [program] if program else []
        return True

    def _start_runner(self, is_raised: bool) -> None:
        """Fork a runner."""
        run = self.run
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid:
            theirs.close()
            if self._line is not None:
                self._line.close()
            self._runner, self._line, self._reported_code = pid, ours, None
            ours.settimeout(LIMIT)
            return
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for sign in (*FORWARDED, LEAVE, signal.SIGHUP, signal.SIGCHLD):
                signal.signal(sign, signal.SIG_DFL)
            procs.protect(False)
            # The lock among them: it must end with this process's parent.
            files = [self._lock, self.backstop.line, self._woken, self._waker]
            files += [program.source for program in self._programs]
            for file in filter(lambda file: file >= 0, files):
                os.close(file)
            ours.close()
            run.link = Link(theirs)
            code = self._start(is_raised)
            with suppress(OSError):
                run.link.end(code)
        except BaseException:  # noqa: B036 - whatever it is, this process must not go on
            run.folder.append("log/runner.log", traceback.format_exc())
            traceback.print_exc()
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _wait(self, seconds: float) -> None:
        """Serve the runner and the program's output for so long, or until the runner holds the run,
        or a child has ended."""
        until, has_begun = time.monotonic() + seconds, self._has_begun
        while True:
            line = [self._line] if self._line is not None else []
            outputs = {one.source: one for one in self._programs if one.source >= 0}
            left = max(until - time.monotonic(), 0.0)
            # What has no room for its exit code tries again; so does a pipe that is left open.
            ready, _, _ = select.select([self._woken, *line, *outputs], [], [], left)
            for file in ready:
                if isinstance(file, socket.socket):
                    self._serve(file)
                elif file in outputs:
                    outputs[file].pump()
            if self._woken in ready:
                with suppress(OSError):
                    os.read(self._woken, 4096)
                self._reap()
                self._forward()
                return
            if time.monotonic() >= until or self._has_begun != has_begun:
                self._programs = [one for one in self._programs if not one.is_over()]
                return

    def _serve(self, line: socket.socket) -> None:
        """Do what the runner asks for."""
        try:
            message = receive(line)
            if "start" in message:
                self._programs.append(program := parent.begin(self.run, message["start"]))
                start = parent.start_of(program.pid)
                send(line, {"pid": program.pid, "start": start})
                self.backstop.note_program(program.pid, start)
            self._has_begun = self._has_begun or "begun" in message
            self._reported_code = message.get("code", self._reported_code)
        except OSError as error:
            with suppress(OSError):
                send(line, {"error": error.strerror or str(error)})
            if not procs.stat(self._runner):
                line.close()
                self._line = None

    def _reap(self) -> None:
        """Take the children that have ended."""
        for one in self._programs:
            one.pump()
        self._programs = [one for one in self._programs if not one.is_over()]
        if self._runner:
            ended, status = os.waitpid(self._runner, os.WNOHANG)
            if ended:
                while self._line is not None:  # its last words
                    self._serve(self._line)
                self._status, self._runner = parent.code(status), 0
        parent.reap_orphans({self._runner, *(one.pid for one in self._programs)})

    def _forward(self) -> None:
        """Pass signals on to the runner; where there is none, the next one reads who asks."""
        pid = self._runner or procs.alive(self.run.folder, "runner")
        while self._signals:
            number = self._signals.pop(0)
            if pid:
                procs.send([pid], number)
            elif self._has_ended():
                self._leaves = True
            elif not self.run.folder.read("asked").strip():
                name = signal.Signals(number).name[3:]
                self.run.folder.write("asked", f"signal {name}\n")

    def _detach(self) -> None:
        """Go on as a process of its own, which nobody waits for."""
        os.setsid()
        parent.inherit_orphans()
        procs.note_pid(self.run.folder, "supervisor", os.getpid())
        with suppress(OSError):
            null = os.open(os.devnull, os.O_RDONLY)
            output = os.open(
                self.run.folder.at("log", "supervisor.log"),
                os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC,
                0o640,
            )
            for at, file in enumerate((null, output, output)):
                os.dup2(file, at)

    def look(self) -> bool:
        """Do what this second needs; True when nothing is left to do."""
        run = self.run
        at = _deadline(run)
        if at not in (None, self.countdown.at):
            window, self.countdown = _count_down(run)
            self.state = self.state._replace(window=window)
        pid = self._runner or procs.alive(run.folder, "runner")
        end = ending.end_of(run, run.folder.ended() if not pid else "")
        up = run.up  # before the looks: what falls due meanwhile was not looked at as due
        runner, seen = self._see_runner(pid), self._see(end)
        self.state, actions, is_over = supervise.supervise(
            run.spec, self.state, runner, end, seen, up
        )
        for action in actions:
            self._do(action, pid, end)
        if self.backstop.is_due():
            self._tell_backstop(at, end, seen)
        return is_over

    def _tell_backstop(self, at: float | None, end: End, seen: Seen) -> None:
        """Tell the shell behind this process what to do without it. `at`: the deadline."""
        run = self.run
        is_safe = bool(end.name) and is_all_kept(run.spec, end.name, seen.kept)
        is_off = seen.has_quiet or run.folder.read("asked").strip() == ASKED
        do, late = plan_unheard(run.spec, end, is_safe, is_off)
        at = backstop.NEVER if at is None else at
        acts = at + run.spec.checkpoint.save_seconds + backstop.LIVES
        program = procs.noted(run.folder, "train")
        self.backstop.tell(backstop.Plan(acts, *program, do, at + late))

    def _see_runner(self, pid: int) -> supervise.Runner:
        """Return what is seen of the runner; `pid`: 0 where it is gone."""
        run, beat = self.run, procs.beat_of(self.run.folder)
        seen = supervise.Runner(
            bool(pid),
            beat,
            None if beat is None else run.now - beat,
            has_heard=run.folder.has("save-now") or run.folder.has(saving.FILE),
        )
        if pid:
            return seen
        newest = run.folder.json("state.json").get("checkpoint")
        return seen._replace(
            came_to=json.dumps([run.folder.attempt(), newest]),
            has_program=bool(procs.of_program(run.folder)),
        )

    def _see(self, end: End) -> Seen:
        """Return what else bears on the decision; what is dear to look at, where it matters."""
        run, leaving = self.run, self.state.leaving
        left, save = self.countdown.left(run.now, run.up), save_seconds(run)
        seen = Seen(left=left, save_seconds=save, notice="" if end.name else self.poll.look())
        if end.name or self.state.marked_at is not None:
            seen = self.ending.look(leaving.box.next_at)
            going = self._is_copying()
            return seen._replace(
                left=left,
                save_seconds=save,
                worker=Worker(code=None if going else 0),
                kept=self._look_at_kept(end.name) if run.spec.durable.to else Kept(),
            )
        leader = procs.alive(run.folder, "train") if self.state.why else 0
        if not leader:
            return seen
        self._saves = self._saves or saving.Watch(run)
        pids = procs.of_program(run.folder, leader)
        found, handles = stopping.see_save(run, self._saves, pids)
        return seen._replace(
            save=found,
            handles=handles,
            is_alive=True,
            is_signalled=run.folder.has("save-now"),
        )

    def _do(self, action: Action, pid: int, end: End) -> None:
        """Do it. `pid`: of the runner; `end`: how the run ended."""
        run = self.run
        if isinstance(action, AboutRunner):
            self._do_about_runner(action.do, pid)
        elif isinstance(action, Ask):
            self._ask(action.why, pid)
        elif isinstance(action, AwaitSave):
            if self._saves is not None and self._saves.has_seen and not run.folder.has(saving.FILE):
                stopping.tell_wait(run, action.path)
        elif isinstance(action, Signal):
            run.folder.remove(saving.FILE)
            program.ask_to_save(run, action.why)
        elif isinstance(action, Kill):
            self._kill(action.why)
        elif isinstance(action, Mark):
            self._mark_unheard()
        elif isinstance(action, Tell) and action.key == "end":
            self._tell_end(end)
        elif isinstance(action, Copy):
            self._copy = start_detached(run, "sync", log="runner.log")
        elif isinstance(action, CutCopy):
            self.sync.stop()
            if self._copy is not None:
                self._copy.kill()
        else:
            self.ending.do(action, end)

    def _do_about_runner(self, do: str, pid: int) -> None:
        run = self.run
        if do == supervise.KILL:
            procs.send([pid], signal.SIGKILL)
        elif do == supervise.RAISE:
            run.event("raising", process="runner")
            run.log("the runner is gone without an end; raising it again")
            self._start_runner(True)
        elif do == supervise.GIVE_UP:
            self._give_up()

    def _ask(self, why: str, pid: int) -> None:
        """Ask the runner to save and end: the one that lives, and any that is raised."""
        run = self.run
        run.log(f"{why}: asking to save")
        if not run.folder.read("asked").strip():
            run.folder.write("asked", why + "\n")
        if pid:
            procs.send([pid], signal.SIGTERM)

    def _kill(self, why: str) -> None:
        """Kill the program. `why`: '' where that was told before."""
        run = self.run
        if why == DEADLINE:
            run.log("deadline reached")
            run.event("deadline")
        if killing.kill_program(run.folder) and why:
            run.event("killed", why=why)

    def _give_up(self) -> None:
        """End a run whose runner was raised again and again, and comes no further."""
        run, written = self.run, state.StateFile(self.run)
        written.read()
        written.phase, written.again = "failed", failures.USED_UP
        written.failure, written.entry, written.reason = supervise.HOPELESS
        run.log(written.reason)
        written.write()
        written.mark("failed")

    def _mark_unheard(self) -> None:
        """Note the end of a run that didn't come to one by its deadline."""
        run = self.run
        if run.folder.ended():
            return
        now = state.StateFile(run)
        now.read()
        verdict = Verdict(now.failure, now.entry, now.reason)
        now.phase, verdict, now.exit = end_unheard(now.outcome, verdict, now.exit, unverified(run))
        now.failure, now.entry, now.reason = verdict
        now.mark(now.phase)
        now.write()

    def _tell_end(self, end: End) -> None:
        """Tell of an end that its runner has told nobody of."""
        run, now = self.run, state.StateFile(self.run)
        now.read()
        now.phase, now.failure, now.reason = end.name, end.failure, end.reason
        text = notices.at_end(now)
        if end.is_late:
            text = notices.at_deadline(cause_of(run), now.step, now.cost)
        notices.tell_end(run, end.name, text)

    def _is_copying(self) -> bool:
        """Return whether an owed copy goes on; what was seen before its end is told to nobody."""
        if self._copy is not None and self._copy.poll():
            self._copy = None
            self._kept_at = -1e9
        return self._copy is not None

    def _look_at_kept(self, end: str) -> Kept:
        """Look at most once in a few seconds: a look reads among the checkpoints."""
        run = self.run
        if run.up - self._kept_at >= SAFE_EVERY or self._kept_of != end:
            now = safe.look_safe(run)
            self._kept = Kept(
                self.sync.is_whole(),
                bool(now.verified) or bool(run.spec.results and not now.results_missing),
                now.is_newest_safe,
                now.is_all_safe,
                _has_left(run, now),
            )
            self._kept_at, self._kept_of = run.up, end
        return self._kept


def _has_left(run: Run, now: safe.Safe) -> bool:
    """Return whether anything is here that isn't safe elsewhere. What hangs counts as if."""
    if now.left:
        return True
    paths = [run.inside(name) for name in now.results_missing]  # globs among them
    where = () if now.newest or now.verified or not run.checkpoints else (run.checkpoints,)
    with suppress(child.Failed):
        return bool(child.call(run, _any_there, paths, where, limit=5.0))
    return True


def _any_there(paths: list[str], folders: list[str]) -> bool:
    filled = any(names for folder in folders for _, _, names in os.walk(folder))
    return filled or any(os.path.lexists(path) for name in paths for path in results.expand(name))


def _count_down(run: Run) -> tuple[Window, Countdown]:
    """Count down to the deadline from now on, as a supervisor does that begins, or begins anew.

    A program that nobody has asked to save has its whole window, even where the count begins in it
    or behind it.
    """
    owes = bool(procs.alive(run.folder, "train")) and not run.folder.has("save-now")
    at = _deadline(run)
    countdown = Countdown(run.now + 1e9 if at is None else at, run.now, run.up)
    return Window(is_wide=True if owes else None), countdown


def _deadline(run: Run) -> float | None:
    """Return the deadline that the run began with, None where nothing tells it any more; no damaged
    file gives it other hours."""
    found = known(run) or run.folder.json("state.json").get("deadline")
    found = found or run.folder.number("deadline")
    return float(found) if found else None


def save_seconds(run: Run) -> float:
    """Return how long a save takes: as measured, else as the job says, which is never less."""
    measured = run.folder.json("state.json").get("save_seconds")
    if isinstance(measured, (int, float)) and measured > 0:
        return float(measured)
    return run.spec.checkpoint.save_seconds
