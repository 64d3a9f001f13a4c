"""A run of the small trainer in a folder of its own, for tests of the run script: real processes, nothing pretended."""

from __future__ import annotations

import base64
import json
import os
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.runner import procs
from remote_gpu_trainer.runner.folder import Folder
from remote_gpu_trainer.runs import rendered, run_script
from remote_gpu_trainer.runs.job import Job
from remote_gpu_trainer.text.proc import read_words

from tests.conftest import ROOT
from tests.runner.jobs import text_of

PROGRAM = ROOT / "tests" / "runner" / "runner_program.py"
# So short that a run takes seconds. All are seconds.
TIMINGS = {
    "heartbeat": 1.0,
    "retry_wait": 0.0,
    "room_wait": 0.0,
    "settle": 0.0,
    "sync_wait": 1.0,
    "leftover": 2.0,
    "raise_after": 2.0,
    "deadman": 1.0,
    "end_retry": 1.0,
    "end_wait": 5.0,
    "lease_beat": 1.0,
    "lease_dead": 10.0,
}


class Box:
    """`make()` writes the script; `start`, `run`, `status` and `wait` drive it. Ends what is left at the end of the test."""

    def __init__(self, folder: Path):
        self.folder, self.run_dir, self.checkpoints = folder, folder / "run", folder / "ckpt"
        self.script = folder / "run.sh"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("RGT_")} | {
            "TMUX_TMPDIR": str(folder)
        }
        self.children: list[subprocess.Popen] = []

    def job(self, *arguments: object, **fields) -> dict:
        """The fields of a job: these over those of a short run. A field with parts of its own is filled up part by part."""
        usual = {
            "name": "toy", "run_dir": str(self.run_dir), "command": [sys.executable, str(PROGRAM), *map(str, arguments)],
            "python": sys.executable, "gpus": 0, "deadline": "1h", "step_pattern": "step [0-9]+", "probe": False,
            "checkpoint": {"folder": str(self.checkpoints), "pattern": "step-*.pt", "save_seconds": 10},
            "results": [str(self.run_dir / "final.bin")], "timings": TIMINGS,
            "stall": {"log_minutes": 0, "step_minutes": 0, "idle_power_minutes": 0}, "floors": {"free_gb": 0, "free_inodes": 0},
        }  # fmt: skip
        for name, value in fields.items():
            parts = usual.get(name)
            usual[name] = (
                {**parts, **value} if isinstance(parts, dict) and isinstance(value, dict) else value
            )
        if usual.get("durable"):
            usual["durable"] = {"on_this_box": True, **usual["durable"]}
        return {name: value for name, value in usual.items() if value is not None}

    def make(
        self,
        *arguments: object,
        target: str = "local",
        platform: str = "local",
        spec: dict | None = None,
        **fields,
    ) -> Box:
        """Write the script of a job. `arguments`: of the small trainer. `fields`: of the job.

        `spec`: what no job says, such as {"rendered": {"billed": True}}.
        """
        job = Job.model_validate(self.job(*arguments, **fields))
        beside = rendered.rendered_of(job, profile.get(platform), target, "test")
        text = text_of(rendered.job_of(job), {"rendered": beside}, spec or {})
        new = self.script.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        os.replace(new, self.script)
        return self

    def change(self, name: str, text: str) -> None:
        """Give the runner another file of this name, before a first start unpacks it."""
        script = self.script.read_text(encoding="utf-8")
        head, mark, packed = script.partition("\n# run.d/runner packed\n")
        runner = json.loads(zlib.decompress(base64.b64decode(packed.partition("# run.d/")[0])))
        (found,) = [one for one in runner if one.endswith(f"/{name}")]
        packed = base64.encodebytes(zlib.compress(json.dumps({**runner, found: text}).encode()))
        changed = f"{head}{mark}{packed.decode()}{run_script.END}"
        self.script.write_text(changed, encoding="utf-8")

    def verb(self, *words: str, timeout: float = 60) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["bash", str(self.script), *words],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def popen(self, *words: str, **more) -> subprocess.Popen:
        child = subprocess.Popen(
            ["bash", str(self.script), *words],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            **more,
        )
        self.children.append(child)
        return child

    def start(self, verb: str = "start") -> None:
        done = self.verb(verb)
        assert done.returncode == 0, done.stdout + done.stderr + self.log()

    def status(self) -> dict:
        return json.loads(self.verb("status", "--json").stdout)

    def wait(self, *phases: str, timeout: float = 60) -> dict:
        until = time.monotonic() + timeout
        while (now := self.status())["phase"] not in (
            phases or ("done", "failed", "preempted", "unsaved")
        ) or (not phases and now["alive"]):
            assert time.monotonic() < until, (now, self.log())
            time.sleep(0.1)
        return now

    def until(self, true: Callable[[], object], timeout: float = 90, what: str = ""):
        end = time.monotonic() + timeout
        while not (value := true()):
            assert time.monotonic() < end, (what, self.log(), self.events())
            time.sleep(0.05)
        return value

    def at_step(self, step: int) -> None:
        self.until(lambda: self.steps() and self.steps()[-1][1] >= step, what=f"step {step}")

    def steps(self) -> list[tuple[int, int, int]]:
        """(attempt, step, newest checkpoint's step) of every step that was done."""
        path = self.run_dir / "steps.log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [
            (int(attempt), int(step), int(saved)) for attempt, step, saved in map(str.split, lines)
        ]

    def events(self, name: str = "") -> list[dict]:
        path = self.run_dir / "events.jsonl"
        lines = (
            [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        )
        return [line for line in lines if not name or line["event"] == name]

    def marker(self, name: str) -> dict:
        return json.loads((self.run_dir / f".{name}").read_text())

    def log(self) -> str:
        path = self.run_dir / "log" / "runner.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def output(self) -> bytes:
        return b"".join(
            path.read_bytes() for path in sorted((self.run_dir / "log").glob("train.log.*"))
        )

    def pid(self, name: str) -> int:
        """The process that is noted as the run's runner, supervisor or train."""
        pid, _ = procs.noted(Folder(str(self.run_dir)), name)
        assert pid, f"no {name} is noted"
        return pid

    def shells(self) -> list[int]:
        """The shells behind the run's supervisor; between two there may be none."""
        return shells(self.run_dir)

    def deadline(self) -> int:
        """The run's deadline, in seconds since 1970."""
        return int((self.run_dir / "deadline").read_text().split()[0])

    def processes(self) -> list[int]:
        """Every process that works for this run: its script's, and those that carry its mark."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words, env = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            ours = (
                str(self.folder).encode() in words or f"RGT_RUN_DIR={self.run_dir}".encode() in env
            )
            if ours and state != "Z" and int(entry.name) != os.getpid():
                found.append(int(entry.name))
        return found

    def kill_everything(self) -> None:
        """What a reboot does to processes; files stay as they are."""
        kill_all(self.processes)

    def tool(self, name: str, text: str) -> None:
        """Put a program in front of those on the run's PATH."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
        if str(folder) not in self.env["PATH"].split(":"):
            self.env["PATH"] = f"{folder}:{self.env['PATH']}"

    def close(self) -> None:
        self.kill_everything()
        for child in self.children:
            child.wait(10)
            if child.stdout:
                child.stdout.close()


def shells(run_dir: Path) -> list[int]:
    """The shells behind the supervisor of a run."""
    mark = f"\0deadman\0{run_dir}\0".encode()
    return [pid for pid in procs.table() if mark in read_words(pid)]


def kill_all(processes: Callable[[], list[int]]) -> None:
    """Kill what `processes` finds until it finds nothing."""
    for _ in range(50):
        left = processes()
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(0.05)
    raise AssertionError(f"still there: {left}")


def undisturbed(steps: int = 40, ranks: int = 1) -> bytes:
    """The final weights of a run that nothing happened to."""
    weights = [1, 2, 3, 4]
    for step in range(steps):
        share = sum((step + 1) * (rank + 1) for rank in range(ranks))
        weights = [(w * 48271 + share + n) % (2**31 - 1) for n, w in enumerate(weights)]
    return struct.pack("<5q", steps, *weights)


def assert_nothing_repeated(box: Box) -> None:
    """No step that a finished checkpoint held was done again: a new attempt begins where the newest checkpoint ended."""
    held = 0
    for _, step, saved in box.steps():
        assert step > held or saved >= held, (step, held)
        assert step > saved
        held = max(held, saved)
        assert step > held, f"step {step} was done again although a checkpoint held {held}"


@pytest.fixture
def box(tmp_path):
    made = Box(tmp_path)
    yield made
    made.close()
