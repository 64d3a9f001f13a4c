"""What happens on rented boxes, each inside a save where there is one. A table of all is at the end."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from .judge import Journal, is_whole
from .world import BOX, EVERY_MINUTES, PLACE, VOLUME, run

if TYPE_CHECKING:
    from .cell import Cell

AFTER = 30  # seconds for which a run is followed after a fault
NOTICE_SECONDS = 16
DEADLINE_SECONDS = 56
TO_A_STOP_SECONDS = 80


class Fault:
    """One thing that happens. `last`: nothing may follow it in one run."""

    name, last = "", False

    def __init__(self, cell: Cell):
        self.cell = cell
        self.detail = ""

    @property
    def words(self) -> str:
        return f"{self.name} {self.detail}".strip()

    def prepare(self, settings: dict, fields: dict) -> None:
        """What the program or the job needs for it."""

    def happen(self) -> None:
        raise NotImplementedError

    def judge(self, journal: Journal) -> None:
        """What has to be true after this fault beyond what always has to be."""

    def into_a_save(self) -> bool:
        """Wait until a save has half gone."""
        return self.cell.wait_for_save(self.cell.chance.uniform(0.3, 0.7))


class Plain(Fault):
    """Nothing: the program comes to its end."""

    name, last = "plain", True

    def prepare(self, settings, fields):
        if len(self.cell.names) == 1:
            settings.update(steps=30, saves=[8, 20], every=1000, save_seconds=2)

    def happen(self):
        cell = self.cell
        cell.follow(150, lambda: cell.journal.finished)
        cell.follow(45)

    def judge(self, journal):
        if not journal.of("finish") and not self.cell.was_ended():
            self.cell.void = self.cell.void or "the program didn't come to its end"


class Outside(Plain):
    """The job's result lies outside of durable.what."""

    name = "outside"

    def prepare(self, settings, fields):
        super().prepare(settings, fields)
        settings["export"] = "export/final.safetensors"
        fields["results"] = [*self.cell.shape.results, "export/*.safetensors"]


class Kill(Fault):
    """The kernel kills the program, as for memory."""

    name = "kill"

    def happen(self):
        if self.into_a_save():
            self.cell.world.kill(self.cell.world.programs())
            self.cell.follow(AFTER)

    def judge(self, journal):
        goes_on(self.cell, journal)


class Stop(Fault):
    """A person calls `rgt stop`."""

    name, last = "stop", True

    def happen(self):
        cell = self.cell
        if cell.wait_for_save(0):
            call = cell.world.rgt("stop", "local")
            cell.follow(TO_A_STOP_SECONDS, lambda: call.poll() is not None)
            self.detail = f"(exit {call.poll()})"
            cell.follow(5)

    def judge(self, journal):
        if self.cell.world.programs() and "exit 0" in self.detail:
            self.cell.say("false stopped", "stop ended with 0, and the program lives")


class Deadline(Fault):
    """The deadline falls into a save: from a moment on, one follows the other."""

    name, last = "deadline", True

    def prepare(self, settings, fields):
        # Each fault before it takes its time, and so does a slow machine.
        self.seconds = DEADLINE_SECONDS + 60 * (len(self.cell.names) - 1) + self.cell.slowness
        fields["deadline"] = f"{self.seconds}s"
        settings.update(steps=1000, saves=[8], every=1000)
        if self.cell.shape.saves:
            settings["saves"] = [8, *range(48, 1000)]
        else:
            settings.update(steps=50, save_seconds=40)

    def happen(self):
        cell = self.cell
        gone = max(cell.vanished, default=0.0)  # a new box counts from its own first start
        first = next(one["t"] for one in cell.journal.of("start") if one["t"] > gone)
        cell.follow(first + self.seconds - time.time() + 45)

    def judge(self, journal):
        cell = self.cell
        if not cell.box_off and not cell.told():
            cell.say("silent", "the box is on after its deadline, and no message was sent")
        if not cell.box_off and cell.world.programs():
            cell.say("late", "the program trains 45 s after the deadline")


class Vanish(Fault):
    """The box is gone with its disk; a new one begins with the durable place alone."""

    name = "vanish"

    def happen(self):
        cell = self.cell
        if not self.into_a_save():
            return
        box_is_gone(cell)
        cell.world.boot()
        if why := cell.start():
            cell.say("new box refused", " ".join(why.split()))
        cell.follow(AFTER)

    def judge(self, journal):
        goes_on(self.cell, journal)


class Notice(Fault):
    """The provider announces the end of the box, and keeps its word."""

    name, last = "notice", True

    def happen(self):
        cell = self.cell
        if not cell.wait_for_save(0):
            return
        at = datetime.now(timezone.utc) + timedelta(seconds=NOTICE_SECONDS)
        cell.world.notice = json.dumps({"action": "terminate", "time": f"{at:%Y-%m-%dT%H:%M:%SZ}"})
        cell.follow(NOTICE_SECONDS)
        if not cell.box_off:
            cell.next_ask = 0
            cell.look()
            box_is_gone(cell)


class FullDisk(Fault):
    """The box's disk is full for some seconds, from the middle of a save on."""

    name = "full"

    def happen(self):
        cell = self.cell
        if not self.into_a_save():
            return
        begun, until = time.time(), time.time() + 10
        while time.time() < until and not cell.box_off:
            cell.world.fill(BOX)
            cell.pause(0.2)
        cell.world.free(BOX)
        cell.outages.append((begun, time.time()))
        cell.follow(AFTER)

    def judge(self, journal):
        goes_on(self.cell, journal)


class Away(Fault):
    """The durable place is gone for some seconds, can't be written, or is full."""

    name, hows = "away", ("vanishes", "read-only", "full")

    def __init__(self, cell):
        super().__init__(cell)
        self.detail = cell.chance.choice(self.hows)

    def happen(self):
        cell, world = self.cell, self.cell.world
        if not self.into_a_save():
            return
        begun = time.time()
        if self.detail == "full":
            world.fill(VOLUME)
        else:
            world.detach()
        if self.detail == "read-only":
            world.attach(read_only=True)
        cell.follow(14)
        if self.detail == "read-only":
            world.detach()
        if self.detail == "full":
            world.free(VOLUME)
        else:
            strangers = [path for path in PLACE.rglob("*") if path.is_file()]
            if strangers and not cell.box_off:
                cell.say(
                    "misplaced",
                    f"written into the empty folder of a place that was gone: {strangers[0].name}",
                )
            world.attach()
        cell.outages.append((begun, time.time()))
        cell.follow(AFTER)


class Network(Fault):
    """The durable place is on another machine, by ssh, and the network goes for some seconds."""

    name = "network"

    def prepare(self, settings, fields):
        to = f"{self.cell.world.serve_ssh()}:{PLACE}"
        fields["durable"] = {
            "to": to,
            "what": [self.cell.shape.out],
            "every_minutes": EVERY_MINUTES,
        }

    def happen(self):
        cell = self.cell
        if not self.into_a_save():
            return
        begun = time.time()
        run("ip", "link", "set", "lo", "down")
        cell.follow(14)
        run("ip", "link", "set", "lo", "up")
        cell.outages.append((begun, time.time()))
        cell.follow(AFTER)


class Nan(Fault):
    """The loss is nan from a step on, between two saves."""

    name = "nan"

    def prepare(self, settings, fields):
        settings["nan_from"] = 30
        if self.cell.seed % 2:
            fields["on_nan"] = "stop"
            self.detail = "(on_nan: stop)"

    def happen(self):
        cell = self.cell
        cell.follow(15)
        cell.follow(AFTER)

    def judge(self, journal):
        seen = (
            self.cell.shape.settings["prints"] in ("step", "dict", "megatron")
            and self.cell.shape.launcher != "own file"
        )
        if seen and not self.cell.told():
            self.cell.say("silent", "the log shows a loss of nan, and no message was sent")


def box_is_gone(cell: Cell) -> None:
    """Take the box away, and hold against the durable place what had to be there."""
    now = time.time()
    journal, there = cell.journal, cell.store.digests()
    for save in journal.missing(journal.protected(now, cell.window, cell.outages), there):
        cell.say("lost", f"the box is gone, and {save.words} isn't at the durable place")
    cell.world.vanish()
    cell.vanished.append(now)
    cell.program_seen = 0.0


def goes_on(cell: Cell, journal: Journal) -> None:
    """A program that can resume goes on from what was complete, or somebody is told why not."""
    if not cell.shape.resumes or cell.void:
        return
    begun = journal.of("start")
    if len(begun) < 2 or journal.finished or cell.box_off:
        return
    before = [save for save in cell.kept if save.end < begun[-1]["t"]]
    best = max((save.step for save in before), default=0)
    if best and begun[-1]["step"] < best:
        here = cell.here.digests()
        whole = any(is_whole(save, here) and save.step >= best for save in before)
        kept = "which is whole" if whole else "which is gone"
        cell.say(
            "began anew",
            f"it began at step {begun[-1]['step']}, after a save of step {best}, {kept}",
        )


TABLE = ("plain", "outside", "kill", "stop", "deadline", "vanish", "notice", "full", "away", "nan")
ALL = (Plain, Outside, Kill, Stop, Deadline, Vanish, Notice, FullDisk, Away, Network, Nan)
BY_NAME = {kind.name: kind for kind in ALL}
