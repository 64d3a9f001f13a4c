"""One attempt at a time: its program, started and ended as core/decide.py says, and what it shows.

`start`, `signal` and their like do it, `see` looks; what follows is decided in the core.
"""

from __future__ import annotations

import json
import os

from . import (
    checkpoints,
    collectors,
    containers,
    early_end,
    killing,
    launchers,
    log,
    memory,
    notices,
    opened,
    probing,
    procs,
    results,
    resuming,
    saving,
    setting_up,
    snapshots,
    stopping,
    sync,
    why,
)
from .copies.records import has_copied
from .core import watching
from .core.decide import State
from .core.model import DEADLINE, Exit, Folder, Kill, Local, Seen, Signs, Start, Verdict
from .folder import ATTEMPT
from .heartbeat import Heartbeat
from .lingering import Lingering
from .program import Program, with_arguments, words_of

LOOK_EVERY = 5.0  # seconds between two looks among the checkpoints while some are held
PATIENCE = 60.0  # seconds from a first save in which a program may still open a checkpoint


class Attempt:
    """The attempt that was started last. `number`: its own, which an attempt counts across all
    starts of a run, 0 before the first. `extra`: arguments that are added to the command."""

    def __init__(self, heartbeat: Heartbeat, extra: list[str] | None = None):
        self.heartbeat, self.run, self.state = heartbeat, heartbeat.run, heartbeat.state
        self.extra = list(extra or [])
        self.program = Program(self.run)
        self.number = self.run.folder.attempt() or 0
        self.choice = resuming.Choice(self.run, heartbeat.beat)
        self.holder = sync.Holder(self.run)
        self._probe = probing.FirstSteps(self.run, self.state)
        self._is_lingering_told = self._is_silence_told = False
        self._take(why.Attempt(0, None, 0, None, memory.note_kills(self.run), []))

    def _take(self, facts: why.Attempt) -> None:
        """Go on with this attempt. `facts`: what its end is compared with."""
        self._facts = facts
        self._began: checkpoints.Checkpoint | None = None
        self._begins_anew = False  # it went on from nothing
        self._opened: opened.Opened | None = None
        self._first_save, self._first_at = "", 0.0
        self._linger: Lingering | None = None
        self._asking = stopping.Asking(self.run, self.program)
        self._owed: list[str] | None = None  # results that weren't there when an end was asked for
        self._look_at = self.run.up
        self._folder = Folder()  # at the last look before a start
        self._exit: Exit | None = None

    # What is done.

    def start(self, action: Start) -> None:
        """Start it. Raises OSError, and Failed where its checkpoint can't be looked at."""
        run, state, number = self.run, self.state, action.number
        self.holder.stop()
        began = self.choice.begin(action.source)
        run.folder.remove(snapshots.ROLL, why.WAITS, sync.WHOLE)
        state.is_nan, state.before_nan, state.cost, state.note = False, "", "", action.note
        path = began.path if began else ""
        if number == 1:
            results.trust_later(run, began)
        goes_on = path and run.spec.resume != "none"
        # Where the nodes share a folder, the first one reads it for all.
        watch = opened.Opened(run, path) if goes_on and run.rank == 0 else None
        extra = [*self.extra, *resuming.arguments(run, began)]
        words = launchers.wrap(run, with_arguments(words_of(run.spec.command), extra), number)
        self._note(log.next_number(run), number, began.id if began else "")
        self._began, self._opened, self._begins_anew = began, watch, not goes_on
        noted = {
            "attempt": number,
            "log_first": self._facts.log_first,
            "checkpoint": self._facts.checkpoint,
            # Until something opens a checkpoint; its copies get a line of their own meanwhile.
            "anew": not goes_on or watch is not None and watch.found() is False,
        }
        variables = resuming.variables(run, began)
        self.program.start(words, number, path, variables, self._probe.begin(), noted)
        self.number = number
        run.event("attempt", attempt=number, resume=path, log=self._facts.log_first)
        run.log(f"attempt {number}" + (f" from {path}" if path else ""))

    def adopt(self) -> bool:
        """Take over the attempt of the runner before this one; False where its program is gone
        and left no code."""
        run, noted = self.run, self.run.folder.json(ATTEMPT)
        number, first = self.number, _whole(noted.get("log_first"))
        if not number:
            return False
        if not self.program.adopt(number, first):
            self.program.number, self.program.first = number, first
            if self.program.code is None and not procs.of_program(run.folder):
                return False
        self._note(first, number, str(noted.get("checkpoint") or ""))
        run.event("adopted", attempt=number, alive=self.program.alive())
        run.log(f"attempt {number} goes on: its runner was gone")
        return True

    def _note(self, first: int, number: int, began: str) -> None:
        """Take down what an end is compared with. `began`: the checkpoint that it began with."""
        run = self.run
        self.heartbeat.begin_attempt(first, number > 1 or bool(began))
        facts = (number, None, first, None, memory.note_kills(run), collectors.xids(), set(), began)
        self._take(why.Attempt(*facts))

    def signal(self, reason: str) -> None:
        """Send the signal to save and end. `reason`: who asks."""
        self._asking.signal(reason)

    def tell_wait(self, path: str) -> None:
        """Tell, once, that an end waits for the save of this path."""
        self._asking.tell_wait(path)

    def kill(self, action: Kill) -> None:
        """Kill what is left of the program."""
        if action.kind == watching.UNHEARD:
            self._asking.kill(action.why)
        elif killing.kill_program(self.run.folder) and action.kind == DEADLINE:
            self.run.event("killed", why=action.why)

    def take_snapshot(self, reason: str) -> None:
        """Write down what a program that stands still shows, before it is killed."""
        run = self.run
        run.event("stall", reason=reason)
        run.log(f"stalled: {reason}")
        snapshots.keep_snapshot(run, "stall", self.heartbeat.beat)

    # What is seen.

    def is_alive(self) -> bool:
        """Return whether the program's first process lives."""
        return self.program.alive()

    def see_wait(self, seen: Seen, is_due: bool) -> Seen:
        """Return what is seen before a start, with what another attempt could write over; and once
        it `is_due`, with the checkpoints that it chooses from."""
        unheld, worker = self.holder.look()
        seen = seen._replace(unheld=unheld, hold_worker=worker)
        if not is_due:
            return seen
        if not unheld or self.run.up >= self._look_at:  # a look may read all of a checkpoint
            self._look_at, self._folder = self.run.up + LOOK_EVERY, self.choice.see()
        choice = self.choice
        return seen._replace(folder=self._folder, is_fetched=choice.is_fetched, fetch=choice.fetch)

    def fetch(self) -> None:
        """Bring better checkpoints from the durable place, if it has any."""
        self.choice.bring()
        self._look_at = self.run.up

    def see(self, state: State, seen: Seen) -> Seen:
        """Return what is seen, with what this attempt shows: that it goes on, or how it ended."""
        run, heartbeat = self.run, self.heartbeat
        if self._exit is None and not self._goes_on():
            self._exit = self._look_at_end(state)
        newest, signs = checkpoints.latest(run), None
        folder = Folder(Local(newest.path) if newest else None)
        seen = seen._replace(nan=heartbeat.nan, folder=folder)
        if self._exit is not None:
            is_full = self._exit.evidence.failure == "disk" and bool(why.full_folder(run))
            return seen._replace(is_alive=False, exit=self._exit, is_full=is_full)
        seen = seen._replace(is_alive=True)
        if run.up >= self._look_at:
            self._look_at = run.up + run.spec.timings.heartbeat
            pids = self._look_at_processes()
            signs = None if state.asked else self._look_for_signs(pids)
        if state.phase != "saving":
            return seen._replace(signs=signs)
        if self._owed is None:
            self._owed = results.owed(run)
        save, handles, is_signalled = self._asking.look()
        return seen._replace(save=save, handles=handles, is_signalled=is_signalled)

    def _look_at_processes(self) -> set[int]:
        """Do what is done once a heartbeat; return the program's processes."""
        pids = self.program.pids()
        self._facts.pids |= pids
        snapshots.note_ranks(self.run.folder, pids)
        self._probe.look()
        self._tell_anew()
        return pids

    def _goes_on(self) -> bool:
        """Return whether the program, or what it left in the background, still trains."""
        if self.program.alive():
            self._linger = None
            return True
        if self.program.wait_for_code(1.0) == 137:
            return False
        if self._linger is None:
            self._linger = Lingering(self.run, self.run.spec.timings.leftover, self._step_now)
        trains = self._linger.trains()
        if self._linger.at_work and not self._is_lingering_told:
            self._is_lingering_told = True
            self.run.event("background", processes=len(self._linger.at_work))
            self.run.log("the command has ended, and processes that it left behind train on")
        return trains

    def _step_now(self) -> int | None:
        """Return the newest step of the log as it is now, and not at the last heartbeat."""
        self.heartbeat.look_at_log()
        return self.state.step

    def _look_for_signs(self, pids: set[int]) -> Signs:
        """Return what the program shows; `pids`: its processes."""
        run, heartbeat = self.run, self.heartbeat
        newest = checkpoints.latest(run)
        signs = Signs(
            heartbeat.log_grew,
            self.state.step,
            newest.id if newest else "",
            saving.stamp_output(run, pids),
            procs.cpu_seconds(pids),
            heartbeat.collectors.busy,
            heartbeat.collectors.hot,
        )
        heartbeat.log_grew = False
        self._tell_silence(signs)
        return signs

    def _look_at_end(self, state: State) -> Exit:
        """Return how the attempt ended, by all that is left of it; nothing of it trains on."""
        run, now, heartbeat, facts = self.run, self.state, self.heartbeat, self._facts
        self._end_request(state)
        code = facts.code = self.program.wait_for_code()
        is_zero, is_asked = code == 0, bool(state.asked)
        if code and not is_asked and not state.watching.stalled:
            snapshots.keep_snapshot(run, "failure", heartbeat.beat)
        if self.program.end():
            run.event("killed-leftovers")
        self._probe.look(at_the_end=True)
        heartbeat.end_log()
        self._tell_anew(at_the_end=True)
        newest = checkpoints.newest(run)
        if now.step is None and newest is not None:
            now.step = newest.step  # a log that was lost tells none
        if newest is not None:
            now.checkpoint = newest.path
            heartbeat.note_save(newest)
        found, text = results.look(run), log.tail(run, facts.log_first, why.LAST)
        now.missing, facts.step = found.missing, now.step
        newest_id = newest.id if newest else ""
        began_with_newest = bool(code and newest_id) and newest_id == facts.checkpoint
        return Exit(
            code,
            now.step,
            Verdict() if is_zero else why.classify(run, facts),
            tuple(found.missing),
            tuple(found.stale),
            tuple(results.find_corrupt(run)) if is_zero and not found.missing else (),
            tuple(self._owed or ()),
            "" if is_asked else self._never_started(code),
            why.has_sign("timelimit", text),
            is_zero and why.has_sign("signal", text[-why.LAST_WORDS :]),
            self._remark() if is_zero else "",
            newest_id,
            checkpoints.find_older(run, newest_id) if began_with_newest else "",
            facts.checkpoint,
            now.checkpoint_step,
            log.has_stepped(run, facts.log_first),
            has_copied(run, self.number),
            self._begins_anew,
        )

    def _end_request(self, state: State) -> None:
        """Note how long a save took that was asked for, or what the end cost without one."""
        run, now, request = self.run, self.state, state.watching.request
        if request.begun is None:
            return
        run.folder.remove(saving.FILE)
        has_saved = self._asking.has_saved()
        if request.signalled is not None and has_saved:
            self.heartbeat.saves.note_save(request.signalled, run.up)
        if run.rank or not run.checkpoints or has_saved:
            return
        self.heartbeat.look_at_log()
        newest = checkpoints.newest(run)
        if newest is not None:
            self.heartbeat.note_save(newest)
        cost = stopping.tell_cost(newest.path if newest else "", now.checkpoint_step, now.step)
        if self.program.code == 0 and not results.look(run).missing and run.spec.results:
            return  # it came to its end
        now.cost = cost
        run.log(cost)

    def _never_started(self, code: int | None) -> str:
        """Return what failed before the program itself, '' where that was started."""
        line = setting_up.failure(self.run.folder, self.run.spec.setup)
        return line or containers.failure(self.run, code)

    def _remark(self) -> str:
        """Return what is odd about an end with 0, '' for nothing."""
        course = self.heartbeat.series.course
        total = course.total if course.step == self.state.step else None
        remark = early_end.last_words(self.run, self._facts)
        return remark or early_end.tell_short(self.run, self._facts, total)

    # What is told.

    def _tell_anew(self, at_the_end: bool = False) -> None:
        """Tell where an attempt has saved, and nothing had opened what it was to go on from."""
        run, watch, began = self.run, self._opened, self._began
        if watch is None or began is None:
            return
        found = watch.found()
        self._note_anew(found is False)
        saved = None if found else checkpoints.saved_since(run, watch.newest, now=at_the_end)
        if saved and not self._first_save:
            self._first_save, self._first_at = saved.id, run.up
        # A program may save once before it loads.
        is_first = saved is None or saved.id == self._first_save
        is_soon = not self._first_save or run.up < self._first_at + PATIENCE
        if found is False and is_first and is_soon and not at_the_end:
            return
        watch.close()
        self._opened = None
        if found is False and saved:
            text = (
                f"attempt {self.number} was to go on from {began.path}; nothing had opened that"
                f" or another checkpoint there when it saved {os.path.basename(saved.path)}: the"
                " program seems to begin anew"
            )
            self._begins_anew = True
            self._add_note(text)
            run.event("not-opened", attempt=self.number, path=began.path, saved=saved.path)
            notices.notify(run, text)

    def _note_anew(self, is_anew: bool) -> None:
        """Note for the copies whether nothing has opened a checkpoint so far."""
        noted = self.run.folder.json(ATTEMPT)
        if noted.get("anew") != is_anew:
            self.run.folder.overwrite(ATTEMPT, json.dumps({**noted, "anew": is_anew}) + "\n")

    def _add_note(self, text: str) -> None:
        self.state.note = "; ".join(filter(None, [self.state.note, text]))
        self.run.log(text)

    def _tell_silence(self, signs: Signs) -> None:
        """Tell once of a program whose log stays empty although it saves."""
        began = self._facts.checkpoint
        if self._is_silence_told or not signs.checkpoint or signs.checkpoint == began:
            return
        self._is_silence_told = True
        if not log.tail(self.run, self._facts.log_first, 1):
            self._add_note(
                "nothing came on the program's standard output or error: no step, no loss and no"
                " traceback can be read. Let it print there, unbuffered and not to a file of its"
                " own (`| tee` keeps both)"
            )


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
