"""A box, the program on it and its durable place: what is really so, whatever is said of it.

Nothing here knows the core. Time jumps from one event to the next.
"""

from __future__ import annotations

import heapq
from random import Random

from .draw import NEVER, Faults, Program

LOAD_SECONDS = 20.0
SIZE = 1 << 30  # bytes of each checkpoint
GAP = (0.3, 0.7)  # of a save of two files: the first is there, the second not yet begun


class File:
    """A checkpoint on the box. `content`: the bytes, as a number that no others have. `line`: grows
    with each attempt that begins at 0. `order`: when its save began; `changed`: when it was written
    last. `is_mixed`: its files are each complete, and of two saves; `apart`: seconds between them,
    None for one file."""

    __slots__ = (
        "apart", "changed", "content", "is_complete", "is_mixed", "is_writing", "kind", "line", "name",
        "order", "step",
    )  # fmt: skip

    def __init__(self, name: str, kind: str, content: int, step: int, line: int, order: float):
        self.name, self.kind, self.content = name, kind, content
        self.step, self.line, self.order, self.changed = step, line, order, order
        self.apart: float | None = None
        self.is_writing, self.is_complete, self.is_mixed = True, False, False


class Generation:
    """A copy at the durable place. `manifest`: what its manifest says, empty while it is copied."""

    __slots__ = (
        "content",
        "file",
        "is_complete",
        "is_damaged",
        "is_known_damaged",
        "manifest",
        "name",
    )

    def __init__(self, name: str, file: File):
        self.name, self.file, self.content = name, file, file.content
        self.is_complete = self.is_damaged = self.is_known_damaged = False
        self.manifest: dict = {}


class World:
    """All that is really so. Whoever acts calls the methods without underscore; `advance` lets time
    pass. `version` changes with the files here, `place_version` with what lies at the place."""

    def __init__(self, program: Program, faults: Faults, chance: Random):
        self.program, self.faults, self.chance = program, faults, chance
        self.now = self.jumped = 0.0
        self.files: dict[str, File] = {}
        self.quarantined: list[File] = []
        self.generations: dict[str, Generation] = {}
        self.held: dict[
            str, Generation
        ] = {}  # copies on this box of what an attempt may write over
        self.result = 0  # the content of the result that the program leaves at its end
        self.result_there = 0
        self.results_held: set[int] = set()  # copies on this box, and those of them that went there
        self.results_there: set[int] = set()
        self.written_over: list[File] = []  # complete ones of another line, by the program
        self.results_over: list[int] = []
        self.is_gone = self.was_ended = False
        self.boxes = 1
        self.version = self.place_version = 0
        self.contents = 0
        self.lines = 0
        # The program.
        self.attempt = self.starts = 0  # of this box, and of the night: who saves is told by it
        self.is_alive = self.is_hung = self.is_nan = self.was_signalled = self.has_finished = False
        self.is_finishing = False
        self.begun_at = self.hung_at = 0.0
        self.base = self.line = 0
        self.given: File | None = None  # what it really began with
        self.was_given_line = False
        self.saving: File | None = None
        self.save_seconds = 0.0  # of the last save
        self.saves = self.begun_saves = 0
        self.code: int | None = None
        self.signalled = 0  # the last attempt that was sent the signal
        self.ended_by = ""  # why the last attempt ended, as its log shows it
        self.has_trained = False
        self.gpu_lost = False
        # What happens.
        self.stop_asked = False
        self.vanishes_at = NEVER
        self.heap: list[tuple[float, int, str, object]] = []
        self._events = 0
        for at in faults.killed:
            self.at(at, "killed")
        for name in ("gpu_lost", "host_lost", "preempted", "stopped", "rots"):
            self.at(getattr(faults, name), name)
        self.at(faults.jump_at, "jumps")
        for span in (faults.full, faults.away, faults.hangs, faults.store_full):
            self.at(span[1], "over")  # whoever waits for it looks again

    # Time.

    def at(self, when: float, kind: str, token: object = None) -> None:
        """Let something happen at a moment."""
        if when < NEVER:
            self._events += 1
            heapq.heappush(self.heap, (when, self._events, kind, token))

    @property
    def next_at(self) -> float:
        """Return when the next thing happens."""
        return self.heap[0][0] if self.heap else NEVER

    @property
    def next_kind(self) -> str:
        """Return what happens next, '' for nothing."""
        return self.heap[0][2] if self.heap else ""

    def advance(self, until: float, handle) -> None:
        """Let time pass until a moment. `handle`: gets the kind and token of what isn't the
        world's own."""
        heap = self.heap
        while heap and heap[0][0] <= until:
            when, _, kind, token = heapq.heappop(heap)
            self.now = max(self.now, when)
            own = getattr(self, "_on_" + kind, None)
            if own is not None:
                own(token)
            else:
                handle(kind, token)
        self.now = max(self.now, until)

    def is_within(self, span: tuple[float, float]) -> bool:
        """Return whether a fault of some length goes on now."""
        return span[0] <= self.now < span[1]

    @property
    def is_full(self) -> bool:
        """Return whether the box's disk has no room."""
        return self.is_within(self.faults.full)

    @property
    def is_away(self) -> bool:
        """Return whether the durable place can't be reached."""
        return self.is_within(self.faults.away)

    @property
    def hangs(self) -> bool:
        """Return whether whatever asks the durable place waits."""
        return self.is_within(self.faults.hangs)

    def content(self) -> int:
        """Return bytes that nobody had before."""
        self.contents += 1
        return self.contents

    # The program.

    def start(self, number: int, given: File | None, picks_newest: bool) -> None:
        """Start an attempt. `picks_newest`: the program takes the newest file that it finds."""
        program = self.program
        self.attempt, self.is_alive, self.code = number, True, None
        self.starts += 1
        self.is_hung = self.is_nan = self.was_signalled = self.has_finished = False
        self.begun_at, self.ended_by, self.saving = self.now, "", None
        self.is_finishing = False
        if picks_newest:
            given = max(self.files.values(), key=lambda one: one.order, default=None)
        self.given = given if program.resumes else None
        if self.gpu_lost:
            self.at(self.now + 5, "crash", (self.starts, "gpu"))
            return
        if program.trouble == "at_once":
            self.at(self.now + 5, "crash", (self.starts, "bug"))
            return
        if self.given is not None and not (self.given.is_complete or self.given.is_mixed):
            if self.chance.random() < 0.8:
                self.at(self.now + 5, "crash", (self.starts, "bug"))
                return
            self.given = None  # it begins at 0 in silence
        if self.given is None:
            self.lines += 1
            self.base, self.line = 0, self.lines
        else:
            self.base, self.line = self.given.step, self.given.line
        begin = self.now + LOAD_SECONDS
        self.at(begin, "trains", self.starts)
        if program.saves_on_the_way:
            self.at(begin + program.every, "save", self.starts)
        self.at(begin + max(1.0, program.total - self.base), "finish", self.starts)
        if program.trouble and self.base <= program.trouble_at:
            self.at(begin + program.trouble_at - self.base, "trouble", self.starts)

    @property
    def step(self) -> int:
        """Return how far the program is; a second is a step."""
        until = self.hung_at if self.is_hung else self.now
        return self.base + max(0, int(until - self.begun_at - LOAD_SECONDS))

    def signal(self) -> None:
        """Send the program the signal to save and end."""
        if not self.is_alive:
            return
        self.signalled = self.attempt
        on_term = "ignores" if self.is_hung else self.program.on_term
        if on_term == "dies":
            self._end(-15, "signal")
        elif on_term == "saves":
            again = self.was_signalled
            self.was_signalled = True
            if again:  # a second one ends the handler
                self._end(-15, "signal")
            elif self.saving is None:
                self._on_save(self.starts)

    def kill(self) -> None:
        """Kill the program."""
        if self.is_alive:
            self._end(-9, "killed")

    def _end(self, code: int, by: str) -> None:
        if self.saving is not None:
            self.saving.is_writing, self.saving.changed = False, self.now
            self.saving = None
        self.base = self.step
        self.is_alive, self.code, self.ended_by = False, code, by
        self.version += 1

    def _is_of(self, start: object) -> bool:
        return self.is_alive and start == self.starts and not self.is_hung

    def _on_trains(self, start: object) -> None:
        if self._is_of(start):
            self.has_trained = True

    def _on_crash(self, token: object) -> None:
        start, by = token  # type: ignore[misc]
        if self._is_of(start):
            self._crash(by)

    def _crash(self, by: str) -> None:
        self._end(0 if self.program.exits_wrong else 1, by)

    def _on_trouble(self, start: object) -> None:
        if not self._is_of(start):
            return
        if self.program.trouble == "bug_at":
            self._crash("bug")
        elif self.program.trouble == "nan_at":
            self.is_nan = True
        else:
            self.hung_at, self.is_hung = self.now, True

    def _on_killed(self, _: object) -> None:
        if self.is_alive:
            self._end(-9, "kernel")

    def _on_gpu_lost(self, _: object) -> None:
        self.gpu_lost = True
        if self.is_alive:
            self._crash("gpu")

    def _on_save(self, start: object) -> None:
        if not self._is_of(start) or self.is_finishing:
            return
        program, step = self.program, self.step
        if program.saves_on_the_way and self.saving is None:
            self._begin_save(step)
        elif self.was_signalled:
            self._end(0, "signal")

    def _begin_save(self, step: int) -> None:
        program = self.program
        name = "last.pt" if program.is_one_name else f"ckpt-{step}.pt"
        mine = [one for one in self.files.values() if one.line == self.line or program.keeps]
        if program.drops_first and program.keeps and len(mine) >= program.keeps:
            for one in sorted(mine, key=lambda one: one.order)[: len(mine) - program.keeps + 1]:
                self._lose(self.files.pop(one.name))
        before = self.files.get(name)
        self._lose(before)
        file = File(
            name,
            "last.pt" if program.is_one_name else "ckpt-*.pt",
            self.content(),
            step,
            self.line,
            self.now,
        )
        self.files[name] = self.saving = file
        self.version += 1
        if self.is_full:
            self._crash("disk")
            return
        seconds = program.save_seconds
        self.begun_saves += 1
        if self.begun_saves == self.faults.cut_save:
            share = self.faults.cut_at
            if program.in_two:  # between the two files
                share = GAP[0] + share * (GAP[1] - GAP[0])
            self.at(self.now + share * seconds, "killed")
        if program.in_two and before is not None and (before.is_complete or before.is_mixed):
            file.apart = self.now - before.changed
            self.at(self.now + GAP[0] * seconds, "half", (self.starts, file))
            self.at(self.now + GAP[1] * seconds, "second", (self.starts, file))
        self.at(self.now + seconds, "saved", (self.starts, file))

    def _lose(self, file: File | None) -> None:
        """Note what the program writes over, or removes, that it didn't go on from."""
        if file is not None and file.is_complete and file.line != self.line:
            self.written_over.append(file)

    def _on_half(self, token: object) -> None:
        start, file = token  # type: ignore[misc]
        if self._is_of(start) and self.saving is file:
            file.is_mixed, file.content = True, self.content()
            self.version += 1

    def _on_second(self, token: object) -> None:
        start, file = token  # type: ignore[misc]
        if self._is_of(start) and self.saving is file:
            file.is_mixed, file.content = False, self.content()
            self.version += 1

    def _on_saved(self, token: object) -> None:
        start, file = token  # type: ignore[misc]
        if not self._is_of(start) or self.saving is not file:
            return
        program = self.program
        self.saving, file.is_writing, file.changed = None, False, self.now
        file.apart = (1 - GAP[0]) * program.save_seconds if program.in_two else None
        self.save_seconds = self.now - file.order
        self.saves += 1
        self.version += 1
        if self.is_full:
            self._crash("disk")
            return
        file.is_complete, file.content = True, self.content()
        if program.keeps and not program.drops_first:
            kept = sorted(self.files.values(), key=lambda one: one.order)
            for one in kept[: max(0, len(kept) - program.keeps)]:
                self._lose(self.files.pop(one.name))
        if self.was_signalled:
            self._end(0, "signal")
            return
        wait = program.every
        if program.form == "best" and self.chance.random() < 0.5:
            wait *= 2  # it was no better
        self.at(self.now + wait, "save", start)

    def _on_finish(self, start: object) -> None:
        if not self._is_of(start):
            return
        if self.saving is not None:
            self.at(self.now + self.program.save_seconds, "finish", start)
            return
        if self.is_full:
            self._crash("disk")
            return
        if self.result:  # in place: it is corrupt until all of it is written
            self.results_over.append(self.result)
        self.result, self.is_finishing = 0, True
        self.version += 1
        self.at(self.now + self.program.save_seconds, "written", start)

    def _on_written(self, start: object) -> None:
        if not self._is_of(start):
            return
        if self.is_full:
            self._crash("disk")
            return
        self.result, self.has_finished = self.content(), True
        self._end(1 if self.program.exits_wrong else 0, "finish")

    # The box.

    def _on_preempted(self, _: object) -> None:
        self.vanishes_at = self.now + self.faults.notice_seconds
        self.at(self.vanishes_at, "vanishes", self.boxes)

    def _on_vanishes(self, box: object) -> None:
        if box == self.boxes:
            self.vanish()

    def _on_host_lost(self, _: object) -> None:
        self.vanish()

    def vanish(self) -> None:
        """Take the box away with its disk."""
        if self.is_alive:
            self._end(-9, "vanished")
        self.is_gone = True
        self.files, self.held, self.result, self.results_held = {}, {}, 0, set()
        self.version += 1

    def boot(self) -> None:
        """Give the run another box, with nothing on it."""
        self.is_gone, self.boxes = False, self.boxes + 1
        self.vanishes_at, self.attempt, self.signalled, self.code = NEVER, 0, 0, None
        self.gpu_lost = self.has_trained = False

    def _on_stopped(self, _: object) -> None:
        self.stop_asked = True

    def _on_jumps(self, _: object) -> None:
        self.jumped += self.faults.jump_seconds

    def _on_over(self, _: object) -> None:
        pass

    # The durable place.

    def _on_rots(self, _: object) -> None:
        there = [one for one in self.generations.values() if one.manifest]
        if there:
            one = self.chance.choice(there)
            one.is_damaged, one.is_complete = True, False
            self.place_version += 1

    @property
    def free_there(self) -> int:
        """Return the bytes that are free at the durable place."""
        if self.is_within(self.faults.store_full):
            return 0
        return max(0, self.faults.room - len(self.generations)) * (SIZE + (1 << 21))

    def quarantine(self, name: str) -> File | None:
        """Move a checkpoint where the program doesn't find it."""
        file = self.files.pop(name, None)
        if file is not None:
            self.quarantined.append(file)
            self.version += 1
        return file

    def bring(self, generation: Generation) -> None:
        """Put a generation back into the folder, as it lay there."""
        source = generation.file
        before = self.files.pop(source.name, None)
        if before is not None:
            self.quarantined.append(before)
        file = File(
            source.name, source.kind, generation.content, source.step, source.line, source.order
        )
        file.is_writing, file.is_complete = False, generation.is_complete
        file.apart, file.changed = source.apart, self.now
        file.is_mixed = not generation.is_complete  # no structure shows a flipped bit
        self.files[file.name] = file
        self.version += 1
