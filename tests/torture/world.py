"""A box for one run of the torture, in mount and process namespaces of its own: disks that fill, places that vanish, a boot id.

Everything lies below /mnt, a file system in memory that goes with the namespace, and every process in it is one of the run's, but for
this one, its children and the first.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

from tests.conftest import ROOT
from tests.runner.box import Box, undisturbed

HERE = Path(__file__).resolve().parent
STEPS, EVERY, SLEEP = 80, 5, 0.04
MEGABYTE = 1 << 20
TIMINGS = {
    "heartbeat": 0.5,
    "tick": 0.05,
    "retry_wait": 0.1,
    "tries_an_hour": 1000,
    "leftover": 1.0,
    "raise_after": 1.0,
    "hung": 8.0,
    "stopped": 2.5,
    "deadman": 0.5,
    "sync_wait": 0.5,
    "copy_quiet": 6.0,
    "notify_every": 2.0,
    "end_retry": 0.5,
    "end_wait": 5.0,
    "lease_beat": 0.5,
    "lease_dead": 4.0,
}
RSYNC = """#!/bin/sh
# rsync, but while /mnt/hang is there it does nothing and never ends.
while [ -e /mnt/hang ]; do sleep 0.1; done
exec {rsync} "$@"
"""
PYTHON = """#!/bin/bash
# Python, but the text of -c comes behind one that sets the clock.
words=()
while [[ $# -gt 0 && $1 != -c ]]; do words+=("$1"); shift; done
if [[ $# -gt 0 ]]; then
  words+=(-c "exec(compile(open('/mnt/clock.py').read(), 'clock', 'exec'), {{}})
$2")
  shift 2
fi
exec {python} "${{words[@]}}" "$@"
"""
END = """#!/bin/bash
# The user's command that ends the box: tells when it was called, and whether the result was safe.
echo "begin $$" >>/mnt/ended
copy=$(find /mnt/volumes/durable -name final.bin | head -n 1)
if compgen -G "/mnt/disk/*/.done" >/dev/null && cmp -s "$copy" /mnt/expected; then echo "safe $$"; else echo "unsafe $$"; fi >>/mnt/ended
sleep 0.3
echo "end $$" >>/mnt/ended
"""


class World(Box):
    """A box whose disks, clock and boot the torture owns. `ends`: the job names a command that ends the box."""

    def __init__(self, durable: bool, ends: bool, shifted: bool):
        super().__init__(Path("/mnt"))
        assert Path("/mnt") not in ROOT.parents, f"{ROOT} would be hidden; check it out elsewhere"
        self.paused = 0  # faults that act themselves where a person would
        self.cuts = 0  # how often all processes were killed, those of a verb among them
        self.gone: list[float] = []  # when the durable place went
        mount("-t", "tmpfs", "-o", "size=200m,mode=755", "torture", "/mnt")
        # What a reboot empties. A checkout below /tmp must stay in sight.
        self.temporary = Path("/mnt/tmp" if Path("/tmp") in ROOT.parents else "/tmp")
        self.temporary.mkdir(exist_ok=True)
        mount("-t", "tmpfs", "-o", "size=50m,mode=1777", "torture", str(self.temporary))
        os.environ["TMPDIR"] = self.env["TMPDIR"] = str(self.temporary)
        self.ledger, self.place, self.volumes = (
            Path(f"/mnt/{name}") for name in ("ledger", "durable", "volumes")
        )
        for name in (
            "ledger",
            "durable",
            "bin",
            "disk",
            "ckpt",
            "volumes/durable",
            "volumes/other",
        ):
            Path(f"/mnt/{name}").mkdir(parents=True)
        for name, megabytes in (("disk", 8), ("ckpt", 2), ("volumes", 40)):
            mount("-t", "tmpfs", "-o", f"size={megabytes}m", "torture", f"/mnt/{name}")
        # The runner takes no memory for a durable place, so each volume is a file system over it.
        for name in ("durable", "other"):
            parts = [
                Path(f"/mnt/volumes/{name}{part}") for part in (".lower", ".upper", ".work", "")
            ]
            for part in parts:
                part.mkdir()
            options = "lowerdir={},upperdir={},workdir={}".format(*parts[:3])
            mount("-t", "overlay", "-o", options, "torture", str(parts[3]))
        self.run_dir, self.checkpoints = Path("/mnt/disk/run"), Path("/mnt/ckpt/toy")
        self.final = Path("/mnt/ckpt/final.bin")
        (self.volumes / "other" / ".rgt-place").write_text(json.dumps({"id": uuid.uuid4().hex}))
        self.with_durable, self.with_end = durable, ends
        if durable:
            self.come_back()
        self.boot()
        mount("--bind", "/mnt/boot_id", "/proc/sys/kernel/random/boot_id")
        self.steps_wanted, self.expected = STEPS, undisturbed(STEPS)
        Path("/mnt/expected").write_bytes(self.expected)
        program("/mnt/bin/rsync", RSYNC.format(rsync=shutil.which("rsync")))
        program("/mnt/end.sh", END)
        self.python = self._python()
        self.env = {
            **self.env,
            "PATH": f"/mnt/bin:{os.environ['PATH']}",
            **({"TORTURE_CLOCK": "/mnt/clock"} if shifted else {}),
        }
        self._write_script()

    def _python(self) -> str:
        """The runner's interpreter: its clock is one that a file sets."""
        shutil.copy(HERE / "clock.py", "/mnt/clock.py")
        program("/mnt/bin/python", PYTHON.format(python=sys.executable))
        return "/mnt/bin/python"

    def _write_script(self) -> None:
        words = [sys.executable, str(HERE / "program.py"), "--ledger", str(self.ledger)]
        more = ["--steps", STEPS, "--every", EVERY, "--sleep", SLEEP, "--final", self.final]
        fields: dict = {
            "command": [*words, *map(str, more)],
            "python": self.python,
            "results": [str(self.final)],
            "deadline": "24h",
            "timings": TIMINGS,
            "notify": [
                "bash",
                "-c",
                'printf "%s\\n" "$RGT_MESSAGE" >>/mnt/told',
            ],
        }
        if self.with_durable:
            what = [str(self.checkpoints), str(self.final)]
            fields["durable"] = {"to": str(self.place), "what": what, "every_minutes": 0.01}
        if self.with_end:
            fields["at_end"] = {"do": "run", "command": ["bash", "/mnt/end.sh"], "when": ["done"]}
        self.make(**fields)

    # What the faults turn.

    def boot(self) -> None:
        """Another boot id; in place, as it is mounted over the kernel's."""
        Path("/mnt/boot_id").write_text(f"{uuid.uuid4()}\n")

    def vanish(self) -> None:
        """The durable place is gone: an empty folder of the box's own disk is left."""
        self.gone.append(time.time())
        subprocess.run(["umount", "-l", str(self.place)], check=False, capture_output=True)

    def come_back(self, volume: str = "durable", read_only: bool = False) -> None:
        """The durable place is there again, or another one is."""
        mount("--bind", str(self.volumes / volume), str(self.place))
        if read_only:
            mount("-o", "remount,bind,ro", str(self.place))

    def shift(self, seconds: float) -> None:
        """Set the clock: `seconds` off the machine's from now on."""
        with open("/mnt/clock", "a") as clock:
            clock.write(f"{time.time()} {seconds}\n")

    # What there is.

    def here(self) -> list[int]:
        """Every process of the run: all but the first, this one and what this one has called."""
        called = {child.pid for child in self.children}
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) not in (1, os.getpid(), *called):
                told = stat(int(name))
                if told and told[0] != "Z" and told[1] not in called:
                    found.append(int(name))
        return found

    def alive(self, name: str) -> int:
        """The pid of runner, keeper, holder, deadman, train or sync; 0 when it is gone."""
        with suppress(OSError, ValueError, IndexError):
            pid, start = (self.run_dir / f"{name}.pid").read_text().split()[:2]
            told = stat(int(pid))
            if told and told[0] != "Z" and told[2] == int(start):
                return int(pid)
        return 0

    def trainer(self) -> int:
        """The pid of a living program, 0 for none."""
        for pid in self.here():
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if len(words) > 1 and words[1].endswith(b"torture/program.py"):
                    return pid
        return 0

    def kill(self, pids: list[int], sign: int = signal.SIGKILL) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, sign)

    def kill_everything(self) -> None:
        self.cuts += 1
        for _ in range(100):
            left = self.here()
            self.kill(left)
            if not left:
                return
            time.sleep(0.02)
        raise AssertionError(f"still there: {left}")

    def lines(self, name: str) -> list[list[str]]:
        """The words of each line that the program wrote into its ledger."""
        path = self.ledger / name
        if not path.exists():
            return []
        text = path.read_text()
        return [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]

    def step(self) -> int:
        """The highest step that was done."""
        return max((int(step) for _, step, _ in self.lines("steps")), default=0)

    def finished(self) -> bool:
        return (self.ledger / "finished").exists()

    def saved(self) -> dict[int, set[str]]:
        """{step: SHA-256 of each checkpoint that the program wrote for it}."""
        found: dict[int, set[str]] = {}
        for step, digest in self.lines("saves"):
            found.setdefault(int(step), set()).add(digest)
        return found

    def in_run(self, name: str) -> str:
        """A file of the run folder, '' for none."""
        try:
            return (self.run_dir / name).read_text(errors="replace")
        except OSError:
            return ""

    def json(self, name: str) -> dict:
        try:
            found = json.loads(self.in_run(name))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def ended(self) -> str:
        """The end that a marker names, '' while there is none."""
        names = ("done", "failed", "preempted", "unsaved")
        return next((name for name in names if (self.run_dir / f".{name}").exists()), "")

    def told(self) -> str:
        """All that the run has told anybody: events, its log, notices."""
        places = [
            *Path("/mnt/disk").glob("*/events.jsonl"),
            *Path("/mnt/disk").glob("*/log/runner.log"),
        ]
        return "".join(
            path.read_text(errors="replace")
            for path in (*places, Path("/mnt/told"))
            if path.exists()
        )

    def copies(self) -> dict[str, str]:
        """{name: SHA-256} of checkpoints and result on the durable volume, mounted or not."""
        return {
            path.name: digest(path)
            for path in (self.volumes / "durable").rglob("*")
            if wanted(path)
        }


def wanted(path: Path) -> bool:
    """Whether a file is a checkpoint or the result."""
    whole = path.name == "final.bin" or (path.suffix == ".pt" and path.stem[5:].isdigit())
    return whole and path.is_file()


def digest(path: Path) -> str:
    """The SHA-256 of a file, '' when it is gone."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def stat(pid: int) -> tuple[str, int, int] | None:
    """(state, parent, start) of a process; None when it is gone."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return words[0], int(words[1]), int(words[19])


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


def program(path: str, text: str) -> None:
    Path(path).write_text(text)
    Path(path).chmod(0o755)
