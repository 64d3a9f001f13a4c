"""A queue: many runs of one command, called cells, over the slots of this box.

A cell is a run of its own in cells/NAME, with its own runner and keeper: it goes on while the queue
is dead, and a queue that comes back finds it. What a cell came to is read from its folder; the
queue remembers only what it tried.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from . import failures, procs, status, why
from .cells import CELL, PART, Cell, cells_of, share, take_newest_part, take_part
from .context import Run, say
from .folder import ENDS
from .heart import Heart
from .keeper import Keeper
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
from .sync import Sync
from .why import Verdict

TRIES = 3  # of a cell that was preempted or lost its runner
WAIT = 60.0  # seconds before such a cell is tried again
NAP = 0.5  # seconds between two looks at the cells


class Cells:
    """The cells as the attempts of a run: `go` starts them until none is left."""

    def __init__(self, heart: Heart):
        self.heart, self.run, self.state = heart, heart.run, heart.state
        self.cells = cells_of(self.run)
        self.seen: dict[str, Seen] = {}
        self.slots: dict[int, Cell] = {}
        self.halt: Verdict | None = None  # what keeps this box from running any cell
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._tries: dict[str, int] = {}
        self._after: dict[str, float] = {}  # when a cell may be tried again, by run.up
        self._is_new = True  # something that queue.json doesn't tell yet

    def go(self, adopt: bool = False) -> Verdict:
        """Run the cells until all have ended, the run is asked to end, or this box can't go on."""
        run, state = self.run, self.state
        state.move("program found alive" if state.phase == "preflight" else "ready")
        self.seen = look_at_all(run)
        self._adopt()
        is_told = False
        while True:
            self.heart.beat()
            self._reap()
            if run.asked and not is_told:
                is_told = True
                state.move("asked")
                # Each cell knows the deadline, and how long its own save takes.
                if run.asked != "deadline":
                    ask(list(self.slots.values()), run.asked)
            elif not run.asked and self.halt is None:
                self._fill()
            self._write()
            if not self.slots and (run.asked or self.halt is not None or not self._left()):
                return self._verdict()
            run.clock.nap(NAP)

    def _see(self, cell: Cell) -> Seen:
        told = self.seen[cell.name] = look(self.run, cell)
        self._is_new = True
        return told

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
        free = [slot for slot in range(self.run.spec.slots) if slot not in self.slots]
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
                self._children[cell.name] = subprocess.Popen(
                    run.self_command("run"),
                    stdin=subprocess.DEVNULL,
                    stdout=console,
                    stderr=console,
                    start_new_session=True,
                    cwd="/",
                    env=env,
                )
        except OSError as error:
            run.log(f"cell {cell.name}: can't be started: {error.strerror}")
            return
        self.seen[cell.name] = Seen("running", {})
        run.event("started", cell=cell.name, slot=slot)
        run.log(f"cell {cell.name}: started")

    def _reap(self) -> None:
        for slot, cell in list(self.slots.items()):
            child = self._children.get(cell.name)
            code = child.poll() if child else None
            # Where its runner was killed, its keeper raises another.
            if not (child and code is None) and self._see(cell).state != "running":
                self._children.pop(cell.name, None)
                del self.slots[slot]
                self._finish(cell, code)

    def _finish(self, cell: Cell, code: int | None) -> None:
        """Decide what the end of a cell means for it and for the others."""
        run, name, told = self.run, cell.name, self.seen[cell.name]
        if told.state == "left":
            self._tries[name] = self._tries.get(name, 0) + 1
            self._after[name] = run.up + WAIT
            if is_of_the_box(run, told.marker):
                self._stop_box(name, told)
            elif not told.marker:
                procs.kill_program(cell.folder)
                if self._tries[name] >= TRIES and not run.asked:
                    told = self._give_up(cell, code)
        run.event("cell-ended", cell=name, state=told.state, **{"class": row(told)["class"]})
        run.log(f"cell {name}: {told.state}")

    def _stop_box(self, name: str, told: Seen) -> None:
        """Start no further cell: it would meet the same."""
        found = row(told)
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
        told = {
            **count(self.seen),
            "stopped": self.halt.reason if self.halt else "",
            "updated": int(self.run.now),
            "cells": {name: row(seen) for name, seen in self.seen.items() if seen.state != "left"},
        }
        self._is_new = not self.run.folder.write("queue.json", json.dumps(told) + "\n")

    def _verdict(self) -> Verdict:
        found, told, asked = count(self.seen), summary(self.seen), self.run.asked
        if asked and found["left"]:
            kind = "deadline" if asked == "deadline" else "preempted"
            return Verdict(kind, why.entry_of(self.run, "preempted"), f"{asked}; {told}")
        if self.halt is not None:
            return self.halt._replace(reason=f"{self.halt.reason}; {told}")
        self.state.again = failures.CELLS if found["failed"] else ""
        return Verdict("unknown" if found["failed"] or found["left"] else "", "", told)


class Copies(Sync):
    """The copies of a queue. Each cell copies by itself; what one couldn't copy is tried once more
    when all have ended."""

    def __init__(self, run: Run):
        super().__init__(run)
        self._verified: set[str] = set()  # names of cells
        self._verb: subprocess.Popen[bytes] | None = None

    def beat(self, phase: str) -> None:
        """Nothing: the cells' runners do it."""

    def owed(self) -> list[Cell]:
        """Return the cells with something to copy that isn't verified."""
        if not self.run.durable:
            return []
        cells = [cell for cell in cells_of(self.run) if cell.name not in self._verified]
        self._verified |= {cell.name for cell in cells if cell.folder.has("final-sync")}
        return [c for c in cells if c.name not in self._verified and c.folder.has("attempt")]

    def is_whole(self) -> bool:
        """Return whether all that the cells made is verified."""
        return not self.owed()

    def last(self, whole: bool, until: float, beat: Callable[[], bool]) -> bool:
        """Copy what is owed, until `until` (seconds since 1970) or a request to end."""
        run = self.run
        for cell in self.owed():
            self._verb = start_verb(run, cell, "sync")
            while self._verb.poll() is None and run.now < until and not beat():
                run.clock.nap(run.spec.timings.tick)
            self.stop()
        return self.is_whole()

    def stop(self) -> None:
        """End the copy that goes on."""
        if self._verb is not None and self._verb.poll() is None:
            self._verb.kill()
            self._verb.wait()
        self._verb = None


class QueueRunner(Runner):
    """A run whose attempts are the cells."""

    def __init__(self, run: Run, raised: bool, sent_at: str):
        super().__init__(run, raised=raised, sent_at=sent_at)
        self.heart.sync = Copies(run)

    def attempts(self, arguments: list[str]) -> Cells:
        """Return what runs in the place of a program's attempts."""
        return Cells(self.heart)


def run(run: Run, verb: str, words: list[str]) -> int | None:
    """Do what a verb means for a queue, and return its exit code; None where it means what it
    means for every run. Raises SpecError."""
    take_part(run)
    if verb in ("run", "queue", "resume", "resume-run"):
        return _begin(run, verb, words)
    if verb == "keeper":
        keeper = Keeper(run)
        keeper.sync = Copies(run)
        return keeper.go()
    if verb == "reconcile":
        return reconcile(run, "--json" in words)
    if verb == "status":
        return _tell_status(run, "--json" in words)
    if verb == "sync":
        return int(not Copies(run).last(True, float("inf"), lambda: False))
    going = [cell for cell in cells_of(run) if look(run, cell).state == "running"]
    if verb == "save":
        codes = [start_verb(run, cell, "save").wait() for cell in going]
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
            cell.folder.remove(".failed", ".same-failure", "last-failure")
            run.event("again", cell=cell.name)
    found = count(look_at_all(run))
    if found["done"] + found["unsaved"] < found["total"]:
        run.folder.remove(".done", ".unsaved")
    # Those that go on hold their cards.
    run.spec.gpus_shared = found["running"] > 0
    if verb == "resume":
        return None
    sent_at = words[words.index("--sent-at") + 1] if "--sent-at" in words[:-1] else ""
    return QueueRunner(run, "--raised" in words, sent_at).go()


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
    told = {**status.look(run), "cells": for_status(seen)}
    told["signs"] = _signs(run, seen)
    lines = run.folder.read("log/runner.log").splitlines()[-20:]
    told["tail"] = told["tail"] or status.clean("\n".join(lines))[-status.TAIL :]
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


def start_verb(run: Run, cell: Cell, verb: str) -> subprocess.Popen[bytes]:
    """Start a verb of one cell."""
    env = {**os.environ, CELL: cell.name}
    env.pop(PART, None)
    return subprocess.Popen(run.self_command(verb), stdin=subprocess.DEVNULL, env=env)


def _stop(run: Run, going: list[Cell]) -> int:
    """Stop cells that outlived their queue."""
    ask(going, "asked")
    until = run.up + run.spec.save_seconds + 30
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
