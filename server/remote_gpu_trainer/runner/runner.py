"""A run from its start to its end: one loop looks, decides and does, until the run is over.

What is decided: core/decide.py. What it goes by: seeing.py. What is done: doing.py.
"""

from __future__ import annotations

import os
from contextlib import suppress

from . import child, deadline, failures, parts, procs, state
from .attempt import Attempt
from .context import Run, say
from .core import decide
from .core.ends import exit_code
from .core.model import Action, as_json, of_json
from .core.phases import CODES
from .doing import Doing, note_begun
from .failures import FAILED_TWICE
from .folder import ENDS
from .heartbeat import Heartbeat
from .locks import Lease, RunLock
from .seeing import Seeing
from .sync import Sync


class Runner:
    """One start of a run, or one that was raised because the runner before it was gone."""

    def __init__(self, run: Run, again: bool = False, raised: bool = False, sent_at: str = ""):
        self.run, self.again, self.raised, self.sent_at = run, again, raised, sent_at
        self.state = state.StateFile(run)
        self.lease = Lease(run)
        self.heartbeat = Heartbeat(run, self.state, self.lease)
        self.copies = Sync(run)
        self.core = decide.State()
        self.is_new = True  # it takes no program of another runner over

    def go(self, arguments: list[str] | None = None) -> int:
        """Run to the end; return the exit code. `arguments` are added to the command."""
        run = self.run
        run.folder.make()
        lock = RunLock(run)
        if refusal := lock.take(wait=5 if is_leaving(run) else 0):
            say(refusal)
            return CODES["preempted"]
        if self.raised and run.folder.ended():
            return 0  # the end came first
        if not self.raised:
            over = end_if_over(run, self.again)
            if over is not None:
                return over
        if self.again:
            run.folder.remove(".unsaved")
            state.forget_tries(run.folder)
        keep_script(run)
        self.is_new = not self.raised and not self._is_interrupted()
        if self.is_new:  # before the first beat, which writes state.json
            self.state.core = state.core_of(run.folder)
        else:
            self.state.read()
        try:
            at = deadline.settle(run)
        except ValueError as error:
            return self._refuse(str(error), "usage")
        if run.now >= at:
            ago = int(run.now - at)
            if not self.raised:
                why_not = f"{run.spec.name}: {deadline.cause_of(run)} ran out {ago} s ago"
                how = "rgt resume BOX --set deadline=..., or budget=..., gives it more"
                return self._refuse(f"{why_not}; {how}")
        self.state.deadline = at
        if refusal := self.lease.take(self.heartbeat.beat):
            return self._refuse(refusal, "preempted")
        # The folder that was locked may have gone while the lease was waited for; what lies under
        # its name now is another start's.
        if not lock.is_held():
            say(f"{run.spec.name}: the run folder was taken away; call start again")
            return CODES["preempted"]
        self.heartbeat.listen()
        code = self._go(arguments or [])
        self.lease.free()
        return code

    def attempt(self, arguments: list[str]) -> Attempt:
        """Return what starts and shows the program."""
        return Attempt(self.heartbeat, arguments)

    def _go(self, arguments: list[str]) -> int:
        """Look, decide and do, until the run is over."""
        run, now, attempt = self.run, self.state, self.attempt(arguments)
        if self.is_new:
            before = of_json(decide.State, now.core)
            self.core = decide.start_again(self._add_known(before))
        else:
            self._take_up(attempt)
        now.started = now.started or int(run.now)
        seeing = Seeing(self.heartbeat, attempt, self.copies)
        doing = Doing(seeing, self.sent_at, self.is_new, self.again)
        while not decide.is_over(self.core):
            was = self.core
            self.core, actions = self.look_and_decide(seeing)
            self._store(was, bool(actions))
            for action in actions:
                doing.do(action, was, self.core)
            if self.core.phase == was.phase:
                run.clock.nap(run.spec.timings.tick)
        procs.forget_pid(run.folder, "runner")  # what is told of the box comes behind that
        if now.failure == "preempted":
            self._requeue()
        return exit_code(now.failure, self.core.asked, now.exit, self.core.is_refused)

    def _store(self, was: decide.State, acts: bool) -> None:
        """Take over what was decided: before it is done, a runner that comes back must know it.
        `acts`: something is done."""
        run, now, core = self.run, self.state, self.core
        if core != was or not now.core:
            now.core = as_json(core)
        now.attempt, now.again, now.outcome = core.attempt, core.again, core.outcome
        now.stalled = bool(core.watching.stalled)
        if core.verdict != was.verdict:
            now.failure, now.entry, now.reason = core.verdict
        if core.code != was.code:
            now.exit = core.code
        if core.asked != was.asked:
            run.asked = core.asked
        if core.last_whole and not was.last_whole:
            run.event("first-checkpoint", path=core.last_whole)
        self.copies.note_success(was.copying, core.copying)
        if core.phase != was.phase:
            now.phase = core.phase
            run.event("phase", phase=core.phase)
        if acts or core.phase != was.phase:
            now.write(lasting=core.phase != was.phase)

    def _add_known(self, core: decide.State) -> decide.State:
        """Add what attempt.json knows where state.json was lost."""
        return core._replace(attempt=max(core.attempt, self.run.folder.attempt() or 0))

    def look_and_decide(self, seeing: Seeing) -> tuple[decide.State, list[Action]]:
        """Look, and return what follows.

        The time is read before the look: what falls due meanwhile, such as another attempt, was not
        looked at as due, and the checkpoints that it would begin from aren't known.
        """
        at = self.run.up
        core, actions, _ = decide.decide(self.run.spec, self.core, seeing.see(self.core), at)
        return core, actions

    def _is_interrupted(self) -> bool:
        """Return whether this very job's program trains on without its runner."""
        run = self.run
        starts = [row for row in run.folder.rows("events.jsonl") if row.get("event") == "start"]
        is_same = bool(starts) and starts[-1].get("job") == run.spec.rendered.job_sha
        return is_same and not self.again and bool(procs.alive(run.folder, "train"))

    def _take_up(self, attempt: Attempt) -> None:
        """Go on where a killed runner was."""
        run, now = self.run, self.state
        note_begun(run)
        run.event("raised", phase=now.phase)
        before = self._add_known(of_json(decide.State, now.core))
        run.asked = run.folder.read("asked").strip() or before.asked
        may_be = bool(procs.of_program(run.folder)) or before.phase in ("running", "saving")
        has_left = may_be and attempt.adopt()
        lives, is_copying = attempt.is_alive(), self.copies.is_going()
        self.core = decide.take_up(before, lives, has_left, is_copying, now.is_same_boot)
        if self.core.phase == "new":
            run.log(f"the runner was gone in the phase {now.phase}; going on from there")
            self.heartbeat.look_at_log()  # the program may have told more steps than the state
            if now.phase in ("running", "saving"):
                reason = "its runner and its program were killed"
                run.event("ended", attempt=now.attempt, **{"class": "killed"}, reason=reason)

    def _refuse(self, reason: str, end: str = "refused") -> int:
        self.run.log(reason)  # and to whoever starts this: the code says that nothing began
        return CODES[end]

    def _requeue(self) -> None:
        """Go back into Slurm's queue after a save that Slurm asked for; no exit code does that."""
        job = os.environ.get("SLURM_JOB_ID", "")
        spec = self.run.spec
        # Of several nodes none asks for it: the batch shell does, when all have ended.
        is_ours = spec.rendered.target == "slurm" and spec.slurm.requeue and spec.nodes == 1
        if is_ours and self.heartbeat.signalled == "USR1" and job:
            self.run.event("requeue", job=job)
            child.answer(["scontrol", "requeue", job], 60)


def is_leaving(run: Run) -> bool:
    """Return whether the run that may hold the lock has ended, and is just leaving."""
    return bool(run.folder.ended()) or run.folder.json("state.json").get("phase") in ENDS


def end_if_over(run: Run, again: bool) -> int | None:
    """Return the exit code where there is nothing to start; `resume` starts all the same."""
    if again:
        return None
    if run.folder.has(".done"):
        print(f"{run.spec.name} is already done; nothing was started (resume runs it again)")
        return 0
    if run.folder.json(".failed").get("again") == failures.TWICE:
        script = run.folder.at("run.sh")
        say(f"{run.spec.name} {FAILED_TWICE}; fix it, then: bash {script} resume")
        return CODES["refused"]
    return None


def keep_script(run: Run) -> None:
    """Keep script and run.d for runner and supervisor, so that the originals may be edited."""
    with suppress(OSError):
        parts.keep(run)
