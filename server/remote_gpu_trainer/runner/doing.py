"""What core/decide.py says is done, one function for each of its actions.

An action may fail, hang or be done twice: what came of it is looked at by seeing.py.
"""

from __future__ import annotations

from typing import Any, Callable

from . import (
    before,
    deadline,
    end_words,
    killing,
    notices,
    preflight,
    procs,
    program,
    rehearsal,
    results,
    resuming,
    safe,
    saving,
    stopping,
    sync,
)
from .attempt import Attempt
from .context import Run
from .copies.records import ROWS, read_mixed
from .core import model
from .core.decide import State
from .core.model import Action, Verdict
from .folder import ATTEMPT
from .heartbeat import note_beat
from .seeing import Seeing
from .why import WAITS, Refusal, full_folder

BOOTED = "this box has just booted; waiting"  # how the reason begins meanwhile
OF_AN_END = (".done", ".failed", ".preempted", sync.WHOLE, "quiet")
GPU_KINDS = ("no-gpu", "busy", "held", "kernel", "driver")
DISK_KINDS = ("disk", "inodes")


class Doing:
    """Made once for a runner. `sent_at`: when the start was sent, for the check of the clock.
    `is_new`: a start of its own, and none that was raised. `again`: of a run that has ended."""

    def __init__(self, seeing: Seeing, sent_at: str, is_new: bool, again: bool):
        self.seeing, self.heartbeat, self.run = seeing, seeing.heartbeat, seeing.run
        self.attempt: Attempt = seeing.attempt
        self.copies, self.state = seeing.copies, seeing.heartbeat.state
        self.sent_at, self.is_new, self.again = sent_at, is_new, again
        self._refused: list[Refusal] = []
        # The files of the run's end before this start, while nothing of it was begun.
        self._end_before = _end_of(self.run) if is_new else {}
        self._is_closed = False

    def do(self, action: Action, was: State, now: State) -> None:
        """Do one action. `was`, `now`: the states before and after the decision."""
        todo: dict[type, Callable[[Any], None]] = {
            model.Begin: lambda _: self._begin(),
            model.Check: lambda _: self._check(),
            model.Stage: lambda _: self._stage(),
            model.Fetch: lambda _: self.attempt.fetch(),
            model.Quarantine: lambda it: self.attempt.choice.quarantine(it.path),
            model.SetAside: lambda it: resuming.set_aside(self.run, it.path, it.older),
            model.Restore: lambda it: resuming.restore(self.run, it.path),
            model.Hold: lambda it: self.attempt.holder.begin(it.number),
            model.Start: self.attempt.start,
            model.Signal: lambda it: self.attempt.signal(it.why),
            model.AwaitSave: lambda it: self.attempt.tell_wait(it.path),
            model.Snapshot: lambda it: self.attempt.take_snapshot(it.why),
            model.Kill: self.attempt.kill,
            model.NoteExit: self._note_exit,
            model.Copy: self.copies.start,
            model.CutCopy: lambda _: self.copies.cut(now.copying.failures > was.copying.failures),
            model.NoteFailure: self.copies.note_failure,
            model.Mark: lambda it: self._mark(it.end, now),
            model.Note: self._note_wait,
            model.Tell: lambda it: self._tell(it, now),
        }
        todo[type(action)](action)

    # Before the program.

    def _begin(self) -> None:
        """Forget the last run's end, tell whoever started this one, and end what it left."""
        run, now = self.run, self.state
        now.outcome = now.failure = now.entry = now.reason = now.again = ""
        now.exit, now.missing = None, []
        # Another start than `resume` began while nothing was done: the copy has come through since.
        old = [name for name in OF_AN_END if name != ".done" or self.again]
        run.folder.remove(*old, ".refused", WAITS, saving.FILE, end_words.RECORD)
        if self.is_new:
            run.folder.remove("asked")
        note_begun(run)
        target, job = run.spec.rendered.target, run.spec.rendered.job_sha
        run.event("start", boot=procs.boot_id(), target=target, job=job)
        self._end_orphans()
        results.note_before(run)
        run.folder.keep_spare()
        _write_code_notes(run)
        marker = run.folder.json(".unsaved")
        for name in ("step", "exit"):
            if isinstance(marker.get(name), int):
                setattr(now, name, marker[name])

    def _end_orphans(self) -> None:
        """A program of another start writes to the same checkpoints: it saves and ends first."""
        run = self.run
        rehearsal.end_left(run)
        left = procs.of_program(run.folder)
        if not left:
            return
        run.event("orphan", processes=len(left))
        run.log("an earlier program still runs without its runner; asking it to save")
        if procs.alive(run.folder, "train"):
            run.folder.remove("save-now")
            stopping.wait_for_save(run, "orphan", run.spec.checkpoint.save_seconds)
            program.ask_to_save(run, "orphan")
            until = run.up + run.spec.checkpoint.save_seconds
            while run.up < until and procs.alive(run.folder, "train"):
                run.clock.nap(0.1)
        killing.kill_program(run.folder)

    def _check(self) -> None:
        """Look what speaks against a start. Where the run has trained before and the box has booted
        since, a mount or a driver may come a little later."""
        run, seeing, age = self.run, self.seeing, procs.seconds_up()
        found = self._refused = preflight.check(run, self.sent_at, self.heartbeat.beat)
        self.sent_at = ""
        seeing.refusals = tuple(
            Verdict(_failure_of(one.kind), one.entry, f"preflight: {one.reason}") for one in found
        )
        is_back = 0 < run.folder.changed(ATTEMPT, "queue.json") < run.now - age
        may_come = is_back and all(one.kind in preflight.LATER for one in found)
        seeing.settles_until = run.up + run.spec.timings.settle - age if may_come else 0.0
        if not found:
            self.state.reason = ""

    def _note_wait(self, action: model.Note) -> None:
        if action.kind == "hold":
            self.run.folder.write(WAITS, action.text + "\n")
            return
        reason = f"{BOOTED}: {self._refused[0].reason}"
        if self.state.reason != reason:
            self.state.reason = reason
            self.run.log(reason)
            self.state.write()

    def _stage(self) -> None:
        verdict = before.stage(self.run, self.heartbeat.beat)
        code = self.run.folder.number("own/install.rc") if verdict.failure else None
        self.state.exit = None if code is None else int(code)
        if verdict.failure or not self.run.asked:
            self.seeing.staged = verdict

    # After an attempt.

    def _note_exit(self, action: model.NoteExit) -> None:
        run, now = self.run, self.state
        failure, entry, reason = action.verdict
        verdict = {"class": failure, "entry": entry, "reason": reason}
        run.event("ended", attempt=now.attempt, exit=now.exit, step=now.step, **verdict)
        if failure:
            shown = "unknown" if now.step is None else now.step
            of = f" ({entry})" if entry else ""
            run.log(f"ended: {failure}{of}: {reason}, exit {now.exit}, step {shown}")
        if action.wait is not None:
            run.event("retry", **{"class": failure}, after=action.wait)

    def _tell(self, action: model.Tell, core: State) -> None:
        """Send a message, in the words that its kind has here."""
        run, now, text = self.run, self.state, action.text
        if action.key == "room":
            run.folder.stamp(WAITS, run.now)
            minutes = f"{run.spec.timings.room_wait / 60:g} minutes"
            waits = f"no room left in {full_folder(run)}: waiting up to {minutes} for room"
            run.log(f"{waits}, then trying again")
            text = f"{waits}, then trying again; remove something there"
        elif action.key == "place":
            minutes = f"{run.spec.timings.place_wait / 60:g} minutes"
            text = f"{text}: asking again for up to {minutes}, no complete checkpoint is here"
            run.log(text)
        elif action.key == "over":
            text = notices.at_deadline(deadline.cause_of(run), now.step, now.cost)
        elif action.key == "end":
            text = notices.at_end(now)
        if action.key in ("end", "over"):
            if not (core.is_refused and self._end_before):
                notices.tell_end(run, core.phase, text)
        else:
            notices.notify(run, text)

    def _mark(self, end: str, now: State) -> None:
        """Leave the marker of an end; of one that the last copy follows, without its last words."""
        self.run.folder.remove(WAITS)
        if now.is_refused:
            self.run.folder.touch(".refused")
            preflight.tell_refusals(self.run, self._refused)
        if now.is_refused and self._end_before:  # the run is what it was: nothing of it was begun
            self.run.event("refused-again")
            for name, text in self._end_before.items():
                self.run.folder.write(name, text)
            if self.run.folder.has(".failed"):  # somebody sits there, and mends what was refused
                self.run.folder.mark("failed", {**self.run.folder.json(".failed"), "refused": True})
            notices.note_told(self.run, self.run.folder.ended())
        elif now.is_settled or now.is_refused:
            self._close(end)
        else:
            self.state.mark(end)

    def _close(self, end: str) -> None:
        run, now = self.run, self.state
        if self._is_closed:
            return
        self._is_closed = True
        self.heartbeat.series.beat()  # a last row, and what the log told at last
        if now.checkpoint in read_mixed(run):
            now.checkpoint = safe.name_if_usable(run, now.checkpoint)
        now.write()
        if (unverified := sync.unverified(run)) in now.reason:
            run.log(f"{unverified}: see {run.folder.at(ROWS)}")
        verdict = {"class": now.failure, "entry": now.entry, "reason": now.reason}
        run.event(end, **verdict, exit=now.exit)
        run.log(end + (f": {now.reason}" if now.reason else ""))
        now.mark(end)


def note_begun(run: Run) -> None:
    """Tell who started this runner, and its supervisor, that it goes on."""
    run.has_begun = True
    note_beat(run)
    if run.link:
        run.link.begin()


def _failure_of(kind: str) -> str:
    """Return the class of failure of a refusal."""
    if kind in DISK_KINDS:
        return "disk"
    return "gpu" if kind in GPU_KINDS else "preflight"


def _end_of(run: Run) -> dict[str, str]:
    """Return the files that tell how a run ended that has trained; {} for any other."""
    attempt = run.folder.json("state.json").get("attempt")
    if not run.folder.ended() or not isinstance(attempt, int) or attempt < 1:
        return {}
    names = [name for name in ("state.json", *OF_AN_END) if run.folder.has(name)]
    return {name: run.folder.read(name) for name in names}


def _write_code_notes(run: Run) -> None:
    """Keep what the job says of the state of the code: commit, difference, ignored files."""
    for name, text in run.spec.rendered.code.items():
        if text:
            run.folder.write(
                f"log/code.{name}", text if name == "diff" else text.rstrip("\n") + "\n"
            )
