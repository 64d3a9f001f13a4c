"""A queue: many runs of one command, called cells, over the slots of this box.

A cell is a run of its own in cells/NAME, with its own runner and supervisor: it goes on while the
queue is dead, and a queue that comes back finds it. What a cell came to is read from its folder;
the queue remembers only what it tried.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import sys
from typing import Any

from ..text.masking import strip_controls
from . import backstop, child, failures, killing, procs, status
from .cells import CELL, PART, Cell, cells_of, share, take_newest_part, take_part
from .context import Run, say
from .core.attempts import judge_asked
from .core.copying import ABSENT, Copying
from .core.decide import State
from .core.model import DEADLINE, Copy, Exit, Start, Verdict, Worker
from .core.model import Seen as Sight
from .folder import ENDS
from .heartbeat import Heartbeat
from .roster import (
    Seen,
    count,
    for_status,
    is_of_the_box,
    look,
    look_at_all,
    reconcile,
    row,
    summary,
)
from .runner import Runner
from .state import forget_tries
from .supervisor import Supervisor
from .sync import Sync

TRIES = 3  # of a cell that was preempted or lost its runner
WAIT = 60.0  # seconds before such a cell is tried again
NAP = 0.5  # seconds between two looks at the cells


class Cells:
    """The cells in the place of a program: once it is started, `see` starts them until none is
    left. `number`: of the attempt that they are, 0 before."""

    def __init__(self, heartbeat: Heartbeat):
        self.heartbeat, self.run, self.state = heartbeat, heartbeat.run, heartbeat.state
        self.number = 0
        self.cells = cells_of(self.run)
        self.seen: dict[str, Seen] = {}
        self.slots: dict[int, Cell] = {}
        self.halt: Verdict | None = None  # what keeps this box from running any cell
        self._children: dict[str, child.Command] = {}
        self._tries: dict[str, int] = {}
        self._after: dict[str, float] = {}  # when a cell may be tried again, by run.up
        self._look_at = self.run.up
        self._is_new = True  # something that queue.json doesn't tell yet

    def start(self, action: Start) -> None:
        """Begin with the cells, and with those that a queue before this one started."""
        self.number, self.slots = action.number, {}
        self.seen = look_at_all(self.run)
        self._adopt()

    def adopt(self) -> bool:
        """Take over the cells of the queue before this one."""
        self.start(Start(int(self.state.core.get("attempt") or 1), ""))
        return True

    def is_alive(self) -> bool:
        """Return whether a cell goes on."""
        return bool(self.slots)

    def see(self, state: State, seen: Sight) -> Sight:
        """Return what is seen, with whether cells go on, or what they came to. Starts those that
        are due, unless the run is asked to end or this box can't go on."""
        run = self.run
        if run.up < self._look_at:
            return seen._replace(is_alive=True)
        self._look_at = run.up + NAP
        self._reap()
        asked = state.asked or run.asked
        if not asked and self.halt is None:
            self._fill()
        self._write()
        if self.slots or (not asked and self.halt is None and self._left()):
            return seen._replace(is_alive=True)
        return seen._replace(is_alive=False, exit=self._exit(asked))

    def signal(self, reason: str) -> None:
        """Ask the cells. Each of them knows the deadline, and how long its own save takes."""
        if reason != DEADLINE:
            ask(list(self.slots.values()), reason)

    def tell_wait(self, path: str) -> None:
        """Nothing: the cells' runners do it, and they kill what is left."""

    kill = take_snapshot = tell_wait

    def see_wait(self, seen: Sight, is_due: bool) -> Sight:
        """Return what is seen: each cell chooses its own checkpoint."""
        return seen._replace(is_fetched=True)

    def _see(self, cell: Cell) -> Seen:
        seen = self.seen[cell.name] = look(self.run, cell)
        self._is_new = True
        return seen

    def _adopt(self) -> None:
        """Put the cells that a queue before this one started into their slots."""
        for cell in self.cells:
            if self.seen[cell.name].state == "running":
                slot = cell.folder.json("cell").get("slot")
                slot = slot if isinstance(slot, int) else 0
                while slot in self.slots:
                    slot += 1
                self.slots[slot] = cell
                self.run.event("adopted", cell=cell.name, slot=slot)

    def _left(self) -> list[Cell]:
        """Return the cells that are still to be tried, now or later."""
        return [
            cell
            for cell in self.cells
            if self.seen[cell.name].state == "left" and self._tries.get(cell.name, 0) < TRIES
        ]

    def _fill(self) -> None:
        free = [slot for slot in range(self.run.spec.queue.slots) if slot not in self.slots]
        if not free:
            return
        due = [cell for cell in self._left() if self._after.get(cell.name, 0) <= self.run.up]
        while free and due:
            slot, cell = free.pop(0), due.pop(0)
            # A person may have started it meanwhile.
            if self._see(cell).state == "left":
                self._start(slot, cell)

    def _start(self, slot: int, cell: Cell) -> None:
        run, folder = self.run, cell.folder
        self.slots[slot] = cell
        env = {name: value for name, value in os.environ.items() if name != PART}
        env.update(share(run, slot), **{CELL: cell.name})
        try:
            folder.make()
            folder.remove(*(f".{end}" for end in ENDS))
            folder.write("cell", json.dumps({"arguments": cell.arguments, "slot": slot}) + "\n")
            with open(folder.at("log", "console"), "ab") as console:
                self._children[cell.name] = child.Command(
                    run.self_command("run"), output=console, folder="/", env=env
                )
        except OSError as error:
            run.log(f"cell {cell.name}: can't be started: {error.strerror}")
            return
        self.seen[cell.name] = Seen("running", {})
        run.event("started", cell=cell.name, slot=slot)
        run.log(f"cell {cell.name}: started")

    def _reap(self) -> None:
        for slot, cell in list(self.slots.items()):
            runner = self._children.get(cell.name)
            # Where its runner was killed, its supervisor raises another.
            if (runner is None or runner.poll()) and self._see(cell).state != "running":
                self._children.pop(cell.name, None)
                del self.slots[slot]
                self._finish(cell, runner.code if runner else None)

    def _finish(self, cell: Cell, code: int | None) -> None:
        """Decide what the end of a cell means for it and for the others."""
        run, name, seen = self.run, cell.name, self.seen[cell.name]
        if seen.state == "left":
            self._tries[name] = self._tries.get(name, 0) + 1
            self._after[name] = run.up + WAIT
            if is_of_the_box(run, seen.marker):
                self._stop_box(name, seen)
            elif not seen.marker:
                killing.kill_program(cell.folder)
                if self._tries[name] >= TRIES and not run.asked:
                    seen = self._give_up(cell, code)
        run.event("cell-ended", cell=name, state=seen.state, **{"class": row(seen)["class"]})
        run.log(f"cell {name}: {seen.state}")

    def _stop_box(self, name: str, seen: Seen) -> None:
        """Start no further cell: it would meet the same."""
        found = row(seen)
        reason = f"no more cells on this box: {found['class']} in cell {name}: {found['reason']}"
        self.halt = Verdict(found["class"], found["entry"], reason)
        self.run.log(reason)

    def _give_up(self, cell: Cell, code: int | None) -> Seen:
        """Leave the marker that the cell's own runner never left."""
        where = f"see cells/{cell.name}/log/console"
        reason = f"its runner ended with code {code} and left no end; {where}"
        marker = {"exit": code, "class": "unknown", "entry": "", "reason": reason}
        cell.folder.mark("failed", {"t": int(self.run.now), **marker})
        return self._see(cell)

    def _write(self) -> None:
        """Leave queue.json where something changed."""
        if not self._is_new:
            return
        record = {
            **count(self.seen),
            "stopped": self.halt.reason if self.halt else "",
            "updated": int(self.run.now),
            "cells": {name: row(seen) for name, seen in self.seen.items() if seen.state != "left"},
        }
        self._is_new = not self.run.folder.write("queue.json", json.dumps(record) + "\n")

    def _exit(self, asked: str) -> Exit:
        """Return what the cells came to. `asked`: who asked for an end, '' for nobody."""
        found, text, again = count(self.seen), summary(self.seen), ""
        verdict = Verdict("unknown" if found["failed"] or found["left"] else "", "", text)
        if asked and found["left"]:
            verdict = judge_asked(self.run.spec, asked)._replace(reason=f"{asked}; {text}")
        elif self.halt is not None:
            verdict = self.halt._replace(reason=f"{self.halt.reason}; {text}")
        elif found["failed"]:
            again = failures.CELLS
        return Exit(None, evidence=verdict, again=again)


class Copies(Sync):
    """The copies of a queue. Each cell copies by itself; what one couldn't copy is tried once more
    when all have ended."""

    def __init__(self, run: Run):
        super().__init__(run)
        self._verified: set[str] = set()  # names of cells
        self._todo: list[Cell] = []  # of the round that goes on
        self._verb: child.Command | None = None

    def owed(self) -> list[Cell]:
        """Return the cells with something to copy that isn't verified."""
        if not self.run.durable:
            return []
        cells = [cell for cell in cells_of(self.run) if cell.name not in self._verified]
        self._verified |= {cell.name for cell in cells if cell.folder.has("own/final-sync")}
        return [c for c in cells if c.name not in self._verified and c.folder.attempt()]

    def is_whole(self) -> bool:
        """Return whether all that the cells made is verified."""
        return not self.owed()

    def see(self, copies: Copying, is_training: bool, seen: Sight) -> Sight:
        """Return what is seen, with the round that goes on; the cells copy while they train."""
        if self._worker.is_going and (self._verb is None or self._verb.poll()):
            self._verb = start_verb(self.run, self._todo.pop(), "sync") if self._todo else None
            if self._verb is None:
                self._worker = self._worker._replace(code=0 if self.is_whole() else ABSENT)
        return seen._replace(worker=self._worker)

    def start(self, action: Copy) -> None:
        """Begin to copy what is owed, one cell after another."""
        self._todo, self._worker = self.owed()[::-1], Worker(action.number, None)

    def copy_all(self) -> bool:
        """Copy what is owed now; return whether all is verified."""
        self.start(Copy(1, "full"))
        while self.see(Copying(), False, Sight()).worker.is_going:
            self.run.clock.nap(self.run.spec.timings.tick)
        return self.is_whole()

    def stop(self) -> None:
        """End the copy that goes on."""
        if self._verb is not None:
            self._verb.kill()
        self._verb, self._todo = None, []


class QueueRunner(Runner):
    """A run whose attempts are the cells."""

    def __init__(self, run: Run, raised: bool, sent_at: str):
        super().__init__(run, raised=raised, sent_at=sent_at)
        self.copies = Copies(run)

    def attempt(self, arguments: list[str]) -> Cells:
        """Return what runs in the place of a program."""
        return Cells(self.heartbeat)


def run(run: Run, verb: str, words: list[str]) -> int | None:
    """Do what a verb means for a queue, and return its exit code; None where it means what it
    means for every run. Raises SpecError."""
    take_part(run)
    if verb in ("run", "queue", "resume", "resume-run"):
        return _begin(run, verb, words)
    if verb == "supervisor":
        return _supervisor(run, "").go(backstop.TAKES_OUTPUT in words)
    if verb == "reconcile":
        return reconcile(run, "--json" in words)
    if verb == "status":
        return _tell_status(run, "--json" in words)
    if verb == "sync":
        return int(not Copies(run).copy_all())
    going = [cell for cell in cells_of(run) if look(run, cell).state == "running"]
    if verb == "save":
        codes = []
        for cell in going:
            save = start_verb(run, cell, "save")
            while not save.poll(run.spec.timings.tick):
                pass
            codes.append(save.code)
        return int(0 not in codes)
    if verb == "stop" and going and not procs.alive(run.folder, "runner"):
        return _stop(run, going)
    return None


def _begin(run: Run, verb: str, words: list[str]) -> int | None:
    """Run the queue, or prepare what `start` detaches: `resume` gives failed cells another
    chance."""
    seen = look_at_all(run)
    for cell in cells_of(run):
        if verb in ("resume", "resume-run") and seen[cell.name].state == "failed":
            cell.folder.remove(".failed")
            forget_tries(cell.folder)
            run.event("again", cell=cell.name)
    found = count(look_at_all(run))
    if found["done"] + found["unsaved"] < found["total"]:
        run.folder.remove(".done", ".unsaved")
    # Those that go on hold their cards.
    run.spec.gpus_shared = found["running"] > 0
    if verb == "resume":
        return None
    sent_at = words[words.index("--sent-at") + 1] if "--sent-at" in words[:-1] else ""
    return _supervisor(run, sent_at).begin()


def _supervisor(run: Run, sent_at: str) -> Supervisor:
    found = Supervisor(run, lambda raised: QueueRunner(run, raised, sent_at).go())
    found.sync = Copies(run)
    return found


def _signs(run: Run, seen: dict[str, Seen]) -> dict[str, Any]:
    """Return what shows that the first cell that runs trains; {} where none runs."""
    for cell in cells_of(run):
        if seen[cell.name].state == "running":
            of_cell = copy.copy(run)
            of_cell.folder = cell.folder
            newest = cell.folder.json("state.json").get("checkpoint")
            return status.signs(of_cell, newest if isinstance(newest, str) else "")
    return {}


def _tell_status(run: Run, as_json: bool) -> int:
    seen = look_at_all(run)
    take_newest_part(run)
    if not as_json:
        code = status.status(run, False)
        sys.stdout.write(f"{'cells':<14} {summary(seen)}\n")
        return code
    reply = {**status.look(run), "cells": for_status(seen)}
    reply["signs"] = _signs(run, seen)
    lines = run.folder.read("log/runner.log").splitlines()[-20:]
    reply["tail"] = reply["tail"] or strip_controls("\n".join(lines))[-status.TAIL :]
    sys.stdout.write(json.dumps(reply) + "\n")
    return 0


def start_verb(run: Run, cell: Cell, verb: str) -> child.Command:
    """Start a verb of one cell, which prints where this one prints and ends with it."""
    env = {**os.environ, CELL: cell.name}
    env.pop(PART, None)
    return child.Command(
        run.self_command(verb), output=sys.stdout, errors=sys.stderr, env=env, is_leader=False
    )


def _stop(run: Run, going: list[Cell]) -> int:
    """Stop cells that outlived their queue."""
    ask(going, "asked")
    until = run.up + run.spec.checkpoint.save_seconds + 30
    while any(procs.alive(cell.folder, "runner") for cell in going):
        if run.up >= until:
            say(f"{run.spec.name}: cells are still saving or copying; their deadline still applies")
            return 1
        run.clock.nap(run.spec.timings.tick)
    sys.stdout.write(f"{run.spec.name} has stopped\n")
    return 0


def ask(cells: list[Cell], reason: str) -> None:
    """Ask the runners of these cells to save and end."""
    for cell in cells:
        pid = procs.alive(cell.folder, "runner")
        if pid:
            cell.folder.write("asked", reason + "\n")
            procs.send([pid], signal.SIGTERM)
