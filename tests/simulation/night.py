"""One night by its seed: the world goes on, the core decides, the edges act, the invariants look."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from remote_gpu_trainer.runner.core import copying, ends, stop, supervise
from remote_gpu_trainer.runner.core import decide as core
from remote_gpu_trainer.runner.core.box import End
from remote_gpu_trainer.runner.core.model import (
    AboutRunner,
    CutCopy,
    Kill,
    Mark,
    Seen,
    Signal,
    as_json,
    of_json,
)

from . import draw, invariants
from .draw import HOUR, NEVER
from .edges import Edges
from .world import World

ENDS = ("done", "unsaved", "failed", "preempted")
MOST_STEPS = 6_000
STEPS_A_DEATH = 10
AFTER = 0.25 * HOUR  # what is looked at after the deadline and the limit for a proof
IDLE = 0.3 * HOUR  # of an ended run that waits for its deadline; then time jumps to the next event
BESIDE = 1.0  # seconds between two looks of a supervisor after a notice
LOOK = 5.0  # seconds between two looks at a program that was asked to end, and after an end
PAUSE = (
    20.0  # seconds of a supervisor whose runner has gone, in which it dies as rarely as in a step
)
READ_AGAIN = 5  # deaths in a night after which the state is read again from its text: that is slow
ALL_DIE = 0.3  # share of deaths that take the program's parent, too
BOOT_SECONDS = 900.0  # until somebody has another box


class Broken(Exception):
    """An invariant doesn't hold: its name, and what is wrong."""

    def __init__(self, name: str, what: str):
        super().__init__(f"{name}: {what}")
        self.name, self.what = name, what


class Night(NamedTuple):
    """How a night went. `broken`: the invariant that doesn't hold, '' for none."""

    seed: int
    steps: int
    broken: str
    what: str


class Play:
    """A night that goes on. What the invariants look at."""

    def __init__(self, seed: int):
        chance = self.chance = Random(seed)
        self.program = draw.program(chance)
        self.job = draw.job(chance, self.program)
        # By a chance of its own, so that nothing else of the night depends on it.
        self.faults = draw.follow(draw.faults(chance), Random(f"{seed} follows"))
        self.faults = draw.refuse(self.faults, Random(f"{seed} refuses"))
        self.job.rendered.notice = draw.PROVIDERS[self.faults.notice_seconds]
        self.world = World(self.program, self.faults, chance)
        self.edges = Edges(self.world, self.job)
        self.state: Any = core.State()
        self.over: Any = (
            supervise.SupervisorState()
        )  # of the supervisor, once the runner has come to an end
        self.is_left = False  # it found nothing to do any more
        self.seen = Seen()
        self.before: Any = self.state  # of the last step
        self.actions: list[Any] = []  # of the last step, as decided
        self.wake = 0.0
        self.is_skipping = False
        self.pace = draw.Pace(seed)
        self.looked_at = self.decided_at = 0.0
        self.look_takes: float | None = None  # seconds, where they were drawn before
        self.is_behind = False  # something happened since the last look began
        self.beside_at, self.beside_signalled = 0.0, 0  # of a supervisor whose runner lives
        self.asked_then = ""  # who had asked for an end when the last look ended
        self.steps = self.moments = 0  # of the run, and of copies meanwhile
        self.down_until = -1.0
        self.is_runner_gone = self.is_code_lost = False
        self.deaths = 0
        self.born_at = 0.0  # when this supervisor began
        self.failed_at = 0.0  # when a fault of ours was there last: a death, a failed action
        self.checks = invariants.Checks(self)
        if self.faults.had_before and self.job.durable.to:
            self.edges_before()

    def edges_before(self) -> None:
        """Put checkpoints of an earlier box at the durable place."""
        from .world import File, Generation

        world = self.world
        last = self.faults.had_before
        for number in range(max(1, last - 1), last + 1):
            step = int(self.program.every) * number
            kind = "last.pt" if self.program.is_one_name else "ckpt-*.pt"
            name = "last.pt" if self.program.is_one_name else f"ckpt-{step}.pt"
            file = File(name, kind, world.content(), step, 0, -1000.0 + number)
            file.is_writing, file.is_complete = False, True
            one = Generation(f"gen-1-{step}-{file.content}", file)
            one.is_complete = True
            one.manifest = {
                "state": "complete" if self.program.has_proof else "unknown",
                "line": 1,
                "anew": False,
                "step": self.edges._step_of(file),
                "saved": file.order,
                "copied": -900.0,
                "apart": 0.7 * self.program.save_seconds if self.program.in_two else None,
            }
            world.generations[one.name] = one

    # What may happen to the supervisor.

    def step(self) -> None:
        """Let the core decide once, and do what it says: of a runner, and of the supervisor once
        that has come to an end."""
        world, faults, chance = self.world, self.faults, self.chance
        if self.is_runner_gone:
            self.raise_runner()
        idle, self.looked_at = world.now - self.looked_at, world.now
        self.before, end = self.state, self.edges.marker
        seen = self.look()
        if world.is_gone:
            return
        now = self.decided_at = self.time_of_decision()
        over = self.over  # after the look, in which it may have acted beside the runner
        after, wake, share = self.state, now + core.LONGEST_NAP, faults.death_share
        if not core.is_over(self.state):
            after, actions, wake = core.decide(self.job, self.state, seen, now)
        elif self.is_left:
            actions, share = [], 0.0  # nobody is there to die
        else:
            seen = seen._replace(notice="" if end.name else seen.notice)
            came_to = str((self.state.attempt, self.edges.folder().whole))
            runner = supervise.Runner(came_to=came_to, has_program=world.is_alive)
            over, actions, self.is_left = supervise.supervise(
                self.job, self.over, runner, end, seen, now
            )
            wake = min(wake, self.next_look(over, seen, now))
            share *= min(max(PAUSE, idle), draw.HEARTBEAT) / draw.HEARTBEAT  # it looks often
        self.actions, self.wake = actions, wake
        self.checks.after_decision(after)
        dies_at = -1
        if share and chance.random() < share:
            dies_at = chance.randint(0, len(actions) + 1)
        if dies_at != 0:  # else it dies before it has stored the state
            self.state, self.over = after, over
            self.act(actions, dies_at)
        if world.is_gone:
            return
        if dies_at >= 0:
            self.die()
        elif seen.notice:
            self.pass_time(0.0)
            self.wake = min(self.wake, self.next_beside())
        self.steps += 1

    def act(self, actions: list[Any], dies_at: int) -> None:
        """Do what was decided, up to the action at which the supervisor dies; the world goes on
        before each."""
        world, faults, chance = self.world, self.faults, self.chance
        for place, action in enumerate(actions, 1):
            if place == dies_at:
                return
            self.pass_time(self.pace.takes())
            if world.is_gone:
                return
            # A signal is one call of the kernel, and sent on a full disk too.
            does_fail = faults.fail_share and chance.random() < faults.fail_share
            if does_fail and not isinstance(action, Signal):
                self.failed_at = world.now
                continue
            if isinstance(action, Signal) and self.beside_signalled == world.attempt:
                continue  # whoever is the first sends it
            self.checks.before_action(action)
            if isinstance(action, AboutRunner):
                self.about_runner(action.do)
                continue
            if isinstance(action, Mark):
                self.mark(action.end)
            self.edges.do(action)
            if faults.twice_share and chance.random() < faults.twice_share:
                self.edges.do(action)

    def look(self) -> Seen:
        """Look, while the world goes on: in the middle of the look, and from its end to the
        decision."""
        takes = self.pace.takes() if self.look_takes is None else self.look_takes
        self.look_takes, self.is_behind = None, False
        first = takes * self.pace.share() if takes else 0.0
        self.seen = self.edges.see(self.state, lambda: self.pass_time(first))
        self.asked_then = self.edges.asked()
        self.pass_time(takes - first)
        return self.seen

    def time_of_decision(self) -> float:
        """Return the time that goes with a look: of its begin, as runner.py and supervisor.py read
        it."""
        return self.looked_at

    def pass_time(self, seconds: float) -> None:
        """Let the world go on while something is looked at, decided or done."""
        world = self.world
        until = world.now + seconds
        if until < world.next_at and world.vanishes_at >= NEVER:
            world.now = until
            return
        while not world.is_gone:
            beside_at = self.next_beside()
            if world.next_at <= min(until, beside_at):
                self.is_behind = self.let_happen(until) or self.is_behind
                self.checks.after_time()
            elif beside_at <= until:
                world.now = beside_at
                self.act_beside()
            else:
                world.now = max(world.now, until)
                return

    def next_beside(self) -> float:
        """Return when the supervisor looks beside a runner that lives: after a notice, which it
        doesn't wait for that to hear."""
        world = self.world
        is_due = world.vanishes_at < NEVER and world.now >= self.down_until
        if not is_due or self.is_runner_gone or core.is_over(self.state):
            return NEVER
        return max(self.beside_at, world.now)

    def act_beside(self) -> None:
        """Let the supervisor look, decide and signal the program, at one moment."""
        world, edges = self.world, self.edges
        runner = supervise.Runner(is_alive=True, has_heard=bool(self.state.asked))
        seen = edges.see_beside()
        self.over, actions, _ = supervise.supervise(
            self.job, self.over, runner, End(), seen, world.now
        )
        self.beside_at = min(self.next_look(self.over, seen, world.now), world.now + BESIDE)
        for action in actions:
            if isinstance(action, Signal) and world.signalled != world.attempt:
                runner_looked_at, self.looked_at = self.looked_at, world.now
                self.checks.before_action(action)
                self.looked_at = runner_looked_at
                edges.do(action)
                self.beside_signalled = world.attempt
                self.is_behind = True

    def next_look(self, over: Any, seen: Seen, now: float) -> float:
        """Return when a supervisor whose runner has gone may decide otherwise although nothing
        happens: a real one looks each second. `now`: when it looked last."""
        job, left = self.job, seen.left
        leaving, raises, timings = over.leaving, over.raises, self.job.timings
        moments = [
            now + left,
            now + left - 2 * seen.save_seconds,
            now + left + job.at_end.unproven_minutes * 60,
            over.window.end,
            over.request.kill_at,
            leaving.box.next_at,
        ]
        raise_after = timings.raise_after
        pauses = [
            (raises.gone_since, raise_after),
            (raises.raised_at, raise_after * 2 ** min(raises.count, 5)),
            (over.asked_at, supervise.HEARS),
            (over.killed_at, supervise.KILL_SECONDS),
            (over.killed_at, stop.KILL_AGAIN),
            (over.marked_at, supervise.MARK_AGAIN),
            (leaving.told_at, supervise.tell_again(self.job, -self.edges.left())),
            (leaving.owed.at, leaving.owed.wait),
            (leaving.owed.at, copying.FIRST_TRY),
            (leaving.owed.at, copying.OWED_SECONDS),
            *((at, timings.notify_every) for _, at in leaving.box.told),
        ]
        moments += [since + pause for since, pause in pauses if since is not None]
        wake = min((at for at in moments if at is not None and at > now), default=NEVER)
        return wake + 1.0  # sums of times may miss the moment

    def mark(self, end: str) -> None:
        """Leave the marker of an end, as the files of a run hold it."""
        if not end:  # it came to none by its deadline
            state = self.state
            end, verdict, _ = ends.end_unheard(state.outcome, state.verdict, None, "not verified")
            self.state = state._replace(phase=end, verdict=verdict, is_settled=True)
        of = self.state
        self.edges.marker = End(end, of.verdict.failure, of.verdict.reason, of.is_refused)

    def about_runner(self, do: str) -> None:
        """Raise a runner, or give it up."""
        if do == supervise.RAISE:
            self.edges.forget()
            self.is_code_lost = False
            self.raise_runner()
        elif do == supervise.GIVE_UP:
            self.state = self.state._replace(phase="failed", verdict=supervise.HOPELESS)
            self.mark("failed")

    def die(self) -> None:
        """Let the supervisor die; what it stored is read again."""
        self.down_until = self.world.now + self.faults.down_seconds
        self.failed_at = self.born_at = self.down_until
        self.edges.forget()
        self.deaths += 1
        if self.deaths <= READ_AGAIN:
            self.state = of_json(core.State, json.loads(json.dumps(as_json(self.state))))
        self.over, self.is_left = supervise.SupervisorState(), False  # another one begins anew
        self.beside_at = 0.0
        self.is_runner_gone = not core.is_over(self.state)
        # With the program's parent its exit code is lost.
        self.is_code_lost = self.chance.random() < ALL_DIE

    def raise_runner(self) -> None:
        """Let another runner go on where one was that died."""
        state, world, worker = self.state, self.world, self.edges.worker
        has_left = world.attempt == state.attempt > 0 and not self.is_code_lost
        is_copying = worker is not None and worker.code is None
        lives, has_left = world.is_alive, has_left and not world.is_alive
        self.state = core.take_up(state, lives, has_left, is_copying, is_same_boot=True)
        self.is_runner_gone = False

    def go(self, tell: Callable[[str], None] | None = None) -> None:
        """Play it to its end. Raises Broken."""
        world = self.world
        over = self.job.deadline_seconds + self.job.at_end.unproven_minutes * 60 + AFTER
        while world.now < over:
            if world.is_gone:
                self.checks.after_gone()
                if not self.boots():
                    return
                continue
            if world.now >= self.down_until:
                self.step()
                if tell is not None and (self.actions or self.before.phase != self.state.phase):
                    tell(self.row())
                if world.is_gone:
                    continue
                self.checks.after_step()
                self.end_livelock()
                tick = self.job.timings.tick if self.is_behind else NEVER
                until = max(min(self.wake, world.now + tick), world.now)
            if world.now < self.down_until:
                until = self.down_until  # another one is there then, whenever this one would wake
            elif self.looks_soon():
                # A save is looked at again and again.
                until = min(until, max(self.looked_at + LOOK, world.now))
            until = self.skip(until)
            self.wait(until)
            if self.is_skipping:
                self.is_skipping, self.checks.skipped_at = False, world.now
            self.checks.after_time()

    def wait(self, until: float) -> None:
        """Let time pass until a moment, or until something happens that is seen: what a round of
        copies does meanwhile is not."""
        world = self.world
        while not self.looks_before(min(until, world.next_at)):
            if self.let_happen(until) or world.now >= until:
                return
            self.checks.after_time()
            self.moments += 1
            self.end_livelock()

    def looks_before(self, moment: float) -> bool:
        """Return whether a look before this moment is still going on then; time is at its begin.

        A box is looked at each tick, and where nothing happens the night leaves those looks out. Of
        the last one before a moment it leaves out only what is over by then.
        """
        world, takes = self.world, self.pace.takes()
        begin = moment - self.job.timings.tick * self.pace.share() if takes else moment
        if begin + takes <= moment or begin <= world.now or world.now < self.down_until:
            return False
        world.now, self.look_takes = begin, takes
        return True

    def let_happen(self, until: float) -> bool:
        """Let the next thing happen, or time pass until a moment; return whether that is seen."""
        world, edges = self.world, self.edges
        is_going = edges.worker is not None and edges.worker.code is None
        is_own = world.next_kind == "worker"
        world.advance(min(until, max(world.next_at, world.now)), edges.happen)
        worker = edges.worker
        return not (is_going and is_own and worker is not None and worker.code is None)

    def end_livelock(self) -> None:
        """Raise Broken where the night comes to no end; each death of a supervisor makes it longer."""
        if self.steps + self.moments > MOST_STEPS + STEPS_A_DEATH * self.deaths:
            raise Broken("no_livelock", f"{self.steps} steps, {self.moments} of copies")

    def looks_soon(self) -> bool:
        """Return whether what an action changed at once, a save, or that a runner has gone is looked
        at: a real box is looked at four times a second, by its supervisor once."""
        has_ended = any(isinstance(action, (CutCopy, Kill)) for action in self.actions)
        has_gone = core.is_over(self.state) and not core.is_over(self.before)
        return has_ended or has_gone or (self.state.phase == "saving" and self.world.is_alive)

    def skip(self, until: float) -> float:
        """Return when to go on: of a run that ended long ago, and was told, not before something
        happens."""
        ended, now = self.checks.ended_at, self.world.now
        soon = self.job.deadline_seconds - 300.0
        if ended is None or not self.edges.marked or not ended + IDLE < now < soon:
            return until
        if self.edges.marker.owes_word:
            return until
        self.is_skipping = True
        return max(until, soon)

    def boots(self) -> bool:
        """Return whether the run goes on on another box; then that is there."""
        world = self.world
        if world.was_ended or world.stop_asked or self.state.phase in ("done", "failed"):
            return False
        if world.boxes > 3 or self.chance.random() < 0.3:
            return False
        world.advance(world.now + BOOT_SECONDS, lambda kind, token: None)
        if self.edges.left() <= 0 or world.stop_asked:
            return False
        world.boot()
        self.edges.move()
        self.state, self.down_until, self.born_at = core.State(), -1.0, world.now
        self.over, self.is_left, self.is_runner_gone = supervise.SupervisorState(), False, False
        self.beside_at, self.beside_signalled = 0.0, 0
        self.checks.another_box()
        return True

    def row(self) -> str:
        """Say in a line what just happened."""
        world = self.world
        files = " ".join(
            f"{one.name}#{one.content}{'w' if one.is_writing else '' if one.is_complete else '!'}"
            for one in list(world.files.values())[-3:]
        )
        there = " ".join(
            f"{name}{'' if one.manifest else '~'}{'' if one.is_complete else '!'}"
            for name, one in world.generations.items()
        )
        alive = f"at {world.step}" if world.is_alive else f"ended {world.code}"
        asked = f" ({self.state.asked})" if self.state.asked else ""
        done = "; ".join(map(_short, self.actions)) or "-"
        return (
            f"{world.now:8.0f} {self.state.phase}{asked}, {alive}, here: {files or '-'},"
            f" there: {there or '-'} | {done}"
        )


def _short(action: Any) -> str:
    words = " ".join(str(part)[:40] for part in action)
    return f"{type(action).__name__} {words}".strip()


def play(seed: int, tell: Callable[[str], None] | None = None) -> Night:
    """Play the night of a seed, and return how it went. `tell`: gets a line for each step at which
    something is done."""
    one = Play(seed)
    try:
        one.go(tell)
    except Broken as broken:
        return Night(seed, one.steps, broken.name, broken.what)
    except (AssertionError, AttributeError, KeyError, ValueError, TypeError, IndexError) as error:
        return Night(seed, one.steps, "it_goes_on", f"{type(error).__name__}: {error}")
    return Night(seed, one.steps, "", "")


__all__ = ["ENDS", "NEVER", "Broken", "Night", "Play", "play"]
