"""What goes wrong in a run of the torture: each fault begins, may last, and ends. A table of all is at the end."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from .world import EVERY, STEPS, World, digest

HOURS = 3600


class Fault:
    """One fault at one instant.

    `place`: when it begins, as a share of the steps; below 0 during the start, above 1 after the last step. `seconds`: how long it lasts.
    `restarts`: how often the program may begin anew because of it, and `lost`: how many steps that may cost beyond one save interval.
    `person`: somebody may have to call `start` after it. `classes`: those of a failure that it may cause.
    """

    name = ""
    resource = ""  # two faults with the same one follow each other
    restarts = lost = 0
    lasts = (0.0, 0.0)
    person = False
    needs_durable = False
    classes: frozenset[str] = frozenset()

    def __init__(self, chance: random.Random):
        self.place = chance.uniform(-0.1, 1.1)
        self.seconds = round(chance.uniform(*self.lasts), 1)
        self.detail = self.phase = self.said = ""
        self.at = self.at_step = 0.0
        self.amid = False  # the program trained when it began, and no other fault was near
        self.draw(chance)

    def draw(self, chance: random.Random) -> None:
        """Draw what else there is to draw."""

    def begin(self, world: World) -> bool:
        """Let it happen; False where there was nothing that it could hit."""
        raise NotImplementedError

    def keep(self, world: World) -> None:
        """What has to be done again and again while it lasts."""

    def end(self, world: World) -> None:
        """Take it back."""

    def has_to_be_told(self) -> str:
        """A pattern for what a run in training has to tell of it, '' for nothing."""
        return ""

    def told(self, world: World) -> str:
        """What the run should have told and didn't, '' where all is told."""
        pattern = self.has_to_be_told() if self.amid else ""
        return f"nothing is told of {self.words!r}" if not re.search(pattern, world.told()) else ""

    @property
    def words(self) -> str:
        parts = [self.name, self.detail, f"{self.seconds:g}s" if self.seconds else ""]
        return " ".join(part for part in parts if part)


class Kill(Fault):
    """kill -9 of one process or of several in one moment."""

    name = "kill"
    whom = ("train", "runner", "keeper", "holder", "runner+train", "runner+keeper",
            "runner+keeper+train", "everything")  # fmt: skip

    def draw(self, chance):
        self.detail = chance.choice(self.whom)
        self.restarts = int("train" in self.detail or self.detail == "everything")
        self.person = self.detail == "everything"

    def begin(self, world):
        if self.detail == "everything":
            world.kill_everything()
            return True
        names = self.detail.split("+")
        # The program first, or whoever is its parent would have time to see the others go.
        pids = [pid for pid in map(world.alive, sorted(names, key="train".__ne__)) if pid]
        world.kill(pids)
        return bool(pids)

    def has_to_be_told(self):
        if self.detail in ("train", "runner+train", "runner+keeper+train"):
            return '"class": "killed"'
        if self.detail == "everything":
            return '(?s)"event": "start".*"event": "start"'
        return '"event": "raised"' if "runner" in self.detail else ""


class Stop(Fault):
    """SIGSTOP for some seconds: of one process, or of the whole box, as when a machine is moved."""

    name, lasts, resource = "stop", (0.5, 5), "stop"
    whom = ("train", "runner", "keeper", "holder", "everything")

    def draw(self, chance):
        self.detail = chance.choice(self.whom)
        self.pids: list[int] = []

    def begin(self, world):
        one = world.alive(self.detail)
        self.pids = world.here() if self.detail == "everything" else [one] if one else []
        world.kill(self.pids, signal.SIGSTOP)
        return bool(self.pids)

    def end(self, world):
        world.kill(self.pids, signal.SIGCONT)

    def has_to_be_told(self):
        return '"event": "woken"' if self.detail == "runner" and self.seconds > 4 else ""


class FullDisk(Fault):
    """A disk without a byte left, for some seconds."""

    name, lasts = "full disk", (0.5, 5)

    def draw(self, chance):
        self.detail = chance.choice(("run folder", "checkpoints"))
        self.resource = self.detail
        if self.detail == "checkpoints":
            # The save that fails ends the program, and again after each retry.
            self.restarts, self.person, self.classes = 4, True, frozenset({"disk"})
        self.ballast = Path("/mnt/disk" if self.detail == "run folder" else "/mnt/ckpt", "ballast")

    def begin(self, world):
        self.keep(world)
        return True

    def keep(self, world):
        with suppress(OSError), open(self.ballast, "ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                with suppress(OSError):
                    while file.write(b"\1" * size):
                        pass

    def end(self, world):
        self.ballast.unlink()

    def has_to_be_told(self):
        certain = self.detail == "checkpoints" and self.seconds > 1 and self.at_step < STEPS - 10
        return '"class": "disk"' if certain else ""


class Durable(Fault):
    """The durable place doesn't work for some seconds."""

    name, lasts, resource, needs_durable = "durable place", (0.5, 6), "durable", True
    person = True
    how = ("hangs", "vanishes", "read-only", "of another run")

    def draw(self, chance):
        self.detail = chance.choice(self.how)

    def begin(self, world):
        if self.detail == "hangs":
            Path("/mnt/hang").touch()
            self.keep(world)
            return True
        world.vanish()
        if self.detail == "read-only":
            world.come_back(read_only=True)
        if self.detail == "of another run":
            world.come_back("other")
        return True

    def keep(self, world):
        if self.detail == "hangs" and (pid := world.alive("sync")):
            world.kill([pid], signal.SIGSTOP)

    def end(self, world):
        if self.detail == "hangs":
            Path("/mnt/hang").unlink()
            world.kill([pid for pid in world.here() if stopped(pid)], signal.SIGCONT)
            return
        if self.detail != "vanishes":
            world.vanish()
        world.come_back()


class Clock(Fault):
    """Somebody sets the clock, and back again or not."""

    name, lasts, resource = "clock", (0.5, 5), "clock"

    def draw(self, chance):
        self.off = int(chance.choice((-1, 1)) * chance.uniform(0.05, 3) * HOURS)
        self.stays = chance.random() < 0.5
        self.detail = f"{self.off:+d}s{' for good' if self.stays else ' for'}"

    def begin(self, world):
        world.shift(self.off)
        return True

    def end(self, world):
        if not self.stays:
            world.shift(0)


class Twice(Fault):
    """`start` is called twice at once while the run goes on."""

    name, person = "start twice", True

    def begin(self, world):
        self.going = bool(world.trainer())
        self.calls = [world.popen("start") for _ in range(2)]
        self.codes = [code_of(call) for call in self.calls]
        self.detail = "/".join(map(str, self.codes))
        return True

    def told(self, world):
        # 0: the run had ended before; 78: its folder is away, or a disk is full
        lost = [code for code in self.codes if code not in (0, 75, 78)]
        return f"start, called twice, ended with {lost}" if lost else ""


class Moved(Fault):
    """Somebody moves the run folder, calls `start` again, and moves it back where that was refused."""

    name, lasts, resource, person, restarts = "run folder moved", (0.5, 3), "run folder", True, 2

    def begin(self, world):
        if world.with_durable and not (world.place / ".rgt-place").exists():
            return False  # a new run folder takes whatever lies there for its durable place
        self.aside = world.run_dir.with_name(f"moved-{time.monotonic_ns()}")
        try:
            os.rename(world.run_dir, self.aside)
        except OSError:
            return False
        world.paused += 1
        self.call = world.popen("start")
        return True

    def end(self, world):
        code = code_of(self.call)
        self.said = self.call.stdout.read()[-1000:] if self.call.stdout else ""
        self.detail = f"start {code}"
        world.paused -= 1
        if code == 0:
            return
        shutil.rmtree(world.run_dir, ignore_errors=True)
        with suppress(OSError):
            os.rename(self.aside, world.run_dir)

    def has_to_be_told(self):
        return "folder-moved" if self.seconds > 2 else ""


class Reboot(Fault):
    """All is killed, /tmp is empty, the boot id is another, pids begin anew; somebody calls `start`."""

    name, restarts, person = "reboot", 1, True

    def begin(self, world):
        world.kill_everything()
        for path in world.temporary.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        world.boot()
        with suppress(OSError):
            Path("/proc/sys/kernel/ns_last_pid").write_text("20")
        return True

    def has_to_be_told(self):
        return '(?s)"event": "start".*"event": "start"'


class Signal(Fault):
    """What a scheduler sends before it takes the box away."""

    name, restarts, person, classes = "signal", 1, True, frozenset({"preempted"})

    def draw(self, chance):
        self.detail = chance.choice(("USR1", "TERM"))

    def begin(self, world):
        pid = world.alive("runner")
        if pid:
            os.kill(pid, getattr(signal, f"SIG{self.detail}"))
        return bool(pid)

    def has_to_be_told(self):
        return '"phase": "preempted"'


class Broken(Fault):
    """The newest checkpoint is torn, and the program is killed before it writes another."""

    name, restarts, lost = "broken checkpoint", 1, EVERY

    def draw(self, chance):
        self.detail = chance.choice(("half", "empty", "flipped", "noise"))
        self.noise = chance.randbytes(4096)

    def begin(self, world):
        pid = world.trainer()
        world.kill([pid] if pid else [], signal.SIGSTOP)
        found = [path for path in world.checkpoints.glob("step-*.pt") if path.stem[5:].isdigit()]
        saved = world.saved()
        whole = [path for path in found if digest(path) in saved.get(int(path.stem[5:]), ())]
        newest = max(found, key=lambda path: int(path.stem[5:]), default=None)
        # Without another whole one a run may only give up.
        if not pid or world.finished() or newest not in whole or len(whole) < 2:
            world.kill([pid] if pid else [], signal.SIGCONT)
            return False
        data = newest.read_bytes()
        middle = len(data) // 2
        newest.write_bytes(
            {
                "half": data[:middle],
                "empty": b"",
                "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
                "noise": (self.noise * (len(data) // 4096 + 1))[: len(data)],
            }[self.detail]
        )
        world.kill([pid])
        return True

    def has_to_be_told(self):
        return "torn|set-aside|not whole"


class Hangup(Fault):
    """The connection over which somebody called `start` is cut at a random moment."""

    name, person = "ssh cut", True

    def draw(self, chance):
        self.place = -1.0  # it is how the run is started
        self.after = round(chance.uniform(0, 1.5), 2)
        self.detail = f"after {self.after:g}s"

    def begin(self, world):
        pid, terminal = os.forkpty()
        if pid == 0:
            os.execvpe("bash", ["bash", str(world.script), "start"], world.env)
        time.sleep(self.after)
        os.close(terminal)  # the session hears SIGHUP
        time.sleep(0.2)
        with suppress(OSError):
            os.kill(pid, signal.SIGHUP)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        return True


ALL = (Kill, Stop, FullDisk, Durable, Clock, Twice, Moved, Reboot, Signal, Broken, Hangup)
BY_NAME = {kind.name.replace(" ", "-"): kind for kind in ALL}
# kill and stop have many victims, so they are drawn more often.
WEIGHTS = {Kill: 4, Stop: 2, FullDisk: 2, Durable: 3, Clock: 1, Twice: 1, Moved: 1, Reboot: 1,
           Signal: 1, Broken: 1, Hangup: 0.5}  # fmt: skip


def drawn(chance: random.Random, durable: bool, names: list[str]) -> list[Fault]:
    """One to three faults, in the order of their instants; `names`: of these kinds only."""
    kinds = [BY_NAME[name] for name in names] or list(ALL)
    kinds = [kind for kind in kinds if durable or not kind.needs_durable]
    chosen: list[Fault] = []
    for _ in range(chance.randint(1, 3)):
        left = [
            kind
            for kind in kinds
            if kind is not Hangup or not any(isinstance(f, Hangup) for f in chosen)
        ]
        kind = chance.choices(left, [WEIGHTS[kind] for kind in left])[0] if left else None
        if kind:
            chosen.append(kind(chance))
    chosen[0].place = min(chosen[0].place, 0.95)  # so that something happens
    return sorted(chosen, key=lambda fault: fault.place)


def code_of(call: subprocess.Popen) -> int:
    """The exit code of a verb; -1 when it never ended."""
    try:
        return call.wait(40)
    except subprocess.TimeoutExpired:
        call.kill()
        return -1


def stopped(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False
