"""What stands between the core and the world: looks, acts, and the worker that copies.

It is as honest as the real edges are meant to be, and no more careful: what to copy, drop and bring
back is asked of `plan.py`, as the real worker asks it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from remote_gpu_trainer.runner.completeness import AT_ONCE, COMPLETE, CORRUPT, REST, UNKNOWN
from remote_gpu_trainer.runner.copies import plan
from remote_gpu_trainer.runner.core import box, model
from remote_gpu_trainer.runner.core.decide import State, is_due
from remote_gpu_trainer.runner.core.model import (
    Command,
    Exit,
    Folder,
    Kept,
    Local,
    Save,
    Seen,
    Signs,
    Verdict,
    Worker,
)

from . import draw
from .draw import NEVER
from .world import SIZE, File, Generation, World

CHECK_SECONDS, STAGE_SECONDS, END_SECONDS, END_LIMIT = 2.0, 20.0, 5.0, 60.0
GONE_SECONDS = 20.0  # from an end command that was accepted to the end of the box
RESULT_SECONDS = 5.0  # to copy and compare what is no checkpoint
TRIES, LONGEST = 3, 60.0  # of a round of copies, as rounds.py has them
RESULT = "result.pt"


class Round:
    """A worker that copies. `overtaken`: how often each name changed while it was copied;
    `kinds`: of these; `missed`: those of which none was copied since."""

    __slots__ = (
        "attempt", "code", "copying", "is_full", "is_staged", "is_whole", "kinds", "missed",
        "moved_at", "number", "overtaken", "serial", "since", "stamp", "why",
    )  # fmt: skip

    def __init__(self, number: int, mode: str, now: float, overtaken: frozenset[str]):
        self.number, self.why = number, ""
        self.code: int | None = None
        self.is_full, self.is_whole = mode != "quick", mode == "whole"
        self.since = self.moved_at = now
        self.overtaken: dict[str, int] = {}
        self.kinds: set[str] = set()
        self.missed = set(overtaken)
        self.copying: tuple[Any, File, Generation] | None = None
        self.is_staged, self.stamp, self.attempt = False, "", 0


class Edges:
    """All that the box knows. `forget` loses what a supervisor holds in memory, `move` the box."""

    def __init__(self, world: World, job: SimpleNamespace):
        self.world, self.job = world, job
        self.messages: list[tuple[float, str]] = []  # messages that were sent
        self.lost_messages = world.faults.told_fails
        self.ends_tried: list[float] = []
        self.end_fails = world.faults.end_fails
        self.life = self.rounds = 0
        self.move()

    def move(self) -> None:
        """Begin on a box with nothing of this run."""
        self.worker: Round | None = None
        self.command, self.command_of = Command(), 0  # and the life that started it
        self.marker = box.End()
        self.digests: dict[str, str] = {}  # {stamp: digest} of what was read
        self.own: list[str] = []  # digests that this attempt saved
        self.owned: list[str] = []  # and the one before it
        self.was_anew = False
        self.overtaken: frozenset[str] = frozenset()  # kinds, in the last round
        self.ours: set[str] = set()  # generations whose bytes this box had
        self.has_copied = False
        self.mixed: set[int] = set()
        self.least_apart: dict[str, float] = {}
        self.failed_attempt = 0
        self.safe_stamps: frozenset[str] = frozenset()
        self.verified = ""
        self.result_safe = 0
        self.is_verified = False
        self.known_states: set[str] = set()
        self.copied: frozenset = frozenset()
        self.began: File | None = None
        self.given_name = ""
        self.owed_at_ask: tuple[str, ...] | None = None
        self.exit: Exit | None = None
        self.hold_worker = Worker()
        self._folder: tuple[int, Folder, File | None] | None = None
        self._stamps_of: tuple = ()
        self._stamps_now: frozenset = frozenset()
        self.forget()

    def forget(self) -> None:
        """Lose what was only in a supervisor's memory."""
        self.life += 1
        self.refusals: tuple[Verdict, ...] | None = None
        self.staged: Verdict | None = None
        self.settles_until = 0.0
        self.is_fetched, self.fetch, self.brought = False, Verdict(), 0
        self.is_held_alone = False  # what is held here is all that the last fetch could see
        self.busy: set[str] = set()
        self.came_at: dict[str, float] = {}
        self.looked_at = 0.0
        self.hold_worker = Worker()

    @property
    def marked(self) -> str:
        """Return the end that the marker names."""
        return self.marker.name

    def seen_command(self) -> Command:
        """Return the end command as the supervisor knows it: one of another it only hears of."""
        if self.command_of == self.life:
            return self.command
        return Command(is_elsewhere=self.command.code is None)

    # Looks.

    def state_of(self, file: File) -> str:
        """Return what a reader says of a checkpoint."""
        if file.is_writing:
            if self.world.faults.reads_early and self.world.program.has_proof:
                return COMPLETE
            return CORRUPT if self.world.program.has_proof else UNKNOWN
        if not self.world.program.has_proof:
            return UNKNOWN
        return COMPLETE if file.is_complete or file.is_mixed else CORRUPT

    def stamp_of(self, file: File) -> str:
        """Return what changes with the bytes of a checkpoint."""
        return f"{file.content}@{self.world.now}" if file.is_writing else str(file.content)

    def folder(self) -> Folder:
        """Return what the checkpoint folder shows."""
        if self._folder is not None and self._folder[0] == self.world.version:
            return self._folder[1]
        whole, unknown, corrupt = None, None, []
        for file in sorted(self.world.files.values(), key=lambda one: -one.order):
            state = self.state_of(file)
            if state == CORRUPT:
                corrupt.append(Local(file.name, "cut short", not file.is_writing))
            elif state == UNKNOWN:
                unknown = unknown or file
            else:
                whole = file
                break
        whole = whole or unknown
        is_mixed = whole is not None and whole.content in self.mixed
        local = Local(whole.name) if whole else None
        found = Folder(local, is_mixed, tuple(corrupt), (), "", "out", bool(self.world.held))
        newest = whole if whole is not unknown else None
        self._folder = (self.world.version, found, newest)
        return found

    @property
    def newest(self) -> File | None:
        """Return the newest complete checkpoint that a reader finds."""
        self.folder()
        assert self._folder is not None
        return self._folder[2]

    def asked(self) -> str:
        """Return who asks for an end, beside the deadline."""
        if self.world.stop_asked:
            return model.ASKED
        return "notice from it" if self.world.vanishes_at < NEVER else ""

    def left(self) -> float:
        """Return the seconds to the deadline, by the clock that says less."""
        left = self.job.deadline_seconds - self.world.now
        return min(left, left - self.world.jumped)

    def see(self, state: State, go_on: Callable[[], None]) -> Seen:
        """Return what is seen in this state, in the order of seeing.py. `go_on`: lets the world go
        on in the middle of the look."""
        world = self.world
        self.looked_at = world.now
        is_alive, left = world.is_alive, self.left()
        refusals, staged, settles = self.refusals, self.staged, self.settles_until - world.now
        worker, stamps = self._worker(), self._stamps()
        has_place = bool(self.job.durable.to)
        new = stamps - self.copied if has_place and stamps != self.copied else frozenset()
        rests = any(not is_writing for _, _, is_writing in new)
        go_on()
        is_own = state.is_open and state.phase in ("running", "saving")
        if is_own and world.attempt == state.attempt:
            is_alive = world.is_alive
            if not is_alive and world.attempt and self.exit is None:
                self.exit = self._judge_exit(self.asked())
        kept, unsafe = self.kept() if self.marked or left <= 0 else (Kept(), "")
        return Seen(
            asked=model.ASKED if world.stop_asked else "",
            notice="notice from it" if world.vanishes_at < NEVER else "",
            left=left,
            save_seconds=self.save_seconds,
            refusals=refusals,
            settles=settles,
            staged=staged,
            folder=self.folder() if is_own or self._chooses(state) else Folder(),
            is_fetched=self.is_fetched,
            fetch=self.fetch,
            attempt=world.attempt,
            is_alive=is_alive,
            exit=None if is_alive else self.exit,
            handles=world.program.on_term == "saves",
            is_signalled=world.signalled == world.attempt > 0,
            save=self._save(),
            signs=self._signs(self.newest) if is_alive else None,
            nan="the loss is nan" if world.is_nan else "",
            is_full=world.is_full,
            unheld=() if is_alive else self.unheld(),
            hold_worker=self.hold_worker,
            worker=worker,
            is_changed=bool(new),
            rests=rests,
            kept=kept,
            unsafe=unsafe,
            marked=self.marked,
            command=self.seen_command(),
            durable=self.job.durable.to,
            script="run.sh",
        )

    def see_beside(self) -> Seen:
        """Return what a supervisor sees beside its runner, which it asks nothing."""
        world = self.world
        return Seen(
            notice="notice from it" if world.vanishes_at < NEVER else "",
            left=self.left(),
            save_seconds=self.save_seconds,
            is_alive=world.is_alive,
            handles=world.program.on_term == "saves",
            is_signalled=world.signalled == world.attempt > 0,
            save=self._save(),
        )

    @property
    def save_seconds(self) -> float:
        """Return how long a save takes, as measured."""
        world = self.world
        return max(world.save_seconds, 1.0) if world.saves else self.job.checkpoint.save_seconds

    def _save(self) -> Save:
        saving = self.world.saving
        return Save(saving.name, not self.world.is_hung) if saving is not None else Save()

    def _chooses(self, state: State) -> bool:
        """Return whether the checkpoints are looked at from which an attempt may begin."""
        if state.phase == "staging":
            return self.staged is not None and not self.staged.failure
        world = self.world
        is_full = world.now < state.room_at and world.is_full
        return state.phase == "running" and not state.is_open and is_due(state, is_full, world.now)

    def _stamps(self) -> frozenset:
        world = self.world
        key = (world.version, world.now if world.saving is not None else 0.0, world.result)
        if key != self._stamps_of:
            self._stamps_of, self._stamps_now = key, self._look_at_stamps()
        return self._stamps_now

    def _look_at_stamps(self) -> frozenset:
        found = {
            (one.name, self.stamp_of(one), one.is_writing) for one in self.world.files.values()
        }
        if self.world.result:
            found.add((RESULT, str(self.world.result), False))
        return frozenset(found)

    def _signs(self, newest: File | None) -> Signs:
        world = self.world
        prints = not world.is_hung and not world.program.is_silent
        return Signs(
            prints,
            world.step if not world.program.is_silent else None,
            str(newest.content) if newest else "",
            "",
            0.0 if world.is_hung else world.now,
            not world.is_hung,
        )

    def _worker(self) -> Worker:
        one = self.worker
        if one is None:
            return Worker()
        still = 0.0
        if one.code is None and self.world.hangs:
            still = self.world.now - max(one.since, self.world.faults.hangs[0])
        return Worker(one.number, one.code, one.why, still)

    def has_failed(self) -> bool:
        """Return whether the last attempt ended with a failure, by its code or by its event."""
        return self.world.code != 0 or self.failed_attempt == self.world.attempt

    def _judge_exit(self, asked: str) -> Exit:
        """Return what log, kernel and folder show of an attempt's end."""
        world, newest = self.world, self.newest
        kind = {"finish": "unknown", "signal": "killed", "kernel": "killed"}
        evidence = kind.get(world.ended_by, world.ended_by)
        is_missing = bool(self.job.results) and not world.result
        if world.ended_by == "finish" and world.code == 0 and not is_missing:
            evidence = ""
        step = None if world.program.is_silent or not world.step else world.step
        return Exit(
            code=world.code,
            step=step,
            evidence=Verdict(evidence, "", world.ended_by) if evidence else Verdict(),
            missing=(RESULT,) if is_missing else (),
            owed=(self.owed_at_ask or ()) if asked or self.owed_at_ask is not None else (),
            newest=str(newest.content) if newest else "",
            began=str(self.began.content) if self.began else "",
            saved_step=self._step_of(newest) if newest else None,
            has_copied=self.has_copied,
            is_anew=self.is_anew,
        )

    @property
    def is_anew(self) -> bool:
        """Return whether the attempt was given no checkpoint, or opened none."""
        goes_on = self.began is not None and self.job.resume != "none"
        return not goes_on or self.world.given is None

    def _step_of(self, file: File) -> int | None:
        is_named = not self.world.program.is_one_name
        return file.step if is_named or not self.world.program.is_silent else None

    def unheld(self) -> tuple[str, ...]:
        """Return what an earlier attempt left complete here, and nothing else has."""
        world = self.world
        if world.is_alive or not world.attempt:
            return ()
        file, found = self._newest_usable(), []
        if file is not None and not self._is_elsewhere(file):
            found.append(file.name)
        if self._is_result_alone():
            found.append(RESULT)
        return tuple(found)

    def _newest_usable(self) -> File | None:
        """Return the newest checkpoint that nothing speaks against."""
        whole = self.folder().whole
        file = self.world.files.get(whole.path) if whole else None
        return None if file is None or file.content in self.mixed else file

    def _is_elsewhere(self, file: File) -> bool:
        there = (one for name, one in self.world.generations.items() if name in self.ours)
        return any(
            one.manifest and one.content == file.content and not one.is_known_damaged
            for one in (*there, *self.world.held.values())
        )

    def _is_result_alone(self) -> bool:
        world = self.world
        is_there = world.result == self.result_safe or world.result in world.results_held
        return bool(self.job.results and world.result and not is_there)

    def kept(self) -> tuple[Kept, str]:
        """Return what is safe elsewhere, and why nothing proves that."""
        world, job = self.world, self.job
        if not job.durable.to:
            return Kept(), ""
        newest = self.newest
        while newest is not None and newest.content in self.mixed:
            older = [one for one in world.files.values() if one.order < newest.order]
            older = [one for one in older if self.state_of(one) == COMPLETE]
            newest = max(older, key=lambda one: one.order, default=None)
        is_there = newest is not None and self.stamp_of(newest) in self.safe_stamps
        is_missing = bool(job.results) and not (world.result and world.result == self.result_safe)
        unseen = ""
        if newest is None and not self.verified:
            unseen = self._unseen(is_missing)
        is_newest_safe = (is_there or newest is None) and not unseen
        is_all_safe = is_newest_safe and not is_missing
        has_proof = bool(self.verified) or (bool(job.results) and not is_missing)
        is_unproven = newest is None and not self.verified and bool(world.files)
        there = {one.content for one in world.generations.values() if one.manifest}
        is_mixed_alone = any(
            one.content in self.mixed and one.content not in there for one in world.files.values()
        )
        is_held = bool(world.held or world.results_held) or is_mixed_alone  # on this box alone
        is_all_safe = is_all_safe and not is_held
        has_left = is_unproven or is_held or (is_missing and bool(world.result))
        kept = Kept(self.is_verified, has_proof, is_newest_safe, is_all_safe, has_left)
        return kept, unseen

    def _unseen(self, is_missing: bool) -> str:
        if COMPLETE in self.known_states or UNKNOWN in self.known_states:
            return ""
        if (self.job.results and not is_missing) or not self.world.has_trained:
            return ""
        return "the program trained, and no complete checkpoint was ever seen"

    # Acts.

    def do(self, action: Any) -> None:
        """Do what the core asks for."""
        getattr(self, "_do_" + type(action).__name__.lower())(action)

    def _later(self, seconds: float, kind: str) -> None:
        # The runner waits for a real one: no look from before its end ever begins it again.
        if kind not in self.busy and self.came_at.get(kind, 0.0) <= self.looked_at:
            self.busy.add(kind)
            self.world.at(self.world.now + seconds, kind, self.life)

    def _do_begin(self, _: model.Begin) -> None:
        if self.marker.name in ("failed", "preempted"):
            self.marker = box.End()

    def _do_noteexit(self, action: model.NoteExit) -> None:
        if action.verdict.failure:
            self.failed_attempt = self.world.attempt

    def _do_setaside(self, action: model.SetAside) -> None:
        self.world.quarantine(action.path)

    def _do_check(self, _: model.Check) -> None:
        self._later(CHECK_SECONDS, "checked")

    def _do_stage(self, _: model.Stage) -> None:
        self._later(STAGE_SECONDS, "staged")

    def _do_fetch(self, _: model.Fetch) -> None:
        self._later(self.world.program.copy_seconds, "fetched")

    def _do_quarantine(self, action: model.Quarantine) -> None:
        self.world.quarantine(action.path)

    def _do_hold(self, action: model.Hold) -> None:
        if self.hold_worker.number >= action.number:
            return
        self.hold_worker = Worker(action.number, None)
        file = self._newest_usable()
        held = file if file is not None and not self._is_elsewhere(file) else None
        result = self.world.result if self._is_result_alone() else 0
        seconds = 1.0 + min(30.0, self.world.program.copy_seconds / 10)
        token = (self.life, action.number, held, held and self.stamp_of(held), result)
        self.world.at(self.world.now + seconds, "held", token)

    def _take_held(self, file: File | None, stamp: str, result: int) -> None:
        """Keep the copy on this box of a checkpoint, and of the result."""
        world = self.world
        if world.is_full:
            self.hold_worker = self.hold_worker._replace(code=1, why="No space left on device")
            return
        self.hold_worker = self.hold_worker._replace(code=0)
        if result and result == world.result:
            world.results_held.add(result)
        if file is None or world.files.get(file.name) is not file or self.stamp_of(file) != stamp:
            return
        here = next(one for one in self._here() if one.name == file.name)
        line, is_anew = plan.find_line(
            here, [*self._there(), *self._held()], self._bears(frozenset())
        )
        one = Generation(f"held-{file.content}", file)
        one.is_complete = file.is_complete
        one.manifest = self._tell(file, line, is_anew, here.apart, self.state_of(file))
        world.held[one.name] = one

    def _tell(
        self, file: File, line: int, is_anew: bool, apart: float | None, state: str
    ) -> dict[str, Any]:
        """Return a manifest."""
        return {
            "state": state,
            "line": line,
            "anew": is_anew,
            "step": self._step_of(file),
            "saved": file.order,
            "copied": self.world.now,
            "apart": apart,
        }

    def _do_start(self, action: model.Start) -> None:
        world = self.world
        if world.is_alive:  # the lock of the checkpoint folder
            return
        self.was_anew = world.attempt > 0 and self.is_anew
        self.began = world.files.get(action.source) if action.source else None
        self.owned, self.own, self.has_copied, self.exit = self.own, [], False, None
        self.is_fetched, self.fetch = False, Verdict()
        self.is_verified, self.owed_at_ask, self.marker = False, None, box.End()
        picks = self.job.resume == "automatic"
        given = self.began if self.job.resume != "none" else None
        world.start(action.number, given, picks)

    def _do_signal(self, _: model.Signal) -> None:
        self._note_owed()
        self.world.signal()

    def _do_kill(self, _: model.Kill) -> None:
        self._note_owed()
        self.world.kill()

    def _note_owed(self) -> None:
        if self.owed_at_ask is None and self.job.results and not self.world.result:
            self.owed_at_ask = (RESULT,)

    def _do_awaitsave(self, _: model.AwaitSave) -> None:
        pass

    def _do_snapshot(self, _: model.Snapshot) -> None:
        pass

    def _do_mark(self, _: model.Mark) -> None:
        pass  # the night knows what the run came to

    def _do_ask(self, _: model.Ask) -> None:
        pass

    def _do_note(self, _: model.Note) -> None:
        pass

    def _do_notefailure(self, _: model.NoteFailure) -> None:
        pass

    def _do_tell(self, action: model.Tell) -> None:
        if action.key in ("end", "over") and self.marker.name:
            self.marker = self.marker._replace(is_told=True)
        if self.lost_messages:
            self.lost_messages -= 1
        else:
            self.messages.append((self.world.now, action.key))

    def _do_endbox(self, action: model.EndBox) -> None:
        if self.command.code is None:
            return
        world = self.world
        self.ends_tried.append(world.now)
        self.command, self.command_of = Command(action.number, None), self.life
        seconds, code = END_SECONDS, 0
        if world.faults.end_hangs:
            seconds, code = END_LIMIT, box.TOO_LONG
        elif self.end_fails:
            self.end_fails -= 1
            code = 1
        world.at(world.now + seconds, "end_command", (world.boxes, action.number, code))

    def _do_copy(self, action: model.Copy) -> None:
        if self.worker is not None and self.worker.code is None:
            return  # the lock of copies
        self.worker = Round(action.number, action.mode, self.world.now, self.overtaken)
        self.rounds += 1
        self.worker.serial = self.rounds
        self._going = self._stamps()
        self._worker_in(1.0, "look")

    def _do_cutcopy(self, _: model.CutCopy) -> None:
        if self.worker is not None and self.worker.code is None:
            self._end_round(-9, "it was ended")

    # What comes later.

    def happen(self, kind: str, token: Any) -> None:
        """Take what the world says has come."""
        if kind == "worker":
            box_number, number, what = token
            one = self.worker
            if box_number == self.world.boxes and one and one.serial == number and one.code is None:
                self._work(one, what)
        elif kind == "end_command":
            box_number, number, code = token
            if box_number == self.world.boxes and not self.world.is_gone:
                self.command = Command(number, code)
                if code == 0:
                    self.world.was_ended = True
                    at = self.world.now + GONE_SECONDS
                    self.world.at(at, "vanishes", self.world.boxes)
        elif kind == "held":
            life, number, *what = token
            if (
                life == self.life
                and number == self.hold_worker.number
                and self.hold_worker.code is None
            ):
                self._take_held(*what)
        elif kind in ("checked", "staged", "fetched") and token == self.life:
            self.busy.discard(kind)
            self.came_at[kind] = self.world.now
            getattr(self, "_take_" + kind)()

    def _take_checked(self) -> None:
        failure, until = self.world.faults.refused, self.world.faults.refused_until
        is_refused = bool(failure) and self.world.now < until
        self.refusals = (Verdict(failure, "", f"preflight: {failure}"),) if is_refused else ()
        self.settles_until = draw.SETTLES if self.world.faults.settles else 0.0

    def _take_staged(self) -> None:
        failure = self.world.faults.unstaged
        self.staged = (
            Verdict(failure, "", f"{failure} while it was staged") if failure else Verdict()
        )

    def _take_fetched(self) -> None:
        """Bring what is better at the durable place."""
        world = self.world
        self.is_fetched, self.fetch = True, Verdict()
        here = self.newest
        if here is not None and here.content in self.mixed:
            here = None
        is_away = world.is_away or world.hangs or world.is_full
        if is_away and here is None and not world.held:
            self.fetch = Verdict("network", "", "the durable place doesn't answer")
        self.is_held_alone = is_away
        if is_away and (here is not None or not world.held):
            return
        corrupt_here = {
            one.name
            for one in world.files.values()
            if self.state_of(one) == CORRUPT or one.content in self.mixed
        }
        there = [*([] if is_away else self._there()), *self._held()]
        if here is None and world.files:
            there = [one for one in there if one.state == COMPLETE]
        newest_here = (self._step_of(here), int(here.order)) if here else None
        todo, corrupt, brought = plan.wanted(there, newest_here, corrupt_here), [], []
        while todo:
            one, *todo = todo
            generation = world.generations.get(one.name) or world.held[one.name]
            if generation.is_damaged:
                generation.is_known_damaged = True
                corrupt.append(one.name)
                there = [other for other in there if other != one]
                todo += plan.wanted(there, newest_here, corrupt_here)
                continue
            world.bring(generation)
            self.brought = generation.content
            self.ours.add(one.name)
            brought.append(one.name)
        if corrupt and here is None and not brought:
            self.fetch = Verdict("bug", "", "nothing complete is left at the durable place")

    # The worker.

    def _worker_in(self, seconds: float, what: str) -> None:
        """Go on later; what asks the place waits while that hangs."""
        world, hangs = self.world, self.world.faults.hangs
        at = world.now + seconds
        if hangs[0] < at and world.now < hangs[1]:
            at = hangs[1] + seconds
        assert self.worker is not None
        world.at(at, "worker", (world.boxes, self.worker.serial, what))

    def _end_round(self, code: int, why: str) -> None:
        assert self.worker is not None
        self.worker.code, self.worker.why = code, why

    def _work(self, one: Round, what: str) -> None:
        if self.world.is_away:
            self._here()  # what lies here tells how far apart the files of a save are
            self._end_round(1, "the durable place doesn't answer")
            return
        one.moved_at = self.world.now
        if what == "copied":
            self._take_copied(one)
        elif what == "staged":
            action, file, _ = one.copying  # type: ignore[misc]
            if self.world.files.get(file.name) is not file or self.stamp_of(file) != one.stamp:
                self._overtake(one, action.name)
            else:
                self._worker_in(self.world.program.copy_seconds, "copied")
                return
        elif what == "compared":
            self._take_compared(one)
            return
        self._go_on(one)

    def _here(self) -> list[plan.Here]:
        world, found = self.world, []
        is_over = not world.is_alive
        for file in sorted(world.files.values(), key=lambda one: -one.order):
            state, stamp = self.state_of(file), self.stamp_of(file)
            is_cut = self._is_earlier(file) or (is_over and self.has_failed())
            if not is_over and not self._is_earlier(file) and state == COMPLETE and file.apart:
                is_resting = not file.is_writing and world.now - file.changed + 1.0 >= AT_ONCE
                if is_resting:
                    before = self.least_apart.get(file.name, NEVER)
                    self.least_apart[file.name] = min(before, file.apart)
            found.append(
                plan.Here(
                    file.name,
                    file.kind,
                    int(file.order),
                    self._step_of(file),
                    not world.program.is_one_name,
                    state,
                    stamp,
                    0.0 if file.is_writing else world.now - file.changed + 1.0,
                    self.digests.get(stamp, ""),
                    SIZE,
                    file.apart,
                    is_cut,
                    False,
                    "cut short",
                    self._is_earlier(file),
                    self.least_apart.get(file.name) if file.apart else None,
                )
            )
        return [*found, *self._held_here()]

    def _held_here(self) -> list[plan.Here]:
        """Return what is held on this box: it goes to the durable place as all else does."""
        world, found = self.world, []
        for name, held in world.held.items():
            file, manifest = held.file, held.manifest
            found.append(
                plan.Here(
                    name,
                    file.kind,
                    int(file.order),
                    manifest["step"],
                    not world.program.is_one_name,
                    manifest["state"],
                    name,
                    NEVER,
                    str(held.content),
                    SIZE,
                    manifest["apart"],
                    True,
                    is_earlier=True,
                    least_apart=self.least_apart.get(file.name) if manifest["apart"] else None,
                    source=file.name,
                    line=manifest["line"],
                    is_anew=manifest["anew"],
                )
            )
        return found

    def _is_earlier(self, file: File) -> bool:
        return file.order < self.world.begun_at

    def _there(self) -> list[plan.There]:
        return self._list_generations(self.world.generations)

    def _held(self) -> list[plan.There]:
        return self._list_generations(self.world.held)

    def _list_generations(self, generations: dict[str, Generation]) -> list[plan.There]:
        found = []
        for name, one in generations.items():
            manifest = one.manifest
            state = manifest["state"] if manifest else plan.PARTIAL
            if one.is_known_damaged:
                state = CORRUPT
            found.append(
                plan.There(
                    name,
                    one.file.name,
                    one.file.kind,
                    manifest.get("line", 1),
                    manifest.get("step"),
                    state,
                    str(one.content),
                    str(one.content),
                    int(manifest.get("saved", 0)),
                    SIZE,
                    name in self.ours,
                    manifest.get("anew", False),
                    int(manifest.get("copied", 0)),
                    manifest.get("apart"),
                )
            )
        return found

    def _go_on(self, one: Round) -> None:
        """Do what the plan says next, and end the round where nothing is left."""
        world = self.world
        here, there = self._here(), self._there()
        bears = self._bears(self.overtaken | one.kinds)
        no_room, is_changed = "", False
        for action in plan.plan(here, there, bears):
            if isinstance(action, plan.Drop):
                del world.generations[action.name]
                world.place_version += 1
                is_changed = True
            elif isinstance(action, plan.Forget):
                del world.held[action.name]
                self._folder = None
            elif isinstance(action, plan.Copy):
                if one.overtaken.get(action.name, 0) < TRIES:
                    self._begin_copy(one, action)
                    return
            elif action.key == "room":
                no_room = action.text
        if is_changed:  # there is more room now
            self._go_on(one)
            return
        if plan.waits(here, there) and world.now - one.since <= REST + 1 and world.is_alive:
            self._worker_in(REST + 1, "look")
            return
        files = world.files
        self.mixed = {
            files[h.name].content for h in here if h.name in files and plan.is_mixed(h, there)
        }
        self._folder = None
        if no_room:
            self._end_round(1, no_room)
            return
        self._worker_in(RESULT_SECONDS, "compared")

    def _bears(self, overtaken: frozenset[str]) -> plan.Job:
        world = self.world
        return plan.Job(
            self.is_anew,
            frozenset(self.own),
            overtaken,
            0 if world.is_full else None,
            world.free_there,
            not world.is_alive,
            self.was_anew,
            frozenset(self.owned),
        )

    def _begin_copy(self, one: Round, action: plan.Copy) -> None:
        world = self.world
        held = world.held.get(action.name)
        file = held.file if held else world.files[action.name]
        digest = str(held.content if held else file.content)
        same = [n for n, g in world.generations.items() if g.manifest and str(g.content) == digest]
        if same and not world.generations[same[0]].is_known_damaged and not file.is_writing:
            self.digests[digest] = digest
            self.ours.add(same[0])
            self._worker_in(1.0, "look")
            return
        name = f"gen-{action.line}-{file.step}-{digest}"
        generation = Generation(name, file)
        if held:
            generation.content = held.content
        world.generations[name] = generation
        world.place_version += 1
        is_earlier = self._is_earlier(file)
        (self.owned if is_earlier else self.own).append(digest)
        one.copying, one.attempt = (action, file, generation), 0 if is_earlier else world.attempt
        one.stamp, one.is_staged = self.stamp_of(file), action.is_staged or bool(held)
        seconds = world.program.copy_seconds
        if action.is_staged and not held:
            self._worker_in(min(30.0, seconds / 10), "staged")
        else:
            self._worker_in(seconds, "copied")

    def _overtake(self, one: Round, name: str) -> None:
        assert one.copying is not None
        one.overtaken[name] = one.overtaken.get(name, 0) + 1
        one.kinds.add(one.copying[1].kind)
        one.missed.add(one.copying[1].kind)
        self.world.generations.pop(one.copying[2].name, None)
        self.world.place_version += 1
        one.copying = None

    def _take_copied(self, one: Round) -> None:
        world = self.world
        assert one.copying is not None
        action, file, generation = one.copying
        is_same = world.files.get(file.name) is file and self.stamp_of(file) == one.stamp
        if not one.is_staged and not is_same:
            self._overtake(one, action.name)
            return
        held = world.held.get(action.name)
        state = (
            UNKNOWN if action.is_mixed else held.manifest["state"] if held else self.state_of(file)
        )
        digest = str(generation.content)
        self.digests[digest] = digest
        self.has_copied = self.has_copied or one.attempt == world.attempt
        self.ours.add(generation.name)
        if not one.is_staged:
            one.missed.discard(file.kind)
        generation.is_complete = held.is_complete if held else file.is_complete
        generation.manifest = self._tell(file, action.line, action.is_anew, action.apart, state)
        world.place_version += 1
        one.copying = None

    def _take_compared(self, one: Round) -> None:
        """End a round: the result is copied, and what lies at both ends is compared."""
        world = self.world
        there = self._there()
        if one.is_full:
            for generation in world.generations.values():
                file = world.files.get(generation.file.name)
                if generation.is_damaged and file and file.content == generation.content:
                    generation.is_damaged = generation.is_known_damaged = False
                    generation.is_complete = file.is_complete
                    world.place_version += 1
        if world.result and self.job.results:
            world.result_there = self.result_safe = world.result
        world.results_there |= world.results_held
        world.results_held = set()
        self._folder = None
        best = plan.newest(there)
        self.verified = next((o.name for o in best.values() if o.state == COMPLETE), "")
        self.safe_stamps = frozenset(one.stamp for one in there if one.state == COMPLETE)
        self.known_states = {one.state for one in there}
        here = {h.name for h in self._here() if h.state == CORRUPT or plan._has(there, h)}
        lost = [name for name in one.overtaken if name not in here]
        self.overtaken = frozenset(one.missed)
        if one.is_whole and self.job.results and not world.result:
            self._end_round(3, "something that durable.what names isn't there")
            return
        if one.is_full and lost:
            self._end_round(1, "something changed while it was copied")
            return
        is_missing = bool(self.job.results) and self.result_safe != world.result
        if one.is_full and not self.verified and self.newest is None and self._unseen(is_missing):
            self._end_round(3, "the program trained, and no complete checkpoint was ever seen")
            return
        if one.is_full and not world.is_alive:
            self.is_verified = True
        self.copied = self._going
        self._end_round(0, "")
