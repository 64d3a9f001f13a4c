"""A run from its start to its end: checks, attempts, the last copy, the marker."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress

from . import (
    before,
    deadline,
    ending,
    notices,
    preflight,
    procs,
    program,
    results,
    safe,
    saving,
    state,
    stopping,
    sync,
    why,
)
from .attempts import Attempts
from .context import Run, say
from .copies.records import read_mixed
from .failures import FAILED_TWICE
from .folder import ENDS
from .heart import Heart, raise_helpers
from .locks import Lease, RunLock
from .phases import CODES
from .why import WAITS, Verdict

BOOTED = "this box has just booted; waiting"  # how the reason begins meanwhile
OF_AN_END = (".done", ".failed", ".preempted", "notice", "final-sync", "quiet")
GPU_KINDS = ("no-gpu", "busy", "held", "kernel", "driver")


class Runner:
    """One start of a run, or one that was raised because the runner before it was gone."""

    def __init__(self, run: Run, again: bool = False, raised: bool = False, sent_at: str = ""):
        self.run, self.again, self.raised, self.sent_at = run, again, raised, sent_at
        self.state = state.State(run)
        self.lease = Lease(run)
        self.heart = Heart(run, self.state, self.lease)
        self._end_before: dict[str, str] = {}  # the files of the run's end before this start

    def go(self, arguments: list[str] | None = None) -> int:
        """Run to the end; return the exit code. `arguments` are added to the command."""
        run = self.run
        run.folder.make()
        lock = RunLock(run)
        if told := lock.take(wait=5 if is_leaving(run) else 0):
            say(told)
            return CODES["preempted"]
        if self.raised and run.folder.ended():
            return 0  # the end came first
        if not self.raised:
            over = end_if_over(run, self.again)
            if over is not None:
                return over
        if self.again:
            run.folder.remove(".same-failure", "last-failure", ".unsaved")
        keep_script(run)
        try:
            at = deadline.settle(run)
        except ValueError as error:
            return self._refuse(str(error), "usage")
        if run.now >= at:
            ago = int(run.now - at)
            if not self.raised:
                why_not = f"the deadline of {run.spec.name} passed {ago} s ago"
                how = "rgt resume BOX --set deadline=... gives it a later one"
                return self._refuse(f"{why_not}; {how}")
        self.state.deadline = at
        if told := self.lease.take(self.heart.beat):
            return self._refuse(told, "preempted")
        # The folder that was locked may have gone while the lease was waited for; what lies under
        # its name now is another start's.
        if not lock.is_held():
            say(f"{run.spec.name}: the run folder was taken away; call start again")
            return CODES["preempted"]
        self.heart.listen()
        code = self._go(arguments or [])
        self.lease.free()
        return code

    def attempts(self, arguments: list[str]) -> Attempts:
        """Return what tries until the program is done."""
        return Attempts(self.heart, arguments)

    def _go(self, arguments: list[str]) -> int:
        run, now = self.run, self.state
        attempts = self.attempts(arguments)
        if self.raised or self._is_interrupted():
            now.read()
            ended = self._take_up(attempts)
            if ended is not None:
                return ended
        else:
            now.phase = "new"
        self._end_before = _end_of(run)
        now.started = now.started or int(run.now)
        if now.phase != "preflight":
            now.phase = "new"
            now.outcome = now.failure = now.entry = now.reason = now.again = ""
            now.exit, now.missing = None, []
            now.move("start")
        self._begin()
        run.event("start", boot=procs.boot_id(), target=run.spec.target, job=run.spec.job_sha)
        self._end_orphans()
        raise_helpers(run)
        results.note_before(run)
        run.folder.keep_spare()
        _write_code_notes(run)
        if run.folder.has(".unsaved") and not self.again:
            self._take_marker("unsaved")
            now.move("only the copy is owed")
            return self._finish(Verdict("", "", ""))
        refusals = self._refusals()
        if refusals and not run.asked:
            return self._refused(refusals)
        if not run.asked:
            now.move("ready")
            verdict = before.stage(run, self.heart.beat)
            if not verdict.failure and not run.asked:
                return self._finish(attempts.go(), attempts)
            code = run.folder.number("install.rc")
            now.exit = None if code is None else int(code)
        else:
            verdict = Verdict("preempted", "", run.asked)
        if run.asked:
            verdict = why.classify(run, _nothing_tried(run))
        return self._finish(verdict, attempts)

    def _refusals(self) -> list[preflight.Refusal]:
        """Return what speaks against a start.

        Where the run has trained before and the box has booted since, a mount or a driver may come
        a little later: it is looked for again.
        """
        run, now, timings = self.run, self.state, self.run.spec.timings
        age, found = procs.seconds_up(), preflight.check(run, self.sent_at, self.heart.beat)
        until = run.up + timings.settle - age
        is_back = 0 < run.folder.changed("attempt.json", "queue.json") < run.now - age
        while is_back and run.up < until and found and not run.asked:
            if any(refusal.kind not in preflight.LATER for refusal in found):
                break
            if now.reason != f"{BOOTED}: {found[0].reason}":
                now.reason = f"{BOOTED}: {found[0].reason}"
                run.log(now.reason)
                now.write()
            again = run.up + timings.settle_wait
            while run.up < again and not self.heart.beat():
                run.clock.nap(timings.tick)
            found = preflight.check(run, "", self.heart.beat)
        now.reason = ""
        return found

    def _is_interrupted(self) -> bool:
        """Return whether this very job's program trains on without its runner."""
        run = self.run
        same = run.folder.read("job.sha").strip() == run.spec.job_sha
        return same and not self.again and bool(procs.alive(run.folder, "train"))

    def _take_up(self, attempts: Attempts) -> int | None:
        """Go on where a killed runner was; None where that is at the beginning."""
        run, now = self.run, self.state
        procs.note_pid(run.folder, "runner", os.getpid())
        run.folder.touch("start.begun")
        raise_helpers(run)
        run.event("raised", phase=now.phase)
        run.asked = run.folder.read("asked").strip()
        if not run.asked and now.phase == "saving":
            run.asked = run.folder.read("save-now").strip()
        if now.outcome:
            now.phase = "syncing"
            return self._finish_copy(now.outcome)
        told = run.folder.json("attempt.json").get("attempt")
        left = run.folder.json("rc").get("number") == told and told is not None
        left = left and now.phase not in ("preflight", "staging")  # that is of an earlier start
        if not procs.of_program(run.folder) and not left:
            run.log(f"the runner was gone in the phase {now.phase}; going on from there")
            self.heart.look_at_log()  # the program may have told more steps than the state
            if now.phase in ("running", "saving"):
                reason = "its runner and its program were killed"
                run.event("ended", attempt=now.attempt, **{"class": "killed"}, reason=reason)
            return None
        now.phase = "preflight"
        return self._finish(attempts.go(adopt=True), attempts)

    def _begin(self) -> None:
        """Forget the last run's end, and tell whoever started this one."""
        run = self.run
        run.folder.remove(*OF_AN_END, ".refused", WAITS, saving.FILE, ending.RECORD)
        if not self.raised:
            run.folder.remove("asked")
        run.folder.write("job.sha", run.spec.job_sha + "\n")
        procs.note_pid(run.folder, "runner", os.getpid())
        run.folder.touch("start.begun")

    def _refuse(self, reason: str, end: str = "refused") -> int:
        self.run.log(reason)
        self.run.folder.write("start.refused", reason + "\n")
        return CODES[end]

    def _refused(self, refusals: list[preflight.Refusal]) -> int:
        run, now = self.run, self.state
        run.folder.touch(".refused")
        tell_refusals(run, refusals)
        if self._end_before:  # the run is what it was: nothing of it was begun
            run.event("refused-again")
            for name, text in self._end_before.items():
                run.folder.write(name, text)
            run.folder.remove("runner.pid")
            return CODES["refused"]
        kind, entry, reason = refusals[0]
        failure = "disk" if kind in ("disk", "inodes") else "preflight"
        if kind in GPU_KINDS:
            failure = "gpu"
        now.failure, now.entry, now.reason = failure, entry, f"preflight: {reason}"
        now.move("failed")
        self._close("failed")
        return CODES["refused"]

    def _end_orphans(self) -> None:
        """A program of another start writes to the same checkpoints: it saves and ends first."""
        run = self.run
        from . import rehearsal

        rehearsal.end_left(run)
        left = procs.of_program(run.folder)
        if not left:
            return
        run.event("orphan", processes=len(left))
        run.log("an earlier program still runs without its runner; asking it to save")
        if procs.alive(run.folder, "train"):
            run.folder.remove("save-now")
            stopping.wait_for_save(run, "orphan", run.spec.save_seconds)
            program.ask_to_save(run, "orphan")
            until = run.up + run.spec.save_seconds
            while run.up < until and procs.alive(run.folder, "train"):
                run.clock.nap(0.1)
        procs.kill_program(run.folder)

    def _take_marker(self, end: str) -> None:
        told, now = self.run.folder.json(f".{end}"), self.state
        for name in ("step", "exit", "attempt"):
            if isinstance(told.get(name), int):
                setattr(now, name, told[name])

    def _finish(self, verdict: Verdict, attempts: Attempts | None = None) -> int:
        """Write what the run came to, and then copy it for the last time."""
        now = self.state
        now.failure, now.entry, now.reason = verdict
        if not verdict.failure:
            outcome = "done"
        elif verdict.failure in ("preempted", "deadline"):
            outcome = "preempted"
        else:
            outcome = "failed"
        now.outcome = outcome
        if outcome == "preempted":
            # The box of a preempted run may go at any moment, so its marker comes first.
            now.phase = "saving" if now.phase == "running" else now.phase
            now.move("asked")
            now.mark("preempted")
        elif now.phase != "syncing":
            now.move("ended" if outcome == "done" else "failed")
        return self._finish_copy(outcome)

    def _finish_copy(self, outcome: str) -> int:
        run, now = self.run, self.state
        whole = True
        if run.spec.durable:
            # A request during the last copy doesn't undo the end, it only hurries it.
            whole = self.heart.sync.last(outcome == "done", now.deadline, self.heart.beat)
        told = sync.unverified(run)
        if not whole:
            run.log(f"{told}: see {run.folder.at('synced.tsv')}")
        if outcome == "done" and not whole:
            now.failure, outcome = "unsaved", "unsaved"
            now.reason = told + (f"; {now.reason}" if now.reason else "")
        elif not whole:
            now.reason += f"; {told}"
        if now.phase == "syncing":
            now.move({"done": "verified", "unsaved": "not verified"}.get(outcome, "failed"))
        return self._close(outcome)

    def _close(self, outcome: str) -> int:
        run, now = self.run, self.state
        self.heart.series.beat()  # a last row, and what the log told at last
        if now.checkpoint in read_mixed(run):
            now.checkpoint = safe.judged_now(run, now.checkpoint)
        now.write()
        run.event(
            outcome,
            **{"class": now.failure},
            entry=now.entry,
            reason=now.reason,
            exit=now.exit,
        )
        run.log(outcome + (f": {now.reason}" if now.reason else ""))
        now.mark(outcome)
        run.folder.remove("runner.pid")
        if now.failure == "deadline":
            notices.notify(run, notices.at_deadline(now.step, now.cost))
        elif outcome != "preempted":
            notices.notify(run, notices.at_end(now))
        if now.failure == "preempted":
            self._requeue()
        return exit_code(run, now)

    def _requeue(self) -> None:
        """Go back into Slurm's queue after a save that Slurm asked for; no exit code does that."""
        job = os.environ.get("SLURM_JOB_ID", "")
        if self.run.spec.requeue and self.heart.signalled == "USR1" and job:
            self.run.event("requeue", job=job)
            with suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(["scontrol", "requeue", job], timeout=60, check=False)


def _end_of(run: Run) -> dict[str, str]:
    """Return the files that tell how a run ended that has trained; {} for any other."""
    attempt = run.folder.json("state.json").get("attempt")
    if not run.folder.ended() or not isinstance(attempt, int) or attempt < 1:
        return {}
    names = [name for name in ("state.json", *OF_AN_END) if run.folder.has(name)]
    return {name: run.folder.read(name) for name in names}


def exit_code(run: Run, now: state.State) -> int:
    """Return the code that tells how the run ended; else the program's own.

    A program's own code that this table uses for something else becomes 1.
    """
    end = now.failure or "done"
    if end == "preempted" and run.asked == "asked":
        end = "stopped"
    if end in CODES:
        return CODES[end]
    own = now.exit or 0
    return 1 if own == 0 or own >= 74 and own in CODES.values() else own


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
    if run.folder.has(".same-failure"):
        script = run.folder.at("run.sh")
        say(f"{run.spec.name} {FAILED_TWICE}; fix it, then: bash {script} resume")
        return CODES["refused"]
    return None


def keep_script(run: Run) -> None:
    """Keep a copy of the script for runner and keeper, so that the original may be edited."""
    own = run.folder.at("run.sh")
    with suppress(OSError):
        if not run.script or (os.path.exists(own) and os.path.samefile(run.script, own)):
            return
        temporary = f"{own}.tmp.{os.getpid()}"
        shutil.copyfile(run.script, temporary)
        os.chmod(temporary, 0o700)
        os.replace(temporary, own)


def tell_refusals(run: Run, refusals: list[preflight.Refusal]) -> None:
    """Write each refusal into log and events."""
    for refusal in refusals:
        run.log(f"refused {refusal.entry or '-'} {refusal.reason}")
        run.event("refused", entry=refusal.entry, reason=refusal.reason)


def _nothing_tried(run: Run) -> why.Attempt:
    from . import memory

    return why.Attempt(0, None, run.asked, "", 0, None, memory.note_kills(run), [], set(), "")


def _write_code_notes(run: Run) -> None:
    """Keep what the job says of the state of the code: commit, difference, ignored files."""
    for name in ("commit", "diff", "ignored"):
        text = getattr(run.spec, f"code_{name}")
        if text:
            run.folder.write(f"code.{name}", text if name == "diff" else text.rstrip("\n") + "\n")
