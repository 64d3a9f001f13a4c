"""`rgt runs compare` as a user types it: two runs on this machine, then a queue that has ended."""

import json
import os

import pytest

from tests.programs import rgt

PROGRAM = """\
import random, sys, time
rate, seed = float(sys.argv[2]), int(sys.argv[4])
random.seed(seed)
for step in range(1, 6):
    print(f"step {step}/5 loss {1 / step:.3f} val_acc {rate * step + seed:.3f}", flush=True)
    time.sleep(0.05)
"""
JOB = {
    "command": ["python3", "train.py"],
    "gpus": 0,
    "deadline": "1h",
    "probe": False,
    "price": 3.6,
    "metric": "val_acc",
    "timings": {"heartbeat": 0.3, "tick": 0.1, "deadman": 1, "raise_after": 1},
}

pytestmark = pytest.mark.box


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start a job on this machine, whose home is a new one."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    (tmp_path / "job").mkdir()
    (tmp_path / "job/train.py").write_text(PROGRAM)

    def begin(name, words, *options):
        job = {**JOB, "name": name, "command": [*JOB["command"], *words]}
        (tmp_path / "job/job.json").write_text(json.dumps(job))
        done = rgt("start", "local", tmp_path / "job/job.json", *options)
        assert done.returncode == 0, done.stderr
        ended = rgt("status", "local", "--run", name, "--wait", "--every", "1s", timeout=200)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    return begin


def test_two_runs_of_this_machine_are_compared(start, tmp_path):
    start("one", ["--lr", "0.1", "--seed", "1"])
    start("two", ["--lr", "0.2", "--seed", "1"])
    done = rgt("runs", "compare", "one", "local:two")
    assert done.returncode == 0, done.stderr
    lines = {line.split("  ")[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert lines["--lr"] == ["0.1", "0.2"] and lines["val_acc"] == ["1.5", "2"]
    assert lines["STATE"] == ["finished", "finished"] and "--seed" not in lines
    assert "the spread between seeds isn't known" in done.stdout
    assert "not recorded of each run: commit" in done.stdout
    told = json.loads(rgt("runs", "compare", "one", "two", "--json").stdout)
    assert told["billed"] == []
    assert told["differing"] == ["--lr"] and [run["metric"] for run in told["runs"]] == [1.5, 2.0]
    assert all(run["money"] == pytest.approx(3.6 * run["hours"]) for run in told["runs"])
    alone = rgt("runs", "compare", "one")
    assert alone.returncode == 2 and "name two or more" in alone.stderr
    assert rgt("runs", "compare", "one", "none").returncode == 2


def test_a_sweep_ends_with_its_table(start, tmp_path):
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text("grid: {--lr: [0.1, 0.2], --seed: [1, 2]}\n")
    told = start("many", [], "--sweep", str(sweep))
    rows = [line.split() for line in told.splitlines()]
    assert ["--lr", "0.1", "2", "2", "0.7071", "compared", "with"] in rows
    assert ["--lr", "0.2", "2", "2.5", "0.7071", "2", "+0.5", "0"] in rows
    assert rgt("runs", "compare", os.path.expanduser("~/runs/many")).returncode == 0
    released = rgt("release", "local", "--run", "many", "--to", tmp_path / "home")
    assert rows[-4:] == [line.split() for line in released.stdout.splitlines()][-4:], (
        released.stderr
    )
    page = tmp_path / "many.html"
    shown = rgt("status", "local", "--run", "many", "--page", page)
    assert shown.returncode == 0, shown.stderr
    text = page.read_text()
    assert "<svg" in text
    for cell in ("lr=0.1_seed=1", "lr=0.1_seed=2", "lr=0.2_seed=1", "lr=0.2_seed=2"):
        assert cell in text and (tmp_path / "home/runs/many/cells" / cell).is_dir()
