"""Snapshots that the runner takes by itself: a child with a limit, kept few and of bounded size."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import parts, procs, snapshots
from remote_gpu_trainer.runner.context import Run

from tests.conftest import ROOT
from tests.runner.box import Box
from tests.runner.jobs import job_of

pytest_plugins = ["tests.runner.box"]


@pytest.fixture
def run(tmp_path, monkeypatch) -> Run:
    monkeypatch.setattr(parts, "folder", lambda *names: str(tmp_path.joinpath(*names)))
    made = Run(job_of({"run_dir": str(tmp_path / "run")}), str(tmp_path / "run.sh"))
    made.folder.make()
    carry((ROOT / "scripts/snapshot.py").read_text())
    return made


def carry(program: str) -> None:
    """Put this program where the one for snapshots lies."""
    Path(parts.folder("snapshot.py")).write_text(program)


def kept(run: Run) -> list[str]:
    return sorted(os.listdir(run.folder.at(snapshots.KEPT)))


def test_the_runner_keeps_its_first_snapshot_and_the_newest_three(run):
    for at in range(6):
        os.makedirs(run.folder.at(snapshots.KEPT, f"20260101-00000{at}-stall"))
    assert snapshots.keep_snapshot(run, "stall", lambda: False)
    left = kept(run)
    assert [name[14:15] for name in left[:3]] == ["0", "4", "5"] and len(left) == 4
    assert sorted(os.listdir(run.folder.at(snapshots.KEPT, left[3]))) == [
        "page.md",
        "snapshot.json",
        "stacks.log",
    ]


@pytest.mark.parametrize(
    "program", ["raise SystemExit('no room')\n", "import os; os.kill(os.getpid(), 9)\n"]
)
def test_a_program_that_fails_costs_the_snapshot_and_nothing_else(run, program):
    carry(program)
    assert snapshots.keep_snapshot(run, "stall", lambda: False) == "" and kept(run) == []
    assert "no snapshot could be taken: " in run.folder.read("log/runner.log")
    os.unlink(parts.folder("snapshot.py"))
    assert snapshots.keep_snapshot(run, "stall", lambda: False) == ""


def test_a_full_disk_costs_the_snapshot_and_nothing_else(run):
    with open(run.folder.at("log/snapshots"), "w"):
        pass  # no folder can be made there
    assert snapshots.keep_snapshot(run, "stall", lambda: False) == ""
    assert not run.folder.has("events.jsonl")


def test_one_that_hangs_is_given_up_and_the_heart_beats_meanwhile(run, monkeypatch):
    monkeypatch.setitem(snapshots.LIMITS, "stall", 1.0)
    monkeypatch.setattr(snapshots, "LATE", 1.0)
    run.spec.timings.tick = 0.1
    carry("import time\ntime.sleep(60)\n")
    beats: list[float] = []
    began = time.monotonic()
    assert snapshots.keep_snapshot(run, "stall", lambda: beats.append(time.monotonic())) == ""
    assert time.monotonic() - began < 30 and len(beats) > 5
    assert "it was given up" in run.folder.read("log/runner.log")


def test_a_run_that_is_asked_to_end_waits_for_no_snapshot(run):
    carry("import time\ntime.sleep(60)\n")
    began = time.monotonic()
    assert snapshots.keep_snapshot(run, "stall", lambda: True) == ""
    assert time.monotonic() - began < 15


def test_of_a_rank_the_python_that_began_first_is_noted(run):
    text = (
        "import os, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'])\n"
        "print(child.pid, flush=True)\nchild.wait()\n"
    )
    env = {**os.environ, "RANK": "5", "SLURM_PROCID": "0"}
    with subprocess.Popen(
        [sys.executable, "-c", text], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout
        below = int(child.stdout.readline())
        snapshots.note_ranks(run.folder, [below, child.pid, os.getpid()])
        found = procs.stat(child.pid)
        assert found and run.folder.json(snapshots.ROLL) == {"5": [child.pid, found.start]}
        child.communicate(b"\n")


def test_the_heart_beats_while_a_slow_snapshot_is_taken(box: Box):
    """nvidia-smi hangs, which costs a snapshot eight seconds."""
    box.tool("nvidia-smi", "sleep 60")
    box.make("--hang-at", 12, retries={"stall": 0}, spec={"stall": {"log_minutes": 3 / 60}})
    box.start()
    box.until(lambda: box.events("stall"))
    beats, states = set(), set()
    while not box.events("snapshot"):
        beats.add((box.run_dir / "lock").read_text())
        states.add((box.run_dir / "state.json").stat().st_mtime_ns)
        time.sleep(0.05)
    stall, taken = box.events("stall")[0], box.events("snapshot")[0]
    seconds = taken["t"] - stall["t"]
    assert seconds >= 6 and len(beats) >= seconds / 2 and len(states) >= seconds / 2
    assert box.wait(timeout=90)["phase"] == "failed"
    page = (box.run_dir / taken["folder"] / "page.md").read_text()
    assert "stack by faulthandler" in page and "cards: " in page
