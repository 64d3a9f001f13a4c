"""One cell of the table: a shape, what happens to it, and the verdict. Runs as the first process of its own namespaces."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

from . import faults, shapes
from .judge import History, Journal, Store, is_complete, is_whole
from .world import BOX, ENDED, EVERY_MINUTES, JOURNAL, LOOK_SECONDS, NAME, ORACLE, TOLD, World

LOOK = 0.5  # seconds between two looks at the durable place
ASK = 4  # seconds between two questions for the status
DEAD_SECONDS = 25  # a program gone for so long isn't alive
LEAST_COPY_SECONDS = 1.0
LATER_STEP = 48  # of the save into which a fault falls; the one before rests for twenty seconds


class Cell:
    """Starts the run, lets the faults happen in their order, and judges."""

    def __init__(self, shape: shapes.Shape, names: list[str], seed: int):
        self.shape, self.names, self.seed = shape, names, seed
        self.chance = random.Random(f"{shape.name} {' '.join(names)} {seed}")
        self.faults = [faults.BY_NAME[name](self) for name in names]
        self.world = World()
        self.store, self.here = Store(self.world.disk), Store(self.world.disk, BOX)
        self.history = History()
        self.vanished: list[float] = []
        self.outages: list[tuple[float, float]] = []
        self.wrong: list[tuple[str, str]] = []
        self.claims: list[str] = []
        self.status: dict = {}
        self.next_look = self.next_ask = 0.0
        self.program_seen = self.box_off = 0.0
        self.asking: subprocess.Popen | None = None
        self.asked = 0.0
        self.read: tuple | None = None
        self.answers: list[float] = []
        self.void = ""
        self.began = time.time()

    @property
    def journal(self) -> Journal:
        size = JOURNAL.stat().st_size if JOURNAL.exists() else 0
        if not self.read or self.read[0] != (size, len(self.vanished)):
            text = JOURNAL.read_text() if size else ""
            whole = text[: text.rfind("\n") + 1]
            self.read = ((size, len(self.vanished)), Journal(whole, self.vanished))
        return self.read[1]

    @property
    def window(self) -> float:
        """Seconds for which a checkpoint has to be complete before it counts.

        A copy is as slow as it was seen to be, and as this machine is to start a process.
        """
        slowness = statistics.median(self.answers) if self.answers else 0
        copy = max(LEAST_COPY_SECONDS, self.history.copy_seconds, slowness)
        return EVERY_MINUTES * 60 + LOOK_SECONDS + copy

    def say(self, kind: str, what: str) -> None:
        if (kind, what) not in self.wrong:
            self.wrong.append((kind, what))

    # The run.

    def go(self) -> None:
        settings: dict = {"steps": 90, "step_seconds": 0.5, "saves": [8, LATER_STEP], "every": 12, "save_seconds": 4,
                          "size": 150_000, "seed": self.seed, **self.shape.settings}  # fmt: skip
        fields: dict = {}
        if not self.shape.saves:
            settings.update(steps=40, save_seconds=6)
        self.slowness = int(4 * self.world.measure_start())
        for fault in self.faults:
            fault.prepare(settings, fields)
        self.settings = settings
        self.make_room(settings)
        self.world.write_job(self.shape, settings, **fields)
        if why := self.start():
            self.void = why
        for fault in self.faults:
            if self.box_off or self.void:
                break
            fault.happen()
        self.judge()

    def make_room(self, settings: dict) -> None:
        """On a slow machine the first save rests longer, so that the window fits in."""
        extra = int(self.slowness / settings["step_seconds"])
        self.later_step = LATER_STEP + extra
        settings["saves"] = [
            step + extra if step >= LATER_STEP else step for step in settings["saves"]
        ]
        settings["steps"] += extra

    def start(self) -> str:
        """`rgt start`, until a program trains; why none does, or ''."""
        starts = len(self.journal.of("start"))
        call = self.world.rgt("start", "local", "job.yaml", "--yes", "--profile", "aws")
        until = time.time() + 150
        while len(self.journal.of("start")) == starts and time.time() < until:
            if call.poll() not in (None, 0) or self.box_off:
                break
            self.pause()
        if len(self.journal.of("start")) > starts:
            return ""
        return f"no program began: rgt start ended with {call.poll()}: {self.calls()[-500:]}"

    def pause(self, seconds: float = 0.1) -> None:
        """Let time pass, and look meanwhile."""
        until = time.time() + seconds
        while True:
            self.look()
            left = until - time.time()
            if left <= 0:
                return
            time.sleep(min(0.1, left))

    def follow(self, seconds: float, ends=lambda: False) -> None:
        """Look for so many seconds, or until the box is off or `ends()`."""
        until = time.time() + seconds
        while time.time() < until and not self.box_off and not ends():
            self.pause()

    def wait_for_save(self, share: float, seconds: float = 75) -> bool:
        """Wait until so much of a save has gone, and no more than it; whether one came. Without saves: some seconds."""
        if not self.shape.roles:
            self.follow(10)
            return not self.box_off
        role = self.chance.choice(self.shape.roles)
        least = self.later_step if self.shape.saves else 0
        begun, until = time.time(), time.time() + seconds
        while time.time() < until and not self.box_off:
            self.pause(0.1)
            for save in self.journal.saves.values():
                gone = (time.time() - save.begin) / self.settings["save_seconds"]
                # The only one of a program may go on already.
                is_new = save.begin > begun or not self.shape.saves
                fits = save.role == role and save.step >= least and is_new
                if fits and not save.end and share <= gone < 0.9:
                    return True
        if not self.box_off and not self.was_ended():
            self.void = f"no save of {role} began within {seconds:.0f} s"
        return False

    # Looking.

    def look(self) -> None:
        now = time.time()
        if ENDED.exists() and not self.box_off:
            self.end_of_box(now)
            return
        if now >= self.next_look and not self.box_off:
            self.history.look(self.journal, self.store, now)
            self.next_look = time.time() + LOOK
            if self.world.programs():
                self.program_seen = now
        if self.asking and self.asking.poll() is not None:
            self.hear()
        if now >= self.next_ask and not self.box_off and not self.asking:
            self.asking, self.asked = self.world.ask_status(), now
            self.next_ask = now + ASK

    def ask(self) -> None:
        """Ask for the status and wait for the answer."""
        self.asking, self.asked = self.world.ask_status(), time.time()
        if self.asking:
            self.hear()

    def hear(self) -> None:
        """The answer to the last question, held against what is."""
        asked = self.asked
        text, _ = self.asking.communicate(timeout=60)
        self.world.calls.pop(self.asking.pid, None)
        self.asking = None
        self.answers.append(time.time() - asked)
        with suppress(ValueError):
            self.status = json.loads(text)
            self.hold_against(self.status, asked)

    def hold_against(self, status: dict, asked: float) -> None:
        """Say which of its words aren't true."""
        journal, there = self.journal, self.store.digests()
        copy = status.get("last_sync") or {}
        if copy.get("verified"):
            told = float(copy.get("t") or 0)
            due = [
                s
                for s in journal.protected(told, self.window, self.outages)
                if s.end <= told - self.window
            ]
            for save in journal.missing(due, there):
                self.say(
                    "false verified",
                    f"status says verified, but {save.words} isn't at the durable place",
                )
            if not any(
                is_whole(save, there) for save in journal.complete
            ) and self.has_corrupt_copy(journal):
                self.say(
                    "false verified",
                    "status says verified, but only corrupt checkpoints are at the durable place",
                )
        if status.get("phase") == "done":
            self.done_is_true(journal, there)
        gone = asked - self.program_seen
        if (
            status.get("alive")
            and status.get("phase") == "running"
            and self.program_seen
            and gone > DEAD_SECONDS
            and not status.get("waits")  # it says that no program runs, and what it waits for
        ):
            self.say(
                "false alive", f"status says running, and no program has lived for {gone:.0f} s"
            )
        self.named_is_complete(status, journal)

    def has_corrupt_copy(self, journal: Journal) -> bool:
        """Whether the durable place has a file of a save, and that is corrupt by its own format."""
        names = {Path(path).name for save in journal.saves.values() for path in save.paths}
        files = [
            path for path in self.world.disk.rglob("*") if path.name in names and path.is_file()
        ]
        return any(not is_complete(path) for path in files)

    def done_is_true(self, journal: Journal, there: set[str]) -> None:
        if not journal.finished:
            self.say("false done", "done, and the program hadn't come to its end")
        lacking = [Path(path).name for path, sha in journal.result().items() if sha not in there]
        if lacking:
            self.say(
                "false done",
                f"done, and the result isn't at the durable place: {', '.join(sorted(lacking))}",
            )

    def named_is_complete(self, status: dict, journal: Journal) -> None:
        """No file that status or the decision names is corrupt, unless it is being written."""
        names = [status.get("checkpoint"), (status.get("decision") or {}).get("resume_from")]
        for name in filter(None, names):
            path = Path(str(name))
            if not path.exists() or self.world.programs():
                continue
            inside = Store(path).digests() if path.is_dir() else set()
            if not any(is_whole(save, inside) for save in journal.complete) and not is_complete(
                path
            ):
                self.say("names a corrupt file", f"{status.get('phase')}: {path.name} is corrupt")

    def end_of_box(self, now: float) -> None:
        """The end command ran: what it destroys has to be safe. Then the box is off."""
        journal, there = self.journal, self.store.digests()
        here = Store(BOX).digests()
        self.box_off = now
        newest = [
            save for save in journal.complete
            if is_whole(save, here) and journal.stays_until(save, now) >= now
        ]  # fmt: skip
        for save in journal.missing(newest, there):
            self.say("end unsafe", f"the end command ran, and {save.words} was on the box alone")
        lacking = [Path(path).name for path, sha in journal.result().items() if sha not in there]
        if lacking:
            self.say(
                "end unsafe",
                f"the end command ran, and the result was on the box alone: {', '.join(sorted(lacking))}",
            )
        self.history.look(journal, self.store, now)
        self.ask_before_the_end()
        self.world.vanish()

    def ask_before_the_end(self) -> None:
        self.ask()
        with suppress(OSError):
            shutil.copytree(
                BOX / "runs" / NAME, ORACLE / "run", ignore=shutil.ignore_patterns("code")
            )

    # The verdict.

    def judge(self) -> None:
        now = self.box_off or time.time()
        if not self.box_off:
            self.look()
            self.next_ask = 0
            self.ask()
        journal = self.journal
        there = self.store.digests()
        place = there if self.box_off else self.here.digests()
        where = "at the durable place" if self.box_off else "anywhere"
        self.kept = journal.protected(now, self.window, self.outages)
        for save in journal.missing(self.kept, place):
            self.say(
                "lost",
                f"{save.words} is whole nowhere"
                if where == "anywhere"
                else f"{save.words} isn't {where}",
            )
        for what in self.history.replaced(journal, now):
            self.say("replaced", what)
        finish = journal.of("finish")
        if journal.finished and finish[-1]["t"] < now - self.window:
            lacking = [Path(p).name for p, sha in journal.result().items() if sha not in place]
            if lacking:
                self.say("lost", f"the result isn't {where}: {', '.join(sorted(lacking))}")
        for fault in self.faults:
            fault.judge(journal)
        self.told_of_the_box()

    def told_of_the_box(self) -> None:
        """A box that trains no more and isn't off needs a message, unless somebody asked for the end."""
        asked = {"stop", "notice"} & set(self.names)
        dead = time.time() - self.program_seen > DEAD_SECONDS
        if dead and not (self.box_off or asked or self.told() or self.void):
            self.say("silent", "nothing trains, the box is on, and no message was sent")

    def was_ended(self) -> bool:
        """Whether an earlier fault ended the run, and somebody was told: there is no save left then."""
        is_over = bool(self.box_off) or self.world.is_over()
        return len(self.names) > 1 and is_over and bool(self.told())

    def told(self) -> list[str]:
        return TOLD.read_text().splitlines() if TOLD.exists() else []

    def calls(self) -> str:
        path = ORACLE / "calls"
        return path.read_text() if path.exists() else ""

    def answer(self) -> dict:
        kinds = {kind for kind, _ in self.wrong}
        kept = next((word for word in ("lost", "replaced") if word in kinds), "kept")
        if kept == "kept" and not getattr(self, "kept", None):
            kept = "nothing to keep"
        copy = self.status.get("last_sync") or {}
        said = [str(self.status.get("phase", "no run")), str(self.status.get("class") or "")]
        said += ["verified" if copy.get("verified") else "copied" if copy.get("ok") else ""]
        return {
            "cell": f"{self.shape.name}/{'+'.join(self.names)}",
            "shape": self.shape.name,
            "faults": [fault.words for fault in self.faults],
            "seed": self.seed,
            "kept": "void" if self.void else kept,
            "copied_after": [
                round(self.history.arrived[save.id] - save.end, 1)
                for save in self.journal.complete
                if save.id in self.history.arrived
            ],
            "window": round(self.window, 1),
            "said": " ".join(filter(None, said)),
            "not_copied": len(
                self.journal.missing(getattr(self, "kept", []), self.store.digests())
            ),
            "messages": self.told(),
            "end_command": bool(self.box_off),
            "wrong": [] if self.void else [f"{kind}: {what}" for kind, what in self.wrong],
            "void": self.void,
            "seconds": round(time.time() - self.began),
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", required=True)
    parser.add_argument("--fault", action="append", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--answer", type=int, required=True)
    parser.add_argument("--keep")
    args = parser.parse_args()
    cell = Cell(shapes.BY_NAME[args.shape], args.fault, args.seed)
    try:
        cell.go()
    except Exception:
        cell.void = traceback.format_exc()[-1500:]
    with open(args.answer, "w") as file:
        json.dump(cell.answer(), file)
    if args.keep:
        keep_all(Path(args.keep))
    sys.stdout.flush()
    os._exit(0)


def keep_all(folder: Path) -> None:
    """Oracle, box and durable place, for whoever checks a verdict."""
    for name in ("oracle", "box", "volume/disk"):
        with suppress(OSError, shutil.Error):
            shutil.copytree(
                Path("/mnt") / name, folder / Path(name).name, symlinks=True, dirs_exist_ok=True
            )


if __name__ == "__main__":
    main()
