"""One run of the torture: start it, let the faults happen, do what a person would do, and look whether every promise was held."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tarfile
import time
import traceback
from contextlib import suppress
from pathlib import Path

from .faults import EVERY, Fault, Hangup, Moved, code_of, drawn
from .world import World, digest

MOST_SECONDS = 90  # a run that nothing happens to takes about six
NEAR = 8  # seconds between two faults; what a nearer one leaves to be told of both is no promise
KILLS = ("kill", "broken checkpoint")  # what ends a program by signal 9
PATIENCE = 6  # seconds without anybody who could raise it


class Run:
    """The harness of one run. `broke` holds what wasn't held, a sentence each."""

    def __init__(self, seed: int, names: list[str]):
        chance = random.Random(seed)
        self.durable = chance.random() < 0.75 or names == ["durable-place"]
        self.ends = self.durable and chance.random() < 0.5
        self.faults = drawn(chance, self.durable, names)
        self.world = World(self.durable, self.ends, any(f.name == "clock" for f in self.faults))
        self.waits = {id(fault): chance.uniform(0, 0.6) for fault in self.faults}
        self.pending, self.active = list(self.faults), []
        self.happened: list[Fault] = []
        self.missed: list[Fault] = []
        self.broke: list[str] = []
        self.calls: list[str] = []
        self.said: list[str] = []  # what a verb said that should have done its work
        self.finished_at = self.nobody_since = 0.0
        self.cuts = 0
        self.next_call = self.next_look = 0.0
        self.claim = ""
        self.marks: list[str] = []
        self.look_call: subprocess.Popen | None = None

    def go(self) -> None:
        """The whole run."""
        self.began = time.monotonic()
        if self.pending and isinstance(self.pending[0], Hangup):
            self.begin(self.pending[0])
            if not self.world.here() and not self.world.ended():
                self.call("start")
        else:
            self.call("start")
        while not self.settled():
            now = time.monotonic()
            if now > self.began + MOST_SECONDS:
                self.wrong(f"not at its end after {MOST_SECONDS} s: {self.where()}")
                return
            self.turn(now)
            self.watch()
            if not self.world.paused:
                self.person(now)
            time.sleep(0.03)
        self.watch()
        self.check()

    def settled(self) -> bool:
        """Whether the run has come to its end, and nothing more is to happen to it."""
        world = self.world
        if self.ends and "end" in told("/mnt/ended"):
            world.kill_everything()  # the box is off
            for fault, _ in self.active:
                if isinstance(fault, Moved):
                    fault.end(world)
                    if fault.aside.exists():  # a second run has its place; the first is judged
                        world.run_dir = fault.aside
            return True
        if world.ended() != "done" or self.ends or self.active or world.alive("runner"):
            return False
        return not self.due_later()

    def due_later(self) -> bool:
        """Whether a fault is still to come; a run that is done leaves none."""
        self.missed += self.pending
        self.pending = []
        return False

    def turn(self, now: float) -> None:
        """Begin the faults whose instant has come, and end those that have lasted long enough."""
        for fault, until in list(self.active):
            if now >= until:
                fault.end(self.world)
                self.active.remove((fault, until))
            else:
                fault.keep(self.world)
        step, steps = self.world.step(), self.world.steps_wanted
        if self.world.finished() and not self.finished_at:
            self.finished_at = now
        for fault in list(self.pending):
            wait = self.waits[id(fault)]
            if fault.place < 0:
                due = now >= self.began + wait
            elif fault.place <= 1:
                due = step >= fault.place * steps
            else:
                due = self.finished_at and now >= self.finished_at + wait
            free = all(
                other.resource != fault.resource or not fault.resource for other, _ in self.active
            )
            if due and free:
                self.begin(fault)

    def begin(self, fault: Fault) -> None:
        """Let a fault happen, if what it hits is there; if not, it waits for it."""
        fault.at_step = self.world.step()
        fault.phase = self.world.json("state.json").get("phase", "new")
        fault.amid = bool(fault.at_step and self.world.trainer() and not self.world.finished())
        fault.at = round(time.monotonic() - self.began, 2)
        if fault.begin(self.world):
            self.pending.remove(fault)
            for other in self.happened:
                if other.at + other.seconds + NEAR > fault.at:
                    other.amid = fault.amid = False
            self.happened.append(fault)
            if fault.seconds:
                self.active.append((fault, time.monotonic() + fault.seconds))

    def where(self) -> str:
        """Where the run stands, in a few words."""
        world, state = self.world, self.world.json("state.json")
        alive = [
            name
            for name in ("runner", "keeper", "holder", "deadman", "train", "sync")
            if world.alive(name)
        ]
        return f"phase {state.get('phase')}, step {world.step()}, marker {world.ended() or 'none'}, alive: {' '.join(alive) or 'none'}"

    def wrong(self, what: str) -> None:
        if what not in self.broke:
            self.broke.append(what)

    # What is said meanwhile.

    def watch(self) -> None:
        """Look for what isn't true at this moment."""
        world = self.world
        mark = world.ended()
        if mark and (not self.marks or self.marks[-1] != mark):
            self.marks.append(mark)
            if mark == "done":
                self.done_is_true()
        copy = world.in_run("last-sync")
        if copy != self.claim:
            self.claim = copy
            self.copy_is_true(copy)
        self.look()

    def done_is_true(self) -> None:
        world = self.world
        if not world.finished():
            self.wrong("marked done before the program's end")
        if self.durable:
            self.copies_are_whole("marked done")

    def copies_are_whole(self, when: str) -> None:
        """The durable place has result and newest checkpoint, byte for byte."""
        copies, world = self.world.copies(), self.world
        last = max(world.saved(), default=0)
        for path in (world.final, world.checkpoints / f"step-{last}.pt"):
            if copies.get(path.name) != digest(path):
                self.wrong(f"{when}, but {path.name} isn't at the durable place as it is here")

    def copy_is_true(self, text: str) -> None:
        """What a copy's claim says: every checkpoint that was there when it began is there, byte for byte."""
        try:
            claim = json.loads(text)
        except ValueError:
            return
        begun, told = (changed(self.world.run_dir / name) for name in ("sync.pid", "last-sync"))
        # While this process waited for a verb, another copy may have begun.
        if not claim.get("verified") or begun > told:
            return
        copies = self.world.copies()
        for path in self.world.checkpoints.glob("step-*.pt"):
            with suppress(OSError):
                older = path.stat().st_mtime < begun - 0.3
                if older and path.stem[5:].isdigit() and copies.get(path.name) != digest(path):
                    self.wrong(
                        f"a copy is called verified, but {path.name} isn't at the durable place"
                    )

    def look(self) -> None:
        """Ask for the status now and then, as a person does, without waiting for it."""
        world = self.world
        if self.look_call and self.look_call.poll() is not None:
            text, _ = self.look_call.communicate()
            self.forget(self.look_call)
            self.look_call, self.next_look = None, time.monotonic() + 1.5
            if self.cuts == world.cuts:
                self.status_is_true(text)
        elif not self.look_call and time.monotonic() > self.next_look:
            self.cuts = world.cuts
            self.look_call = world.popen("status", "--json")

    def forget(self, call: subprocess.Popen) -> None:
        self.world.children.remove(call)  # else its process would be left out for good

    def status_is_true(self, text: str) -> None:
        try:
            status = json.loads(text.strip().splitlines()[-1])
        except (ValueError, IndexError):
            self.wrong(f"status --json is no JSON: {text[-300:]!r}")
            return
        if status.get("phase") == "done" and not self.world.finished():
            self.wrong("status says done before the program's end")

    # What a person does.

    def person(self, now: float) -> None:
        """Call `start` where a run says that it needs somebody, or where nobody is left to raise it."""
        world, mark = self.world, self.world.ended()
        if now < self.next_call or mark == "done":
            return
        if world.alive("runner") or (world.here() and not mark):
            self.nobody_since = 0
            return
        self.nobody_since = self.nobody_since or now
        if now < self.nobody_since + 0.5:
            return
        if mark == "failed":
            self.after_failure()
        elif mark == "unsaved" and not self.had("durable place", "full disk"):
            self.wrong("unsaved without a cause")
            self.call("start")
        elif mark or any(fault.person for fault in self.happened):
            self.call("start")
        else:
            self.wrong("everything of the run is gone, though nobody killed all of it")
            self.call("start")

    def had(self, *names: str) -> bool:
        return any(fault.name in names for fault in self.happened)

    def after_failure(self) -> None:
        """Resume after a failure that a fault explains, when the fault is over."""
        told = self.world.json(".failed") or self.world.json("state.json")
        known = {name for fault in self.happened for name in fault.classes}
        reason = str(told.get("reason"))
        refused = reason.startswith("preflight") and self.had("durable place", "full disk")
        # Two kills at one step are what a step that needs too much memory looks like.
        kills = [fault.at_step for fault in self.happened if fault.name in KILLS]
        twice = "the same failure at the same step twice" in reason and len(kills) > len({*kills})
        if told.get("class") not in known and not refused and not twice:
            self.wrong(f"failed: {told.get('class')} ({told.get('reason')})")
        if not self.active:
            self.call("resume")

    def call(self, verb: str) -> None:
        """Call a verb and judge its exit code."""
        child = self.world.popen(verb)
        code = code_of(child)
        text, _ = child.communicate()
        self.forget(child)
        self.calls.append(f"{verb} {code}")
        excused = {75: True, 78: self.had("durable place", "full disk", "run folder moved")}
        if code != 0 and not excused.get(code) and not self.active:
            self.wrong(f"{verb} ended with {code}")
            self.said.append(text[-1000:])
        self.nobody_since = 0
        self.next_call = time.monotonic() + (0.3 if code == 0 else 1.0)

    # What must be true at the end.

    def check(self) -> None:
        world = self.world
        if world.final.read_bytes() != world.expected:
            self.wrong("the final weights differ from those of an unbroken run")
        self.check_work()
        if self.durable:
            self.copies_are_whole("at the end")
            self.check_places()
        self.check_end()
        if self.ends:
            self.check_end_command()
        for fault in self.happened:
            if missing := fault.told(world):
                self.wrong(missing)

    def check_work(self) -> None:
        """Nobody trained beside another, and each new beginning lost no more than was unsaved."""
        steps = [(mark, int(step)) for mark, step, _ in self.world.lines("steps")]
        allowed = EVERY + sum(fault.lost for fault in self.happened)
        most = sum(fault.restarts for fault in self.happened)
        self.restarts, self.lost, broke = work(steps, allowed, most)
        for what in broke:
            self.wrong(what)

    def check_places(self) -> None:
        """Nothing was written where the durable place wasn't."""
        gone = self.world.gone[:]
        self.world.vanish()
        # A copy under way when the place goes may still write the file that it has begun.
        files = [path for path in self.world.place.rglob("*") if path.is_file()]
        late = [
            file.name
            for file in files
            if not any(0 <= file.stat().st_ctime - at < 2 for at in gone)
        ]
        if late or any(path.name == ".rgt-place" for path in files):
            self.wrong(f"written into the empty folder of a place that was gone: {late[:5]}")
        other = [
            path.name for path in (self.world.volumes / "other").rglob("*") if path.suffix == ".pt"
        ]
        if other:
            self.wrong(f"written to a durable place of another run: {other[:5]}")

    def check_end(self) -> None:
        """Marker, state.json and status say the same, and nothing is left that runs."""
        world = self.world
        marks = [
            path.name
            for path in world.run_dir.glob(".*")
            if path.name[1:] in ("done", "failed", "preempted", "unsaved")
        ]
        if marks != [".done"]:
            self.wrong(f"markers at the end: {marks}")
        until = time.monotonic() + PATIENCE
        while world.here() and time.monotonic() < until:
            time.sleep(0.1)
        if left := world.here():
            self.wrong(
                f"{PATIENCE} s after its end there still run: {[command(pid) for pid in left][:4]}"
            )
        done = world.verb("status", "--json")
        try:
            status = json.loads(done.stdout)
        except ValueError:
            self.wrong(
                f"status --json is no JSON at the end: {(done.stdout + done.stderr)[-300:]!r}"
            )
            return
        wanted = {"phase": "done", "exit": 0, "step": world.steps_wanted}
        if self.had("full disk"):
            del wanted["step"]  # the log's last lines may be lost
        for name, value in wanted.items():
            unknown = status.get(name) is None and self.may_be_unknown(name)
            if status.get(name) != value and not unknown:
                self.wrong(f"at the end, status has {name} {status.get(name)!r}, not {value!r}")
        if status.get("alive") and not left:
            self.wrong("at the end, status calls it alive")
        if self.durable and not (status.get("last_sync") or {}).get("verified"):
            self.wrong("done, but its last copy isn't called verified")

    def may_be_unknown(self, name: str) -> bool:
        """Whoever was to tell the exit code may have been killed; the log's last lines may be lost."""
        kills = [fault.detail for fault in self.happened if fault.name == "kill"]
        if name == "exit":
            return "holder" in kills or "everything" in kills or self.had("reboot")
        return self.had("full disk", "run folder moved") or self.may_be_unknown("exit")

    def check_end_command(self) -> None:
        """The command that ends the box was called once the result was safe, and never two at a time."""
        lines = [line.split() for line in told("/mnt/ended").splitlines()]
        if any(word == "unsafe" for word, _ in lines):
            self.wrong("the box was ended before the result was safe")
        if [pid for word, pid in lines if word == "begin"][1:] and lines[2][0] != "end":
            self.wrong("two end commands ran at once")

    def record(self) -> dict:
        """What one line of the record holds."""
        return {
            "faults": [
                {"fault": f.words, "at": f.at, "step": f.at_step, "phase": f.phase}
                for f in self.happened
            ],
            "missed": [fault.words for fault in self.missed],
            "durable": self.durable,
            "ends_box": self.ends,
            "calls": self.calls,
            "ends": self.marks,
            "restarts": getattr(self, "restarts", None),
            "lost": getattr(self, "lost", None),
            "seconds": round(time.monotonic() - self.began, 1),
            "held": not self.broke,
            "broke": self.broke,
            **(
                {"said": said}
                if (said := [*self.said, *(f.said for f in self.happened if f.said)])
                else {}
            ),
        }


def work(steps: list[tuple[str, int]], allowed: int, most: int) -> tuple[int, int, list[str]]:
    """How often the program began anew, how many steps were done twice, and what wasn't held.

    `steps`: (which program, step), as they were done. `allowed`: steps that one new beginning may repeat. `most`: new beginnings.
    """
    seen: list[str] = []
    repeated = last = 0
    broke = []
    for mark, step in steps:
        if not seen or mark != seen[-1]:
            if mark in seen:
                broke.append("two programs trained at once")
                break
            again = last + 1 - step
            repeated += max(again, 0)
            if again > allowed:
                broke.append(f"{again} steps were lost at once; {allowed} could be")
            seen.append(mark)
        if step > last + 1:
            broke.append(f"steps were left out: {last}, then {step}")
        last = step
    restarts = max(len(seen) - 1, 0)
    if restarts > most:
        broke.append(f"the program began anew {restarts} times; the faults explain {most}")
    return restarts, repeated, broke


def changed(path: Path) -> float:
    """When a file was written, 0 where there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def told(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def command(pid: int) -> str:
    """A process's last words: a runner's source is long."""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read().split(b"\0")
        return " ".join(
            word[-40:].decode(errors="replace").replace("\n", " ") for word in words[-4:]
        )
    return "?"


def first_process() -> None:
    """Reap what loses its parent, as the first process of a box does, and go on as its only child."""
    child = os.fork()
    if child == 0:
        return
    while True:
        pid, status = os.wait()
        if pid == child:
            os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 70)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.torture.one")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--fault", action="append", default=[])
    parser.add_argument("--answer", type=int, required=True, help="file descriptor for the record")
    parser.add_argument("--keep", type=int, default=-1, help="one for what a broken run leaves")
    args = parser.parse_args()
    if os.getpid() != 1:
        sys.exit("this runs in namespaces of its own: python -m tests.torture")
    first_process()
    run = Run(args.seed, args.fault)
    try:
        run.go()
    except Exception:
        run.wrong(f"the harness: {traceback.format_exc()[-1500:]}")
    if run.broke and args.keep >= 0:
        with (
            suppress(Exception),
            os.fdopen(args.keep, "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz") as tar,
        ):
            tar.add("/mnt", "box")
    with os.fdopen(args.answer, "w") as file:
        json.dump({"seed": args.seed, **run.record()}, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
