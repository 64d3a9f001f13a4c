"""Faults that are put into the core on purpose: each has to be found by an invariant.

The names were written down before the invariants that find them. `origin`: `sketch`, of the first
prototype; `bench`, found in the runner by the bench or the torture; `own`, from reading the promises.
Those that change an edge of the simulation, and no decision, are marked: they show that the
invariants don't take the edges' word for anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

from remote_gpu_trainer.runner.completeness import COMPLETE, CORRUPT, UNKNOWN
from remote_gpu_trainer.runner.copies import plan
from remote_gpu_trainer.runner.core import (
    attempts,
    box,
    copying,
    decide,
    resume,
    stall,
    stop,
    supervise,
)
from remote_gpu_trainer.runner.core.model import (
    CutCopy,
    EndBox,
    Kill,
    Quarantine,
    Signal,
    Start,
    Tell,
    Verdict,
)

from . import edges, night


class Planted(NamedTuple):
    """A fault. `why`: what it would do to somebody, in a line. `plant`: puts it in."""

    name: str
    origin: str
    why: str
    plant: Callable[[], None]


ALL: list[Planted] = []


def fault(origin: str, why: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Add a fault to ALL, under the name of the function that plants it."""

    def add(plant: Callable[[], None]) -> Callable[[], None]:
        ALL.append(Planted(plant.__name__.replace("_", "-"), origin, why, plant))
        return plant

    return add


_undo: list[Callable[[], None]] = []


@contextmanager
def put_in(name: str) -> Iterator[None]:
    """Put the fault of this name into the core, for a while."""
    try:
        next(one for one in ALL if one.name == name).plant()
        yield
    finally:
        while _undo:
            _undo.pop()()


def _change(module: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replace a function by what `make` makes of it."""
    before = getattr(module, name)
    setattr(module, name, make(before))
    _undo.append(lambda: setattr(module, name, before))


def _see(change: Callable[[Any, Any], Any]) -> None:
    """Let the core see something else. `change`: gets the state and what is seen."""
    _change(
        decide,
        "decide",
        lambda core: lambda job, state, seen, now: core(job, state, change(state, seen), now),
    )


def _answer(change: Callable[[Any, Any, Any, list, float, float], Any]) -> None:
    """Change what the core answers. `change`: gets job, state, seen, actions, wake and now."""

    def make(core: Any) -> Any:
        def decided(job: Any, state: Any, seen: Any, now: float) -> Any:
            after, actions, wake = core(job, state, seen, now)
            return change(SimpleNamespace(job=job, seen=seen), after, state, actions, wake, now)

        return decided

    _change(decide, "decide", make)


def _drop(kind: type, *keys: str) -> None:
    """Let actions of a kind never be asked for."""

    def make(function: Any) -> Any:
        def decided(*words: Any) -> Any:
            after, actions, last = function(*words)
            left = [o for o in actions if not (isinstance(o, kind) and (not keys or o.key in keys))]
            return after, left, last

        return decided

    _change(decide, "decide", make)
    _change(supervise, "supervise", make)


def _add(make: Callable[[Any, Any, Any], Any]) -> None:
    """Let further actions be asked for. `make`: gets what is seen, the state after and before."""

    def change(about: Any, after: Any, before: Any, actions: list, wake: float, now: float) -> Any:
        return after, [*actions, *make(about.seen, after, before)], wake

    _answer(change)


# Of the first prototype.


@fault("sketch", "the newest checkpoint is copied and counts as complete, whatever its bytes prove")
def copies_what_is_newest() -> None:
    def make(function: Any) -> Any:
        return lambda self, file: COMPLETE

    _change(edges.Edges, "state_of", make)  # an edge


@fault("sketch", "to make room, the newest complete generation goes")
def drops_the_newer_generation() -> None:
    def make(function: Any) -> Any:
        def superseded(here: Any, there: Any, job: Any) -> Any:
            whole = [one for one in there if one.state == COMPLETE]
            return [max(whole, key=plan.age_of)] if len(whole) > 1 else []

        return superseded

    _change(plan, "_superseded", make)


@fault("sketch", "the box is ended while the last copy is still owed")
def ends_before_the_copy() -> None:
    _change(box, "choose_end", lambda _: lambda job, is_safe, late: box.RUN)


@fault("sketch", "a program that ignores TERM is waited for without end")
def never_kills() -> None:
    _drop(Kill)


@fault("sketch", "nobody hears that the end command failed")
def silent_failed_end() -> None:
    _drop(Tell, "failed")


@fault("sketch", "an end command that failed is not tried again")
def ends_once() -> None:
    def make(function: Any) -> Any:
        def supervised(*words: Any) -> Any:
            after, actions, is_over = function(*words)
            is_first = after.leaving.box.number <= 1
            left = [o for o in actions if is_first or not isinstance(o, EndBox)]
            return after, left, is_over

        return supervised

    _change(supervise, "supervise", make)


@fault("sketch", "at the deadline a store that is away is waited for")
def waits_for_the_store() -> None:
    def make(function: Any) -> Any:
        def finish(job: Any, copies: Any, last: Any, seen: Any, now: float) -> Any:
            found = function(job, copies, last, seen._replace(left=1e9, asked=""), now)
            return (*found[:3], found[3] or None)

        return finish

    _change(copying, "finish", make)


@fault("sketch", "a start takes nothing, or what is corrupt, although the durable place has better")
def resumes_from_the_older() -> None:
    _change(resume, "wants_fetch", lambda _: lambda job, folder: False)


@fault("sketch", "a file that is being written is copied because a reader calls it complete")
def copies_an_unstable_file() -> None:
    _change(plan, "rests", lambda _: lambda one, there: True)
    _change(edges.Edges, "stamp_of", lambda _: lambda self, file: str(file.name))


@fault("sketch", "the program trains on after a notice of preemption")
def ignores_the_notice() -> None:
    def make(function: Any) -> Any:
        def supervised(job: Any, state: Any, runner: Any, end: Any, seen: Any, now: float) -> Any:
            return function(job, state, runner, end, seen._replace(notice=""), now)

        return supervised

    _see(lambda state, seen: seen._replace(notice=""))
    _change(supervise, "supervise", make)


@fault("sketch", "a program that crashes at once is started for ever")
def restarts_without_end() -> None:
    def make(function: Any) -> Any:
        def after_exit(job: Any, tries: Any, verdict: Any, ended: Any, asked: str, now: float):
            found = function(job, tries, verdict, ended, asked, now)
            is_over = isinstance(found[1], attempts.Over)
            if is_over and verdict.failure and not asked:
                return found[0], attempts.Again(5.0, 0.0)
            return found

        return after_exit

    _change(attempts, "after_exit", make)


@fault("sketch", "a file that was written anew under its name while it was copied is committed")
def identity_is_the_name() -> None:
    _change(edges.Edges, "stamp_of", lambda _: lambda self, file: file.name)  # an edge


# Found in the runner by the bench and the torture.


@fault("bench", "files of two saves, each complete, are called one complete checkpoint")
def mixed_counts_as_complete() -> None:
    _change(plan, "is_mixed", lambda _: lambda one, there: False)


@fault("bench", "a finished run is called done before its last copy")
def ends_with_nothing_copied() -> None:
    def make(function: Any) -> Any:
        return lambda job, copies, last, seen, now: (copies, last, [], True)

    _change(copying, "finish", make)


@fault(
    "bench", "a program trained and no checkpoint was ever seen: the empty folder counts as safe"
)
def empty_folder_proves() -> None:
    _change(edges.Edges, "_unseen", lambda _: lambda self, is_missing: "")  # an edge


@fault("bench", "a generation that turned out to be damaged is brought back all the same")
def damaged_generation_counts() -> None:
    def make(function: Any) -> Any:
        def take(self: Any) -> Any:
            damaged = [one for one in self.world.generations.values() if one.is_damaged]
            for one in damaged:
                one.is_damaged = False
            function(self)
            for one in damaged:
                one.is_damaged = True

        return take

    _change(edges.Edges, "_take_fetched", make)  # an edge


@fault("bench", "a line that began at 0 again is resumed from although the one before came farther")
def lower_line_resumes() -> None:
    _change(
        plan,
        "_best",
        lambda _: lambda of_kind: max(of_kind, key=lambda one: (one.line, plan.age_of(one))),
    )


@fault("bench", "a line that began at 0 again displaces the best one before it has passed it")
def new_line_drops_the_best() -> None:
    _change(plan, "_is_as_far", lambda _: lambda newer, one: True)
    _change(
        plan,
        "_best",
        lambda _: lambda of_kind: max(of_kind, key=lambda one: (one.line, plan.age_of(one))),
    )


@fault("bench", "an attempt whose checkpoint is at the durable place alone counts as fruitless")
def progress_on_the_box_alone() -> None:
    def make(function: Any) -> Any:
        return lambda job, tries, verdict, ended, asked, now: function(
            job, tries, verdict, ended._replace(has_copied=False, has_saved=False), asked, now
        )

    _change(attempts, "after_exit", make)


@fault("bench", "what already lies at the durable place is copied again and again")
def copies_the_same_again() -> None:
    _change(plan, "_has", lambda _: lambda there, one: False)


@fault("bench", "nothing is copied while the program lives, however long it trains")
def busy_saver_starves_copies() -> None:
    _change(plan, "rests", lambda _: lambda one, there: False)


@fault("bench", "a full durable place is told to nobody")
def no_word_of_a_full_place() -> None:
    _drop(Tell, "copy")


@fault("bench", "an end asked for in the middle of a save doesn't wait for it")
def kills_inside_a_save() -> None:
    _change(stop, "may_wait", lambda _: lambda *words: False)


@fault("bench", "a corrupt checkpoint stays where the program finds it at its next start")
def corrupt_stays_in_place() -> None:
    _drop(Quarantine)


@fault("bench", "a durable place that can't be reached counts as one that holds nothing")
def away_is_empty() -> None:
    _see(lambda state, seen: seen._replace(fetch=Verdict()))


@fault("bench", "a supervisor that comes back remembers nothing and starts a second program")
def restart_forgets_everything() -> None:
    def make(function: Any) -> Any:
        def die(self: Any) -> None:
            function(self)
            self.state = decide.State()

        return die

    _change(night.Play, "die", make)  # an edge


@fault("bench", "a complete checkpoint waits for hours before its copy begins")
def copies_late() -> None:
    _change(
        copying,
        "_wait_between",
        lambda function: lambda job, copies: 40 * function(job, copies) + 3600.0,
    )


@fault("bench", "one kill ends a run that had saved")
def one_kill_ends_the_run() -> None:
    _change(attempts, "_most_retries", lambda _: lambda job, failure, code, came_further: 0)


@fault("bench", "the copies that an end still owes are never made")
def forgets_owed_copies() -> None:
    _change(copying, "pay_owed", lambda _: lambda copies, owed, *rest: (copies, owed, []))


@fault("bench", "an attempt that begins at 0 writes over the only complete checkpoint or result")
def writes_over_the_only_one() -> None:
    _see(lambda state, seen: seen._replace(unheld=()))


@fault("bench", "an attempt that falls due during a look begins without a checkpoint")
def decides_by_a_later_time() -> None:
    _change(night.Play, "time_of_decision", lambda _: lambda self: self.world.now)  # an edge


@fault("bench", "what is held on the box goes with it, for its copy is never made")
def forgets_what_is_held() -> None:
    _change(edges.Edges, "_held_here", lambda _: lambda self: [])


# From reading the promises.


@fault("own", "a second program is started beside the first")
def starts_two() -> None:
    _add(
        lambda seen, after, before: (
            [Start(after.attempt, "")]
            if after.phase == "running" and seen.is_alive and after.attempt > 1
            else []
        )
    )


@fault("own", "an attempt begins although somebody asked to stop")
def starts_after_stop() -> None:
    _see(lambda state, seen: seen if seen.is_alive else seen._replace(asked="", notice=""))


@fault("own", "a retry begins after the deadline")
def starts_after_the_deadline() -> None:
    _see(
        lambda state, seen: (
            seen if seen.is_alive or state.phase != "running" else seen._replace(left=1e9)
        )
    )


@fault("own", "the run is over, and the end command is never asked for")
def never_ends_the_box() -> None:
    _drop(EndBox)


@fault("own", "the end command runs while the program is alive")
def ends_while_it_trains() -> None:
    _add(
        lambda seen, after, before: (
            [EndBox(99, "run", "deadline")] if after.phase == "saving" and seen.is_alive else []
        )
    )


@fault("own", "the second crash of a program that makes progress ends the run")
def counts_every_failure() -> None:
    _change(attempts, "is_further", lambda _: lambda best, reach, is_anew: False)


@fault("own", "a program that crashed is never started again")
def forgets_to_retry() -> None:
    def change(about: Any, after: Any, before: Any, actions: list, wake: float, now: float) -> Any:
        is_new = after.retry_at != before.retry_at
        return (after._replace(retry_at=1e12) if is_new else after), actions, wake

    _answer(change)


@fault("own", "the core sleeps over the deadline")
def wakes_too_late() -> None:
    _change(decide, "_wake_at", lambda _: lambda job, state, seen, now: now + 600.0)


@fault("own", "the core asks to be woken at once, for ever")
def busy_loop() -> None:
    _change(decide, "_wake_at", lambda _: lambda job, state, seen, now: now)


@fault("own", "the end command is tried again without a pause")
def no_wait_between_tries() -> None:
    _change(box, "_put_off", lambda _: lambda one, now: one._replace(next_at=now))


@fault("own", "nothing is copied before the end")
def never_copies_on_the_way() -> None:
    _change(copying, "wants_round", lambda _: lambda job, copies, seen, now: False)


@fault("own", "a copy that hangs is never ended")
def leaves_a_hung_copy() -> None:
    _drop(CutCopy)


@fault("own", "a copy that failed counts as verified, and the run is called done")
def failed_copy_counts() -> None:
    def make(function: Any) -> Any:
        def finish(*words: Any) -> Any:
            found = function(*words)
            return (*found[:3], True if found[3] is False else found[3])

        return finish

    _change(copying, "finish", make)


@fault("own", "one message is sent at each look")
def tells_at_every_look() -> None:
    def make(function: Any) -> Any:
        return lambda job, one, tell, again, now: (one, [tell])

    _change(box, "_tell", make)


@fault("own", "the complete checkpoint is moved away with the corrupt one")
def quarantines_the_complete() -> None:
    def make(function: Any) -> Any:
        def choose(job: Any, folder: Any, *words: Any) -> Any:
            found = function(job, folder, *words)
            if isinstance(found, resume.Begin) and found.quarantined:
                return found._replace(quarantined=(*found.quarantined, found.source))
            return found

        return choose

    _change(resume, "choose_source", make)


@fault("own", "a corrupt checkpoint is given to the program")
def resumes_from_the_corrupt() -> None:
    def make(function: Any) -> Any:
        def choose(job: Any, folder: Any, *words: Any) -> Any:
            found = function(job, folder, *words)
            if isinstance(found, resume.Begin) and folder.corrupt:
                return found._replace(source=folder.corrupt[0].path, quarantined=())
            return found

        return choose

    _change(resume, "choose_source", make)


@fault("own", "the deadline stops nothing")
def ignores_the_deadline() -> None:
    _see(lambda state, seen: seen._replace(left=1e9))


@fault("own", "the signal is sent at each look, which ends a save of the program's own handler")
def signals_again_and_again() -> None:
    _add(
        lambda seen, after, before: (
            [Signal(after.asked)]
            if after.phase == "saving"
            and seen.is_alive
            and before.watching.request.signalled is not None
            else []
        )
    )


@fault("own", "a program that stands still is left so until the deadline")
def sees_no_stall() -> None:
    _change(stall, "_find_stall", lambda _: lambda job, watch, signs, least, now: "")


@fault("own", "a program that prints rarely is killed for it")
def sees_stalls_everywhere() -> None:
    def make(function: Any) -> Any:
        return lambda job, watch, signs, least, now: "silent" if now - watch.saved_at > 3600 else ""

    _change(stall, "_find_stall", make)


@fault("own", "a loss of nan ends a program whose job says to go on")
def nan_always_ends() -> None:
    _add(
        lambda seen, after, before: (
            [Kill("nan", "the loss is nan")]
            if after.phase == "running" and seen.is_alive and seen.nan
            else []
        )
    )


@fault("own", "what can't be proven displaces what is complete")
def unknown_displaces_complete() -> None:
    _change(plan, "_is_as_far", lambda _: lambda newer, one: True)
    _change(
        plan,
        "_superseded",
        lambda _: lambda here, there, job: sorted(there, key=plan.age_of)[:-1],
    )


@fault("own", "only the newest generation is kept, while the next one may be cut")
def keeps_one_before_the_copy() -> None:
    def make(function: Any) -> Any:
        def planned(here: Any, there: Any, job: Any) -> Any:
            actions = function(here, there, job)
            if any(isinstance(one, plan.Copy) for one in actions):
                actions = [plan.Drop(one.name) for one in there] + actions
            return actions

        return planned

    _change(plan, "plan", make)


@fault("own", "a run whose program failed is called done")
def failure_is_done() -> None:
    def make(function: Any) -> Any:
        def end(state: Any, verdict: Any) -> Any:
            if verdict.failure in ("bug", "unknown", "killed"):
                verdict = Verdict()
            return function(state, verdict)

        return end

    _change(decide, "_end", make)


@fault("own", "the limit for a proof doesn't count, and the box stays on without a word")
def no_word_of_an_unproven_box() -> None:
    _drop(Tell, "unsaved", "late", "billed", "end")


@fault("own", "each job is taken to have agreed that what is unsaved is lost")
def all_agreed_to_lose() -> None:
    def make(function: Any) -> Any:
        def choose_end(job: Any, is_safe: bool, late: float) -> str:
            return box.RUN if late >= 0 else function(job, is_safe, late)

        return choose_end

    _change(box, "choose_end", make)


@fault("own", "two rounds of copies work beside each other")
def copies_beside_a_copy() -> None:
    def make(function: Any) -> Any:
        return lambda job, copies, seen, now: seen.is_changed and copying.is_due(job, copies, now)

    _change(copying, "wants_round", make)


@fault("own", "a checkpoint that no reader can judge is brought back over a complete one")
def unknown_before_complete() -> None:
    def make(function: Any) -> Any:
        def newest(there: Any) -> Any:
            return function(
                [
                    one._replace(
                        state={COMPLETE: UNKNOWN, UNKNOWN: COMPLETE}.get(one.state, CORRUPT)
                    )
                    for one in there
                ]
            )

        return newest

    _change(plan, "newest", make)


def _end_as(change: Callable[[Any], Any]) -> None:
    """Let the box be ended as after another end. `change`: gets how the run ended."""

    def make(function: Any) -> Any:
        return lambda job, one, end, *words: function(job, one, change(end), *words)

    _change(supervise, "end_box", make)


@fault("own", "the box of a start that was refused is ended while its user mends it")
def refused_is_failed() -> None:
    _end_as(lambda end: end._replace(is_refused=False))


@fault("own", "a run whose data didn't come counts as refused: its box stays on without a word")
def unstaged_is_refused() -> None:
    _end_as(lambda end: end._replace(is_refused=end.name == "failed"))
    _drop(Tell, "end")


@fault("own", "a runner that ended without a marker is never raised")
def never_raises() -> None:
    _change(supervise, "watch_runner", lambda _: lambda job, raises, seen, now: (raises, ""))


@fault("own", "nobody hears of an end whose runner died before it told")
def no_word_of_an_end() -> None:
    _change(box.End, "owes_word", lambda _: property(lambda end: False))


@fault("own", "the supervisor of a box that isn't billed leaves while a copy is owed")
def leaves_with_copies_owed() -> None:
    def make(function: Any) -> Any:
        def leave(job: Any, *words: Any) -> Any:
            leaving, actions, is_over = function(job, *words)
            return leaving, actions, is_over or not job.rendered.billed

        return leave

    _change(supervise, "leave", make)


@fault("own", "a program that outlives the end of its run trains on")
def lets_the_program_live() -> None:
    def make(function: Any) -> Any:
        def supervised(job: Any, state: Any, runner: Any, end: Any, *words: Any) -> Any:
            runner = runner._replace(has_program=runner.has_program and not end.name)
            return function(job, state, runner, end, *words)

        return supervised

    _change(supervise, "supervise", make)


@fault("own", "a marker that the disk didn't take is left no more")
def marks_once() -> None:
    _change(supervise, "MARK_AGAIN", lambda _: 1e12)
