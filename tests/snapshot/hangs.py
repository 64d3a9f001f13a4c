"""Ranks of `hang_program.py` that hang, as real processes of a run. Import the fixture: `from tests.snapshot.hangs import hang`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import fault_handler, killing, procs
from remote_gpu_trainer.runner.context import Run

from tests.conftest import ROOT, module
from tests.runner.jobs import job_of

PROGRAM = ROOT / "tests" / "snapshot" / "hang_program.py"
# Per kind: what the page alone must say of rank 1, in its first lines.
SAYS = {
    "loader": r"loading data in own code, __getitem__ \(hang_program\.py:\d+\): waits for a lock",
    "worker": r"in the data loader, from next_batch .*; its worker \d+ is in __getitem__ .*a lock",
    "killed": r"dead: killed by SIGKILL",
    "stopped": r"stopped by a signal \(state T",
    "slow": r"in own code, \S+ \(hang_program\.py:\d+\): computes",
    "loop": r"in own code, loop_in_c \(hang_program\.py:\d+\): computes .*, the same line",
    "deadlock": r"in own code, deadlock_in_c .*: waits for a lock, the same line",
    "fifo": r"in own code, read_fifo .*: waits in open of \S+feed\.fifo",
    "stuck": r"stuck in the kernel \(state D.*\bin (clone|vfork)",
    "raised": r"at its end, .*flush_at_exit .*it wrote: ValueError: shape mismatch in the head",
    "collective": r"in broadcast, from another_collective \(hang_program\.py:\d+\)",
}


class Hang:
    """A run whose rank 1 does what a kind says. `run`: its run; `place`: where its files are."""

    def __init__(self, place: Path, kind: str, ranks: int, marked: bool):
        self.place, self.run = place, Run(job_of({"rendered": {"run_dir": str(place / "run")}}))
        self.run.folder.make()
        env = {**os.environ, "RGT_RUN_DIR": self.run.folder.path, "RGT_ATTEMPT": "1"}
        if marked:
            env |= fault_handler.environment(self.run)
        with open(self.run.folder.at("log", "train.log.0000"), "w") as log:
            words = [sys.executable, str(PROGRAM), kind, str(place), str(ranks)]
            self.launcher = subprocess.Popen(
                words, env=env, stdout=log, stderr=log, start_new_session=True
            )
        until = time.monotonic() + 90
        while len(list(place.glob("ready-*"))) < ranks:
            assert time.monotonic() < until and self.launcher.poll() is None, self.log()
            time.sleep(0.1)
        time.sleep(1.0)  # the others come to the next collective

    def log(self) -> str:
        return Path(self.run.folder.at("log", "train.log.0000")).read_text()

    def pids(self) -> set[int]:
        return procs.of_program(self.run.folder, self.launcher.pid)

    def end(self) -> None:
        killing.kill_program(self.run.folder)
        with suppress(OSError):
            os.killpg(self.launcher.pid, 9)
        self.launcher.wait(10)


@pytest.fixture
def hang(tmp_path):
    """Start ranks that hang: hang('stopped', ranks=3). `marked`: with the runner's fault handler."""
    module("torch", "pip install -e '.[proofs]'")
    started: list[Hang] = []

    def begin(kind: str, ranks: int = 3, marked: bool = True) -> Hang:
        place = tmp_path / kind
        place.mkdir()
        started.append(Hang(place, kind, ranks, marked))
        return started[-1]

    yield begin
    for one in started:
        one.end()


Begin = Callable[..., Hang]
