"""Attempts: start the program, watch it, judge its end, and decide whether to try again."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from . import (
    checkpoints,
    collectors,
    containers,
    early_end,
    failures,
    launchers,
    log,
    memory,
    notices,
    opened,
    probing,
    procs,
    results,
    saving,
    setting_up,
    stacks,
    stall,
    stopping,
    why,
)
from .context import Run
from .copies.records import has_copied
from .heart import Heart
from .lingering import Lingering
from .program import Program, with_arguments, words_of
from .scene import keeping, members
from .state import State
from .why import Verdict

FAILED = 8.0  # seconds for what is still there after a failure
PATIENCE = 60.0  # seconds from a first save in which a program may still open a checkpoint


class Original(NamedTuple):
    """The first failure of a chain of attempts that came no further."""

    verdict: Verdict
    exit: int | None
    checkpoint: str
    step: int | None


class Attempts:
    """All attempts of one start. `run` leaves class, entry and reason in the state."""

    def __init__(self, heart: Heart, extra: list[str] | None = None):
        self.heart, self.run, self.state = heart, heart.run, heart.state
        self.extra = list(extra or [])
        self.program = Program(self.run)
        self._probe = probing.FirstSteps(self.run, self.state)
        self._used: dict[str, int] = {}
        self._best: int | None = None  # the furthest step at which an attempt has saved or failed
        self._begins_anew = False  # this attempt went on from nothing
        self._failed = 0  # attempts that failed after they had trained
        self._tries: list[float] = []
        self._original: Original | None = None
        self._short_at: int | None = -1
        self._began: checkpoints.Checkpoint | None = None
        self._attempt = why.Attempt(
            0, None, "", "", 0, None, memory.note_kills(self.run), [], set(), ""
        )
        self._stalled = ""
        self._opened: opened.Opened | None = None
        self._first_save, self._first_at = "", 0.0
        self._linger: Lingering | None = None
        self._told_lingering = self._is_silence_told = False
        self.owed: list[str] = []

    def go(self, adopt: bool = False) -> Verdict:
        """Try until the program is done, asked to end, or not to be tried again."""
        while True:
            try:
                verdict = self._one(adopt)
            except checkpoints.Lost as lost:
                return Verdict("disk" if lost.entry == "U6" else "bug", lost.entry, str(lost))
            adopt = False
            if not verdict.failure:
                self.run.folder.remove("last-failure")
                return verdict
            if self.run.asked:
                return self._with_original(verdict)
            again, verdict = self._again(verdict)
            if not again:
                return self._with_original(verdict)

    def _one(self, adopt: bool) -> Verdict:
        """Run one attempt, or go on with the one that a killed runner left; return its verdict."""
        run, state, heart = self.run, self.state, self.heart
        self._stalled, self.owed = "", []
        state.stalled = False
        if not (adopt and self._adopt()):
            self._start()
        self._watch()
        state.exit = self._attempt.code = self.program.code
        if state.exit and not run.asked and not self._stalled:
            keeping.take(run, "failure", FAILED)
        if self.program.end():
            run.event("killed-leftovers")
        self._probe.look(at_the_end=True)
        heart.end_log()
        self._tell_anew(at_the_end=True)
        newest = checkpoints.newest(run)
        if state.step is None and newest is not None:
            state.step = newest.step  # a log that was lost tells none
        if newest is not None:
            state.checkpoint = newest.path
            heart.note_save(newest)
        found = results.look(run)
        state.missing = found.missing
        self._attempt.step, self._attempt.stalled = state.step, self._stalled
        self._attempt.asked = run.asked
        verdict = self._judge(found)
        run.event(
            "ended",
            attempt=state.attempt,
            exit=state.exit,
            **{"class": verdict.failure},
            entry=verdict.entry,
            reason=verdict.reason,
            step=state.step,
        )
        state.failure, state.entry, state.reason = verdict
        if verdict.failure:
            entry = f" ({verdict.entry})" if verdict.entry else ""
            shown = "unknown" if state.step is None else state.step
            run.log(
                f"ended: {verdict.failure}{entry}: {verdict.reason}, "
                f"exit {state.exit}, step {shown}"
            )
        return verdict

    def _start(self) -> None:
        run, state = self.run, self.state
        state.attempt = int(run.folder.number("attempt") or 0) + 1
        run.folder.write("attempt", f"{state.attempt}\n")
        run.folder.remove(members.ROLL, why.WAITS)
        state.failure = state.entry = state.reason = state.again = ""
        state.exit, state.is_nan, state.before_nan, state.cost = None, False, "", ""
        self._began = checkpoints.begin_with(run, self.heart.beat)
        path = self._began.path if self._began else ""
        if state.attempt == 1:
            results.trust_later(run, self._began)
        state.note = checkpoints.skipped(run)
        goes_on = path and run.spec.resume != "none"
        # Where the nodes share a folder, the first one reads it for all.
        self._opened = opened.Opened(run, path) if goes_on and run.rank == 0 else None
        self._first_save, self._first_at = "", 0.0
        self._begins_anew = not goes_on
        extra = [*self.extra, *checkpoints.resume_words(run, self._began)]
        words = launchers.wrap(run, with_arguments(words_of(run.spec.command), extra))
        self._note(log.next_number(run), self._began.id if self._began else "")
        # By this a runner that comes back adopts the attempt.
        told = {
            "attempt": state.attempt,
            "log_first": self._attempt.log_first,
            "checkpoint": self._attempt.checkpoint,
            # Until something opens a checkpoint; its copies get a line of their own meanwhile.
            "anew": not goes_on or self._opened is not None and self._opened.found() is False,
        }
        run.folder.write("attempt.json", json.dumps(told) + "\n")
        self.program.start(
            words,
            state.attempt,
            path,
            checkpoints.resume_variables(run, self._began),
            self._probe.begin(),
        )
        run.event("attempt", attempt=state.attempt, resume=path, log=self._attempt.log_first)
        run.log(f"attempt {state.attempt}" + (f" from {path}" if path else ""))
        state.move("again" if state.phase == "running" else "ready")

    def _adopt(self) -> bool:
        """Take over the attempt of the runner before this one; False where its program is gone
        and left no code."""
        run, state = self.run, self.state
        told = run.folder.json("attempt.json")
        number, first = _whole(told.get("attempt")), _whole(told.get("log_first"))
        if not number or number != int(run.folder.number("attempt") or 0):
            return False
        if not self.program.adopt(number, first):
            self.program.number, self.program.first = number, first
            if self.program.code is None and not procs.of_program(run.folder):
                return False
        state.attempt = number
        self._note(first, str(told.get("checkpoint") or ""))
        run.event("adopted", attempt=number, alive=self.program.alive())
        run.log(f"attempt {number} goes on: its runner was gone")
        if state.phase != "running":
            state.move("program found alive")
        return True

    def _tell_anew(self, at_the_end: bool = False) -> None:
        """Tell where an attempt has saved, and nothing had opened what it was to go on from."""
        run, state, watch, began = self.run, self.state, self._opened, self._began
        if watch is None or began is None:
            return
        found = watch.found()
        self._note_anew(found is False)
        saved = None if found else checkpoints.saved_since(run, watch.newest, look=at_the_end)
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
            told = (
                f"attempt {state.attempt} was to go on from {began.path}; nothing had opened that"
                f" or another checkpoint there when it saved {os.path.basename(saved.path)}: the"
                " program seems to begin anew"
            )
            self._begins_anew = True
            self._add_note(told)
            run.event("not-opened", attempt=state.attempt, path=began.path, saved=saved.path)
            notices.notify(run, told)

    def _note_anew(self, is_anew: bool) -> None:
        """Note for the copies whether nothing has opened a checkpoint so far."""
        noted = self.run.folder.json("attempt.json")
        if noted.get("anew") != is_anew:
            self.run.folder.write("attempt.json", json.dumps({**noted, "anew": is_anew}) + "\n")

    def _add_note(self, text: str) -> None:
        self.state.note = "; ".join(filter(None, [self.state.note, text]))
        self.run.log(text)

    def _note(self, first: int, held: str) -> None:
        """Take down what an end is compared with. `held`: the checkpoint that it began with."""
        run, state = self.run, self.state
        self.heart.begin_attempt(first, state.attempt > 1 or bool(held))
        self._attempt = why.Attempt(
            state.attempt,
            None,
            "",
            "",
            first,
            None,
            memory.note_kills(run),
            collectors.xids(),
            set(),
            held,
        )

    def _watch(self) -> None:
        """Serve requests and stalls until nothing of the program trains any more."""
        run, state, heart, timings = self.run, self.state, self.heart, self.run.spec.timings
        watch, asking = stall.Watch(run), stopping.Asking(run, self.program)
        look_at = run.up
        while self._goes_on():
            run.clock.nap(timings.tick)
            heart.beat()
            is_time = run.up >= look_at
            if is_time:
                look_at = run.up + timings.heartbeat
                pids = self.program.pids()
                self._attempt.pids |= pids
                members.note(run.folder, pids)
                self._probe.look()
                self._tell_anew()
            if run.asked:
                if heart.has_lost_lease:
                    self.program.end()
                    return
                if asking.begun is None:
                    self.owed = results.owed(run)
                    if state.phase == "running":
                        state.move("asked")
                asking.step(run.asked, heart.saves.seconds())
            elif is_time and self._is_stalled(watch, pids):
                return
            elif heart.nan and run.spec.on_nan == "stop":
                procs.kill_program(run.folder)
                break
        if asking.begun is not None:
            asking.over()
            if asking.asked_at is not None and asking.has_saved():
                heart.saves.note_save(asking.asked_at, run.up)
            self._note_cost(asking)
        self.program.wait_for_code()

    def _note_cost(self, asking: stopping.Asking) -> None:
        """Note what an end cost where the program didn't save when it was asked."""
        run, state = self.run, self.state
        if run.rank or not run.checkpoints or asking.has_saved():
            return
        self.heart.look_at_log()
        newest = checkpoints.newest(run)
        if newest is not None:
            self.heart.note_save(newest)
        told = stopping.tell_cost(newest.path if newest else "", state.checkpoint_step, state.step)
        if self.program.code == 0 and not results.look(run).missing and run.spec.results:
            return  # it came to its end
        state.cost = told
        run.log(told)

    def _goes_on(self) -> bool:
        """Return whether the program, or what it left in the background, still trains."""
        if self.program.alive():
            self._linger = None
            if not procs.alive(self.run.folder, "holder"):
                self.program.look_after_log()
            return True
        if self.program.wait_for_code(1.0) == 137:
            return False
        if self._linger is None:
            self._linger = Lingering(self.run, self.run.spec.timings.leftover, self._step_now)
        trains = self._linger.trains()
        if self._linger.told and not self._told_lingering:
            self._told_lingering = True
            self.run.event("background", processes=len(self._linger.told))
            self.run.log("the command has ended, and processes that it left behind train on")
        return trains

    def _step_now(self) -> int | None:
        """Return the newest step of the log as it is now, and not at the last heartbeat."""
        self.heart.look_at_log()
        return self.state.step

    def _is_stalled(self, watch: stall.Watch, pids: set[int]) -> bool:
        run, heart, state = self.run, self.heart, self.state
        newest = checkpoints.latest(run)
        signs = stall.Signs(
            heart.log_grew,
            state.step,
            newest.id if newest else "",
            saving.stamp_output(run, pids),
            procs.cpu_seconds(pids),
            heart.collectors.busy,
            heart.collectors.hot,
        )
        reason = watch.look(signs)
        heart.log_grew = False
        self._tell_silence(signs)
        if not reason:
            return False
        self._stalled, self.state.stalled = reason, True
        run.event("stall", reason=reason)
        run.log(f"stalled: {reason}")
        self.state.write()
        keeping.take(run, "stall")
        stacks.take(run, self.program.pid, self.state.attempt)
        procs.kill_program(run.folder)
        self.program.wait_for_code()
        return True

    def _tell_silence(self, signs: stall.Signs) -> None:
        """Tell once of a program whose log stays empty although it saves."""
        began = self._attempt.checkpoint
        if self._is_silence_told or not signs.checkpoint or signs.checkpoint == began:
            return
        self._is_silence_told = True
        if not log.tail(self.run, self._attempt.log_first, 1):
            self._add_note(
                "nothing came on the program's standard output or error: no step, no loss and no"
                " traceback can be read. Let it print there, unbuffered and not to a file of its"
                " own (`| tee` keeps both)"
            )

    def _judge(self, found: results.Found) -> Verdict:
        """Return what the attempt came to."""
        run, state = self.run, self.state
        came = not found.missing and bool(self.owed)
        if state.exit == 0 and not found.missing and (torn := results.torn(run)):
            return Verdict("bug", "", f"the program ended, but a result is broken: {torn[0]}")
        if state.exit == 0 and not self._stalled and (not run.asked or came):
            if not self.heart.has_lost_lease:
                run.asked = ""
            verdict = self._judge_end(found)
        elif not run.asked and (told := self._never_started()):
            return Verdict("setup", "", told)
        else:
            verdict = why.classify(run, self._attempt)
        if self.heart.nan:
            if run.spec.on_nan == "stop" and not run.asked:
                return Verdict("nan", "", self.heart.nan)
            if self.heart.nan not in verdict.reason:
                reason = "; ".join(filter(None, (verdict.reason, self.heart.nan)))
                return verdict._replace(reason=reason)
        return verdict

    def _never_started(self) -> str:
        """Return what failed before the program itself, '' where that was started."""
        line = setting_up.failure(self.run.folder, self.run.spec.setup)
        return line or containers.failure(self.run, self.state.exit)

    def _judge_end(self, found: results.Found) -> Verdict:
        state = self.state
        gained = _id(self.run) != self._attempt.checkpoint
        again = self._short_at == state.step
        verdict = early_end.judge(
            self.run, self._attempt, found.missing, found.stale, gained, again
        )
        if verdict.failure == "killed":
            self._short_at = state.step
        if not verdict.failure:
            course = self.heart.series.course
            total = course.total if course.step == state.step else None
            told = early_end.last_words(self.run, self._attempt)
            told = told or early_end.tell_short(self.run, self._attempt, total)
            return verdict._replace(reason=told) if told else verdict
        return verdict

    def _again(self, verdict: Verdict) -> tuple[bool, Verdict]:
        """Return whether another attempt follows, once its wait is over, and the verdict."""
        run, state = self.run, self.state
        if checkpoints.doubt(run, self._began, self._attempt):
            return True, verdict
        self._note_original(verdict)
        newest = _id(run)
        has_newer = bool(newest) and newest != self._attempt.checkpoint
        reach = _reach(state, has_newer)
        is_beyond = is_further(self._best, reach, self._begins_anew)
        has_saved = has_newer or has_copied(run, state.attempt)
        came_further = has_saved and is_beyond
        best, self._best = self._best, max(self._best or 0, reach or 0)
        if came_further:  # progress gives retries back
            self._used = {}
        now = f"{verdict.failure} {'none' if state.step is None else state.step} {newest}"
        peer = verdict.failure == "network" and run.spec.nodes > 1  # the other node's failure
        if verdict.failure != "preempted" and not peer:
            before = run.folder.read("last-failure").rstrip("\n")
            run.folder.write("last-failure", now + "\n")
            if now == before:
                run.folder.touch(".same-failure")
                state.again = failures.TWICE
                more = "; the same failure at the same step twice, with no newer checkpoint between"
                return False, verdict._replace(reason=verdict.reason + more)
        is_again = verdict.failure != "preempted" and self._failed and not is_beyond
        # Before its first step a program loses nothing by another try.
        if is_again and self._begins_anew and reach:
            state.again = failures.ANEW
            more = "; it begins anew at each attempt, and failed again"
            more += f" before it was further than step {best}" if best else ""
            return False, verdict._replace(reason=verdict.reason + more)
        self._failed += verdict.failure != "preempted" and bool(reach)
        refused = self._may_not_retry(verdict.failure, came_further)
        if refused is not None:
            return False, verdict._replace(reason=verdict.reason + refused)
        return self._wait(verdict)

    def _wait(self, verdict: Verdict) -> tuple[bool, Verdict]:
        """Wait before another attempt, on a full disk for room; return as `_again` does."""
        run = self.run
        wait = 0.0 if verdict.failure == "preempted" else run.spec.timings.retry_wait
        if verdict.failure == "network":
            wait = min(wait * 4 * self._used["network"], 300)
        run.event("retry", **{"class": verdict.failure}, after=wait)
        begin = run.up
        until, look_until = begin + wait, begin + run.spec.timings.room_wait
        is_full = verdict.failure == "disk"
        if is_full and run.up < look_until and (full := why.full_folder(run)):
            run.folder.stamp(why.WAITS, run.now)
            minutes = f"{run.spec.timings.room_wait / 60:g} minutes"
            told = f"no room left in {full}: waiting up to {minutes} for room, then trying again"
            run.log(told)
            notices.notify(run, f"{told}; remove something there")
        try:
            while run.up < until or (is_full and run.up < look_until and why.full_folder(run)):
                run.clock.nap(run.spec.timings.tick)
                if self.heart.beat():
                    self._attempt.asked = run.asked
                    return False, why.classify(run, self._attempt)
        finally:
            run.folder.remove(why.WAITS)
        return True, verdict

    def _may_not_retry(self, failure: str, came_further: bool) -> str | None:
        """Return None for another try, else what the reason says of why there is none."""
        most, hourly = why.retries(self.run, failure), self.run.spec.timings.tries_an_hour
        if came_further and failure in failures.MAY_PASS and failure not in self.run.spec.retries:
            most = 1
        if failure == "bug" and self.state.exit == 0:
            most = 0  # an end that came too early was tried again as one that was killed
        self._tries.append(self.run.up)
        if sum(self.run.up - at < 3600 for at in self._tries) > hourly:
            self.state.again = failures.USED_UP
            return f"; {hourly} tries within an hour"
        self._used[failure] = self._used.get(failure, 0) + 1
        if self._used[failure] > most:
            self.state.again = failures.USED_UP if most else ""
            return f"; {most} retries are used up" if most else ""
        return None

    def _note_original(self, verdict: Verdict) -> None:
        if verdict.failure == "preempted" or self.state.exit == 0:
            return
        newest, step = _id(self.run), self.state.step
        first = self._original
        if first and (step or 0) <= (first.step or 0) and newest == first.checkpoint:
            return
        self._original = Original(verdict, self.state.exit, newest, step)

    def _with_original(self, verdict: Verdict) -> Verdict:
        """A retry that fails in another way must not hide why the run failed at first."""
        first = self._original
        if not first or verdict.failure in ("", "preempted", "deadline", first.verdict.failure):
            return verdict
        entry = f" ({verdict.entry})" if verdict.entry else ""
        self.state.exit = first.exit
        reason = f"{first.verdict.reason}; then {verdict.failure}{entry}: {verdict.reason}"
        return first.verdict._replace(reason=reason)


def _id(run: Run) -> str:
    found = checkpoints.newest(run)
    return found.id if found else ""


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _reach(state: State, has_newer: bool) -> int | None:
    """Return how far an attempt came: to the step of its last checkpoint, else of its log."""
    return state.checkpoint_step if has_newer and state.checkpoint_step else state.step


def is_further(best: int | None, reach: int | None, begins_anew: bool) -> bool:
    """Return whether an attempt that saved came further than all before it. Pure.

    Where no step is known, a newer checkpoint shows it, unless the program began anew.
    """
    if best is None:
        return True
    if reach is None or not best:
        return not begins_anew
    return reach > best
