"""What has to hold after every step of every night, one function each.

They go by what is really so in the world, by what was done and by what was told. They know the
core's actions and the words of its phases, and nothing of how it decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from remote_gpu_trainer.runner.core.model import (
    DEADLINE,
    Copy,
    EndBox,
    Fetch,
    Kill,
    Quarantine,
    Signal,
    Start,
    Tell,
)

from .draw import HEARTBEAT, NEVER

if TYPE_CHECKING:
    from .night import Play
    from .world import File, Generation

ENDS = ("done", "unsaved", "failed", "preempted")
COMPLETE, PARTIAL = "complete", ""
SLACK = 180.0  # seconds for three looks
SAY_END = ("end", "over", "late", "billed", "waits", "unsaved")  # messages that say how it ended
A_MOMENT = 1.0  # seconds in which decisions count as of one moment: each takes a little time
LONGEST_NAP = 600.0  # seconds between two looks
LEAST_WAIT = 60.0  # seconds that a stop gives a save
MOST_FRUITLESS = 12  # attempts in a row that leave nothing newer
MOST_AN_HOUR = 7  # messages of one kind
PLACE_WAIT = 3600.0  # for a durable place to answer
PROMPT = HEARTBEAT + 60.0  # seconds for a round to begin, beside what the job and the copy take

Check = Callable[["Checks"], str]
AFTER_DECISION: list[Check] = []
ON_PHASE: list[Check] = []  # after a decision that leads to another phase
BEFORE_ACTION: dict[type, list[Check]] = {}
AFTER_STEP: list[Check] = []
AFTER_END: list[Check] = []  # after each step, once the run has ended or its deadline is over
AFTER_TIME: list[Check] = []
AFTER_GONE: list[Check] = []  # once the box has gone


def at(when: list[Check]) -> Callable[[Check], Check]:
    """Register an invariant for a moment of each step."""

    def register(check: Check) -> Check:
        when.append(check)
        return check

    return register


def before(*kinds: type) -> Callable[[Check], Check]:
    """Register an invariant for the moment before an action of these kinds."""

    def register(check: Check) -> Check:
        for kind in kinds:
            BEFORE_ACTION.setdefault(kind, []).append(check)
        return check

    return register


class Checks:
    """The invariants of one night, and what of it they remember."""

    def __init__(self, play: Play):
        self.play, self.world, self.edges = play, play.world, play.edges
        self.job, self.program, self.faults = play.job, play.program, play.faults
        self.is_kept = bool(self.job.durable.to) and self.program.has_proof
        self.another_box()
        self.best = -1  # step of the best complete generation that there ever was
        self.place_version = -1
        self.damaged = 0
        self.knows_apart = False  # how far apart the files of a save are, by a copy of one
        self.unseen_mixed: set[str] = set()  # generations of two saves from before that was known
        self.asked_at: float | None = None
        self.messages: dict[str, list[float]] = {}
        self.after: Any = None
        self.action: Any = None

    def another_box(self) -> None:
        """Forget what was of the box before this one."""
        self.same_moment, self.moment = 0, -1.0
        self.asked_at = None
        self.signals = 0
        self.signal_at = 0.0
        self.fruitless, self.reached = 0, -1
        self.saved: list[tuple[float, int, int]] = []  # complete saves: when, line, step
        self.saves = 0
        self.quiet_since = 0.0  # since when nothing stood in the way of a copy
        self.unwatched_since: float | None = None
        self.full_since: float | None = None
        self.ended_at: float | None = None
        self.skipped_at = 0.0  # when time was skipped last
        self.told_at_end = self.is_end_told = False
        self.end_failed_at: float | None = None
        self.unanswered_at: float | None = (
            None  # the durable place gave nothing since the last start
        )
        self.is_unheld = False  # a hold failed since the last start
        self.was_full_at_start = False

    # When they look.

    def after_decision(self, after: Any) -> None:
        """Look at what was decided, before anything of it is done."""
        self.after = after
        self._note_decision()
        self._look(AFTER_DECISION)
        if after.phase != self.play.before.phase:
            self._look(ON_PHASE)

    def before_action(self, action: Any) -> None:
        """Look at an action that is done now."""
        self.action = action
        self._look(BEFORE_ACTION.get(type(action), ()))
        self._note_action(action)

    def after_step(self) -> None:
        """Look at the world after all actions of a step."""
        self._note_world()
        self._look(AFTER_STEP)
        if self.ended_at is not None or self.play.seen.left <= 0:
            self._look(AFTER_END)

    def after_time(self) -> None:
        """Look at the world after time has passed."""
        if self.place_version != self.world.place_version:
            self._look(AFTER_TIME)
            self.place_version = self.world.place_version

    def after_gone(self) -> None:
        """Look at what became of a box that has gone."""
        self._look(AFTER_GONE)

    def _look(self, checks: Iterable[Check]) -> None:
        for check in checks:
            what = check(self)
            if what:
                from .night import Broken

                raise Broken(check.__name__, what)

    # What they remember.

    def _note_decision(self) -> None:
        world = self.world
        if world.now - self.moment > A_MOMENT:
            self.same_moment, self.moment = 0, world.now
        self.same_moment += 1
        if self.asked_at is None and (self.edges.asked() or self.after.asked):
            self.asked_at = world.now
        if self.edges.fetch.failure and self.unanswered_at is None:
            self.unanswered_at = world.now
        if self.after.phase not in ENDS:
            self.ended_at = None  # whoever decided on an end may have died before it was noted
        elif self.ended_at is None:
            self.ended_at = world.now

    def _note_action(self, action: Any) -> None:
        now = self.world.now
        if isinstance(action, Signal):
            self.signals += 1
            self.signal_at = now
        elif isinstance(action, Start):
            self.signals = 0
            self.fruitless += 1
            self.unanswered_at, self.is_unheld = None, False
            begin, until = self.faults.full
            self.was_full_at_start = begin <= now <= until + SLACK
            # What was lost before, under a full disk say, comes to no durable place any more.
            given = self.world.files.get(action.source)
            begun = given.step if given is not None else 0
            self.saved = [one for one in self.saved if one[2] <= begun]
        elif isinstance(action, Tell):
            self.messages.setdefault(action.key, []).append(now)
            if action.key in SAY_END and self.ended_at is not None:
                self.is_end_told = True
            # That the run was ended is no word that its box is still on.
            if action.key != "over" and (self.ended_at is not None or self.edges.left() <= 0):
                self.told_at_end = True

    def _note_world(self) -> None:
        world = self.world
        if world.saves != self.saves:
            self.saves = world.saves
            newest = max(world.files.values(), key=lambda one: one.changed, default=None)
            if newest is not None and newest.is_complete:
                self.saved.append((world.now, newest.line, newest.step))
                if newest.step > self.reached:
                    self.fruitless, self.reached = 0, newest.step
        faults = self.faults
        is_hindered = (
            faults.jump_at < NEVER
            or world.now <= self.play.failed_at
            or world.free_there < 1 << 31
            or world.is_away
            or world.hangs
            or world.is_full
        )
        if is_hindered:
            self.quiet_since = world.now
        is_full = world.is_within(faults.store_full) and world.is_alive and bool(self.saved)
        if not is_full:
            self.full_since = None
        elif self.full_since is None:
            self.full_since = world.now
        is_idle = (
            self.play.state.phase == "running"
            and not world.is_alive
            and not self.play.state.asked
            and not world.is_full
        )
        self.is_unheld = self.is_unheld or bool(self.edges.hold_worker.code)
        if not is_idle:
            self.unwatched_since = None
        elif self.unwatched_since is None:
            self.unwatched_since = world.now
        command = self.edges.command
        if command.code not in (0, None) and self.end_failed_at is None:
            self.end_failed_at = world.now

    # What they ask of the world.

    def complete_there(self) -> list[Generation]:
        """Return the generations that are really complete and committed."""
        return [one for one in self.world.generations.values() if one.manifest and one.is_complete]

    def counted_there(self) -> list[Generation]:
        """Return the generations that are complete as far as anybody can know: nobody reads again
        what was damaged since."""
        return [
            one
            for one in self.world.generations.values()
            if one.manifest and (one.is_complete or (one.is_damaged and not one.is_known_damaged))
        ]

    def is_kept_there(self, file: File) -> bool:
        """Return whether the durable place has these bytes, or what is beyond them."""
        return any(
            one.content == file.content
            or one.file.step > file.step
            or (one.file.step == file.step and one.file.line == file.line)
            for one in self.counted_there()
        )

    def late(self) -> float:
        """Return the seconds since the deadline, below 0 before it. By a clock that jumped over it
        those since the jump."""
        late = -self.edges.left()
        return min(late, self.world.now - self.faults.jump_at) if self.world.jumped > 0 else late


# Checkpoints.


@at(AFTER_TIME)
def the_best_at_the_durable_place_never_falls(c: Checks) -> str:
    """The best complete generation at the durable place is only ever replaced by a better one."""
    damaged = sum(one.is_damaged for one in c.world.generations.values())
    best = max((one.file.step for one in c.complete_there()), default=-1)
    before, c.best = c.best, best
    was_damaged, c.damaged = c.damaged, damaged
    if c.is_kept and best < before and damaged <= was_damaged:
        return f"the best complete one was of step {before}, and is of step {best}"
    return ""


@at(AFTER_TIME)
def what_counts_as_verified_is_complete(c: Checks) -> str:
    """A generation whose manifest says complete holds all bytes of one save.

    A known hole: before the first copy of a checkpoint of two files nobody knows how far apart they
    are written, so that a kill between them goes unseen, also later.
    """
    for name, one in c.world.generations.items():
        is_called = one.manifest and one.manifest["state"] == COMPLETE
        is_false = is_called and not one.is_complete and not one.is_damaged
        if is_false and one.file.is_mixed and not c.knows_apart:
            c.unseen_mixed.add(name)
        elif is_false and name not in c.unseen_mixed:
            return f"{name} counts as complete, and is not"
    c.knows_apart = c.knows_apart or any(one.manifest["apart"] for one in c.complete_there())
    return ""


@before(Quarantine)
def no_complete_checkpoint_is_moved_away(c: Checks) -> str:
    """What is moved where no program finds it is not complete."""
    file = c.world.files.get(c.action.path)
    if file is not None and file.is_complete:
        return f"{file.name} of step {file.step} is complete"
    return f"{file.name} is being written" if file is not None and file.is_writing else ""


@before(Start)
def an_attempt_begins_with_the_best(c: Checks) -> str:
    """An attempt that can resume is given the newest complete checkpoint here, or a better one that
    the durable place gives, and never a corrupt one."""
    if c.job.resume == "none":
        return ""
    given = c.world.files.get(c.action.source) if c.action.source else None
    if c.action.source and given is None:
        return ""  # it vanished since: the program finds out
    if given is not None and c.program.has_proof and not (given.is_complete or given.is_mixed):
        return f"{given.name} is corrupt"
    damaged = {one.content for one in c.world.generations.values() if one.is_damaged}
    is_brought = given is not None and given.content == c.edges.brought
    # What was damaged after it was brought back is complete here.
    if given is not None and is_brought and given.content in damaged and not given.is_complete:
        return f"{given.name} was brought back damaged"
    here = [one for one in c.world.files.values() if one.is_complete and c.program.has_proof]
    newest = max(here, key=lambda one: one.order, default=None)
    if newest is not None and given is not newest and not (given and given.is_complete):
        return f"{newest.name} of step {newest.step} is here, and {c.action.source or 'none'} given"
    if not c.is_kept or newest is not None and newest is not given:
        return ""
    there = [one for one in c.complete_there() if one.manifest["state"] == COMPLETE]
    best = max(there, key=lambda one: one.file.step, default=None)
    if best is None:
        return ""
    if given is None:
        return f"{best.name} is at the durable place, and the attempt begins at 0"
    if c.edges.is_held_alone:  # the place didn't answer, and what is held here is gone on from
        return ""
    is_known = (
        best.manifest["step"] is not None
    )  # else nothing tells that the older line came farther
    if is_known and given.content == c.edges.brought and given.step < best.file.step:
        return f"{best.name} is at the durable place, and step {given.step} was brought back"
    return ""


@before(Start)
def what_is_corrupt_is_out_of_the_way(c: Checks) -> str:
    """A program that picks the newest file by itself finds no corrupt one that is newer than a
    complete one."""
    if c.job.resume != "automatic" or not c.program.has_proof:
        return ""
    if c.play.faults.fail_share or c.play.faults.death_share:
        return ""  # the move may have failed: the next start tries it again
    newest = max(c.world.files.values(), key=lambda one: one.order, default=None)
    if newest is None or newest.is_complete or newest.is_mixed:
        return ""
    return f"{newest.name} is corrupt, and the newest that the program finds"


@at(AFTER_STEP)
def nothing_complete_is_written_over_that_lies_nowhere_else(c: Checks) -> str:
    """What an attempt that began at 0 writes over, or removes, is held elsewhere, or something as
    good is. On a full disk a job has said by `resume` that its program goes on from it."""
    world = c.world
    files, world.written_over = world.written_over, []
    results, world.results_over = world.results_over, []
    if c.was_full_at_start and c.job.resume != "none":
        return ""
    for file in files:
        here = [o for o in (*world.files.values(), *world.quarantined) if o.line != world.line]
        held = [one.file for one in world.held.values() if one.is_complete]
        as_good = any(one.is_complete and one.step >= file.step for one in here)
        as_good = as_good or any(one.step >= file.step for one in held)
        if c.program.has_proof and not as_good and not c.is_kept_there(file):
            return f"{file.name} of step {file.step} was here alone"
    for result in results if c.job.results else ():
        if result not in {world.result_there, *world.results_held, *world.results_there}:
            return "the result of the attempt before was here alone"
    return ""


@at(AFTER_STEP)
def a_newest_complete_one_is_soon_durable(c: Checks) -> str:
    """Where nothing stands in the way, what was saved is at the durable place within the job's
    rhythm and the time that copies take."""
    if not c.is_kept or not c.saved or not c.world.is_alive or c.world.is_hung:
        return ""
    takes = 60.0 * c.job.durable.every_minutes * 4 + 4 * c.program.copy_seconds + PROMPT
    if c.program.is_one_name:  # each copy may be overtaken by the next save, in round after round
        takes += 4 * (c.program.every + c.program.save_seconds + c.program.copy_seconds)
    until = c.world.now - takes
    if c.quiet_since > until or c.play.failed_at > until:
        return ""
    while len(c.saved) > 1 and c.saved[1][0] <= until:
        c.saved.pop(0)
    when, line, step = c.saved[0]
    if when > until or line != c.world.line:
        return ""
    there = [one.file for one in c.world.generations.values() if one.manifest]
    if any(one.line == line and one.step >= step or one.step > step for one in there):
        return ""
    return f"step {step} was saved {c.world.now - when:.0f} s ago, and is not there"


# The program.


@before(Start)
def there_is_one_trainer(c: Checks) -> str:
    """No attempt is started while a program is alive."""
    if c.world.is_alive:
        return f"attempt {c.action.number} while attempt {c.world.attempt} is alive"
    return ""


@before(Start)
def nothing_starts_that_was_asked_to_end(c: Checks) -> str:
    """No attempt is started after a stop, a notice or the deadline."""
    if c.play.asked_then:
        return f"attempt {c.action.number} after {c.play.asked_then}"
    return f"attempt {c.action.number} after the deadline" if c.play.seen.left <= 0 else ""


@at(AFTER_END)
def nothing_trains_after_the_deadline(c: Checks) -> str:
    """Within a moment of the deadline no program is alive."""
    limit = 2 * SLACK if c.faults.fail_share or c.faults.death_share else SLACK
    # A clock that jumps over the window of a save takes none of it away.
    limit += 4 * c.world.save_seconds if c.world.jumped else 0.0
    if c.world.is_alive and c.late() > limit:
        return f"it trains {c.late():.0f} s after the deadline"
    return ""


@at(AFTER_STEP)
def a_request_to_end_ends_the_program(c: Checks) -> str:
    """A program that is asked to end is gone within the time of a wait, a save and a kill."""
    if c.asked_at is None or not c.world.is_alive:
        return ""
    takes = 600 + 3 * max(30.0, c.world.save_seconds, c.program.save_seconds) + 3 * SLACK
    takes += max(0.0, c.play.failed_at - c.asked_at)
    if c.world.now - c.asked_at > takes:
        return f"it lives {c.world.now - c.asked_at:.0f} s after {c.play.state.asked!r}"
    return ""


@at(AFTER_GONE)
def a_notice_is_heard_in_time(c: Checks) -> str:
    """A program on a box that a provider takes away after a notice was signalled before."""
    world = c.world
    since = world.vanishes_at - c.faults.notice_seconds
    if world.now < world.vanishes_at or c.play.failed_at >= since:
        return ""
    if world.ended_by == "vanished" and world.signalled != world.attempt:
        return f"no signal within {c.faults.notice_seconds:.0f} s"
    return ""


@before(Signal, Kill)
def no_save_is_cut_that_would_have_ended_in_time(c: Checks) -> str:
    """A signal or a kill waits for a save that goes on, as long as whoever asks gives time."""
    world, saving = c.world, c.world.saving
    if saving is None or c.asked_at is None or saving.order > c.play.looked_at:
        return ""  # one that began since the last look is seen by nobody
    if c.program.on_term == "saves" and isinstance(c.action, Signal):
        return ""
    ends = saving.order + c.program.save_seconds
    asked = c.play.state.asked
    noticed_at = max(c.asked_at, world.vanishes_at - c.faults.notice_seconds)
    if asked == "asked":
        allowed = c.asked_at + LEAST_WAIT
    elif asked == DEADLINE:
        allowed = world.now + c.edges.left()
    else:
        # A runner may hear of a notice long after the supervisor beside it.
        allowed = NEVER
        noticed_at = min(world.vanishes_at - c.faults.notice_seconds, c.asked_at)
    allowed = min(allowed, noticed_at + 0.45 * min(c.faults.notice_seconds, 120.0))
    if c.signals and isinstance(c.action, Kill):
        return ""  # it had its time
    if ends < allowed and world.now < ends:
        return f"the save of step {saving.step} ends in {ends - world.now:.0f} s"
    return ""


@before(Signal)
def one_signal_asks(c: Checks) -> str:
    """The signal to save is sent once: a second one ends many handlers."""
    if c.signals and not c.faults.death_share:
        return f"signal {c.signals + 1} of attempt {c.world.attempt}"
    return ""


@before(Kill)
def nothing_healthy_is_killed(c: Checks) -> str:
    """A program is killed only where somebody asks for its end, where it stands still, or for nan
    where the job says so."""
    world = c.world
    if not world.is_alive or c.asked_at is not None:
        return ""
    if world.is_hung or (world.is_nan and c.job.on_nan == "stop") or c.late() > 0:
        return ""
    return f"attempt {world.attempt} is killed at step {world.step} for {c.action.why}"


@at(AFTER_STEP)
def a_hang_ends(c: Checks) -> str:
    """A program that stands still is ended within the job's limit, which is longer where it saves
    seldom. Between two saves a night looks seldom, and sees each of them that much later."""
    world = c.world
    limit = 60.0 * c.job.stall.log_minutes
    if not (world.is_hung and world.is_alive and limit):
        return ""
    gap = c.program.every + c.program.save_seconds + LONGEST_NAP
    takes = 2 * max(limit, 2 * gap) + 3 * SLACK
    takes += c.faults.down_seconds * 10 if c.faults.death_share else 0
    quiet = max(world.hung_at, c.play.failed_at)
    if world.now - quiet > takes:
        return f"it has stood still for {world.now - world.hung_at:.0f} s"
    return ""


@before(Start)
def attempts_that_gain_nothing_end(c: Checks) -> str:
    """A program that comes no further is not started for ever."""
    if c.fruitless > MOST_FRUITLESS:
        return f"{c.fruitless} attempts without a newer checkpoint"
    return ""


@at(AFTER_STEP)
def a_run_goes_on_without_anybody(c: Checks) -> str:
    """Between two attempts a run waits for minutes, not for ever. For a durable place that may have
    the only checkpoint, and doesn't answer, it waits for an hour, and somebody hears of it."""
    if c.unwatched_since is None:
        return ""
    since = max(
        c.unwatched_since,
        c.play.failed_at,
        c.faults.full[1] if c.world.now > c.faults.full[1] else 0.0,
    )
    takes = 900.0 + c.program.copy_seconds
    may_miss = c.faults.fail_share or c.faults.death_share  # a message
    # It may not answer while the disk is full, before anything is expected of the run.
    asked_at = min(c.unwatched_since, c.unanswered_at or c.unwatched_since)
    is_told = any(at >= asked_at for at in c.messages.get("place", ()))
    if c.unanswered_at is not None and (may_miss or is_told):
        since, takes = max(since, c.unanswered_at), takes + PLACE_WAIT
    if c.world.now - since > takes:
        return f"no program and no end for {c.world.now - since:.0f} s"
    return ""


@at(ON_PHASE)
def a_first_failure_from_outside_ends_no_run(c: Checks) -> str:
    """A program that saved, and was then killed or met a full disk for the first time, is started
    again, unless it begins anew over what lies here alone and no room holds."""
    world = c.world
    if c.is_unheld and c.job.resume == "none":
        return ""
    if c.after.phase != "failed" or c.play.before.phase in ENDS or c.asked_at is not None:
        return ""
    is_first = world.attempt == 1 and world.ended_by in ("kernel", "disk")
    if (
        not is_first
        or c.unanswered_at is not None
        or world.is_nan  # which ends it by the job's own words, whatever killed it then
        or not c.program.has_proof
        or c.program.exits_wrong
    ):
        return ""
    there = [one.file for one in c.complete_there()]
    here = [one for one in world.files.values() if one.is_complete]
    # What it was given is no save of its own.
    if any(one.line == world.line and one.order >= world.begun_at for one in (*here, *there)):
        return f"the run failed after its first failure: {c.after.verdict.reason}"
    return ""


@at(AFTER_END)
def an_owed_copy_is_made(c: Checks) -> str:
    """After an end, what is complete here is copied once nothing stands in the way."""
    if c.ended_at is None or c.play.state.phase not in ENDS or c.world.is_alive or not c.is_kept:
        return ""
    takes = 4 * c.program.copy_seconds + PROMPT + 300.0
    if c.world.now - max(c.ended_at, c.quiet_since, c.play.failed_at, c.skipped_at) < takes:
        return ""
    for file in alone_here(c):
        return f"{file.name} of step {file.step} is still on the box alone"
    return ""


# What is said.


@at(ON_PHASE)
def done_is_said_of_what_is_done(c: Checks) -> str:
    """A run is called done where its program came to its end, and what the job names is safe."""
    if c.after.phase != "done" or c.play.before.phase == "done":
        return ""
    world = c.world
    if c.job.results and not world.result:
        return "the result is not there"
    if c.job.results and c.job.durable.to and world.result_there != world.result:
        return "the result is not at the durable place"
    if not world.has_finished and world.code != 0:
        return f"the program ended with {world.code}"
    newest = newest_complete(c)
    if c.is_kept and newest is not None and not c.is_kept_there(newest):
        return f"{newest.name} of step {newest.step} is not at the durable place"
    is_unseen = c.is_kept and newest is None and world.has_trained and not c.job.results
    if is_unseen and not c.counted_there():
        return "it trained, and nothing of it was ever seen"
    return ""


@before(Tell)
def nobody_is_told_again_and_again(c: Checks) -> str:
    """A message of one kind comes a few times an hour at most, and once more in each life."""
    most = MOST_AN_HOUR + c.play.deaths
    sent = c.messages.get(c.action.key, [])[-most - 1 :]
    recent = [one for one in sent if c.world.now - one < 3600]
    if len(recent) > most:
        return f"{len(recent)} messages {c.action.key!r} within an hour"
    return ""


@at(AFTER_STEP)
def a_full_place_is_told(c: Checks) -> str:
    """Where the durable place has no room for a new checkpoint, nor older ones that may give way to
    it, somebody hears of it."""
    if c.full_since is None or not c.job.durable.to or not c.world.is_alive:
        return ""
    there = [one.file for one in c.world.generations.values() if one.manifest]
    furthest = max(((one.line, one.step) for one in there), default=(0, -1))
    new = [one for one in c.saved if one[0] > c.full_since and one[1:] > furthest]
    if not new:
        return ""
    takes = 60.0 * c.job.durable.every_minutes * 4 + 2 * c.program.copy_seconds + 600.0
    if c.faults.death_share or c.faults.fail_share:
        takes += 2 * 3600.0  # a message that was lost is sent again after an hour
    since = max(c.full_since, c.play.failed_at, new[0][0])
    if c.world.is_away or c.world.hangs:
        return ""
    if c.world.now - since > takes and not c.messages.get("copy"):
        return f"it has been full for {c.world.now - c.full_since:.0f} s"
    return ""


@at(AFTER_END)
def an_end_is_marked(c: Checks) -> str:
    """A run that came to an end leaves its marker, also where the first try failed."""
    since = max(c.ended_at or 0.0, c.play.failed_at)
    is_over = c.ended_at is not None and c.play.state.phase in ENDS
    if not is_over or c.edges.marked or c.world.now - since < SLACK:
        return ""
    return f"no marker {c.world.now - since:.0f} s after the end"


@at(AFTER_END)
def an_end_is_told(c: Checks) -> str:
    """Of a run that came to an end, or was ended by its deadline, somebody hears, also where whoever
    was to tell it died before. Whoever stopped it knows."""
    marker = c.edges.marker
    is_late = marker.failure == DEADLINE
    if c.ended_at is None or c.is_end_told or not marker.name:
        return ""
    if marker.name == "preempted" and not is_late:
        return ""
    takes = SLACK + (2 * 3600.0 if c.faults.fail_share else 0.0)  # it is told again after an hour
    since = max(c.ended_at, c.play.failed_at)
    if not c.play.state.is_settled:  # its last copy may go on until the deadline
        since = max(since, c.world.now - c.late())
    if c.world.now - since > takes:
        return f"no word {c.world.now - since:.0f} s after the end"
    return ""


@at(AFTER_END)
def a_failed_end_is_told(c: Checks) -> str:
    """Where the command that ends the box fails, somebody hears of it."""
    if c.end_failed_at is None or c.world.now - c.end_failed_at < SLACK:
        return ""
    if c.play.failed_at > c.end_failed_at - SLACK or c.messages.get("failed"):
        return ""
    return "the end command failed, and no message was sent"


# The end of the box.


@before(EndBox)
def the_box_ends_only_when_nothing_is_lost(c: Checks) -> str:
    """The end command runs where what it destroys is safe, or where the job agreed to lose it."""
    world, job = c.world, c.job
    if world.is_alive and c.late() < 0:
        return "a program is alive"
    if c.action.how == "stop" or job.rendered.end.keeps_disk:
        return ""
    if "unsaved" in job.at_end.when and (c.late() >= 0 or not job.durable.to):
        return ""
    newest = newest_complete(c)
    for file in alone_here(c) if c.program.has_proof else ():
        return f"{file.name} of step {file.step} is on the box alone"
    is_over = c.play.state.phase in ("done", "unsaved")
    if job.results and world.result and world.result_there != world.result:
        return "the result is on the box alone"
    is_unseen = newest is None and is_over and world.has_trained and not job.results
    if is_unseen and not world.generations and c.program.form != "nothing":
        return "it trained, and nothing of it was ever seen elsewhere"
    return ""


@before(EndBox)
def no_box_ends_under_whoever_was_refused(c: Checks) -> str:
    """Where a check refused the start, somebody sits there and mends it: until its deadline the box
    stays on."""
    is_refused = bool(c.edges.refusals) and not c.world.attempt
    return f"{c.edges.refusals[0].reason}" if is_refused and c.late() < 0 else ""


def says_stopped(reason: str) -> bool:
    """Return whether this reason says that its user stopped the run."""
    return reason.startswith("asked")


@at(AFTER_END)
def the_box_ends_or_somebody_hears_why_not(c: Checks) -> str:
    """By the deadline and the limit for a proof the box is ended, or a message says that it is on."""
    job = c.job
    limit = 60.0 * job.at_end.unproven_minutes + 2 * SLACK + 240.0
    if c.late() < limit or c.edges.ends_tried or c.told_at_end or c.world.was_ended:
        return ""
    # Who stopped the run hears nothing more; the last word of its marker may have failed.
    reasons = (c.play.state.verdict.reason, c.edges.marker.reason)
    if any(map(says_stopped, reasons)) or not job.rendered.billed:
        return ""
    if c.world.now - c.play.failed_at < limit:
        return ""
    if not job.notify and c.faults.fail_share:
        return ""  # it would be read in the log alone, and may not have come there
    return f"{c.late():.0f} s after the deadline nobody has ended the box or heard of it"


@at(AFTER_END)
def an_ended_run_ends_its_box(c: Checks) -> str:
    """Where the job wants the box ended, and all is proven safe, the command runs and is repeated."""
    job = c.job
    if c.ended_at is None or not job.rendered.end.command or c.world.was_ended:
        return ""
    phase = c.play.state.phase
    is_case = phase in ("done", "failed") or c.late() > 0
    if phase not in ENDS or not is_case or not is_proven(c):
        return ""
    if c.play.seen.worker.code is None:
        return ""
    if says_stopped(c.play.state.verdict.reason) or c.play.state.is_refused:
        return ""
    hung_until = c.faults.hangs[1] if c.faults.hangs[1] < c.world.now else 0.0
    last = max(c.ended_at, c.play.failed_at, hung_until, c.skipped_at, *c.edges.ends_tried[-1:])
    if c.world.now - last > 1260.0 and c.edges.command.code is not None:
        return f"no end command for {c.world.now - last:.0f} s"
    return ""


@at(AFTER_END)
def the_end_command_is_not_hammered(c: Checks) -> str:
    """Between two tries of the end command by one supervisor there is a pause that grows."""
    tried = [at for at in c.edges.ends_tried if at >= c.play.born_at]
    if len(tried) > 12 and tried[-1] - tried[-12] < 900:
        return f"12 tries within {tried[-1] - tried[-12]:.0f} s"
    return ""


# Time.


@at(AFTER_DECISION)
def the_core_looks_again_in_time(c: Checks) -> str:
    """It asks to be woken before the deadline, and never later than in ten minutes."""
    now, left = c.play.decided_at, c.play.seen.left
    if c.play.wake - now > 601:
        return f"it sleeps for {c.play.wake - now:.0f} s"
    if left > 0 and c.play.wake > now + left + 1 and c.after.phase not in ENDS:
        return f"it sleeps over the deadline by {c.play.wake - now - left:.0f} s"
    return ""


@at(AFTER_DECISION)
def no_livelock(c: Checks) -> str:
    """The core comes to rest at each moment, and asks for a look later than now."""
    if c.same_moment > 40:
        return f"{c.same_moment} decisions at one moment, in the phase {c.after.phase}"
    return ""


@before(Copy)
def there_is_one_copy(c: Checks) -> str:
    """No round of copies begins while another one goes on."""
    worker = c.edges.worker
    if worker is not None and worker.code is None:
        return f"round {c.action.number} while round {worker.number} goes on"
    return ""


@before(Fetch)
def nothing_is_fetched_under_a_program(c: Checks) -> str:
    """Checkpoints are brought back only while no program is alive."""
    if c.world.is_alive:
        return f"attempt {c.world.attempt} is alive"
    return ""


def is_proven(c: Checks) -> bool:
    """Return whether the box shows that nothing is left on it alone."""
    kept = c.play.seen.kept
    return kept.is_whole and kept.is_all_safe and not kept.has_left


def newest_complete(c: Checks) -> File | None:
    """Return the newest checkpoint here that is really complete."""
    here = [one for one in c.world.files.values() if one.is_complete]
    return max(here, key=lambda one: one.order, default=None)


def alone_here(c: Checks) -> list[File]:
    """Return what is complete on this box, its newest and what is held, and not elsewhere."""
    held = [one.file for one in c.world.held.values() if one.is_complete]
    found = [one for one in (newest_complete(c), *held) if one is not None]
    return [one for one in found if not c.is_kept_there(one)]


_BEFORE = dict.fromkeys(check for checks in BEFORE_ACTION.values() for check in checks)
ALL = (*AFTER_DECISION, *ON_PHASE, *_BEFORE, *AFTER_STEP, *AFTER_END, *AFTER_TIME, *AFTER_GONE)
