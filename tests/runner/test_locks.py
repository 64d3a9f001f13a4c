"""One runner a run folder, one trainer a checkpoint folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import locks, procs
from remote_gpu_trainer.runner.context import Run

from tests.runner.clocks import Clock
from tests.runner.jobs import job_of


def make(tmp_path, name: str = "run", rank: int = 0, **timings) -> Run:
    fields = {
        "name": "toy",
        "rendered": {"run_dir": str(tmp_path / name)},
        "checkpoint": {"folder": str(tmp_path / "ckpt")},
    }
    run = Run(job_of(fields, {"timings": {"tick": 0.01, **timings}}), rank=rank, clock=Clock())
    run.folder.make()
    return run


@pytest.fixture
def run(tmp_path, monkeypatch) -> Run:
    for name in ("SLURM_JOB_ID", "SLURM_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    return make(tmp_path)


@pytest.fixture
def other():
    """A process that stands for another runner."""
    child = subprocess.Popen(["sleep", "100"])
    yield child
    child.kill()
    child.wait()


def held_by(run: Run, other: subprocess.Popen, **changes) -> Path:
    """Leave the lease of another process; return its path."""
    lease = locks.Lease(run)
    start = procs.stat(other.pid)
    told = json.loads(lease._text("theirs").partition("\n")[0])
    told |= {
        "runner": [other.pid, start.start if start else 0],
        "folder": "/other/run",
        **changes,
    }
    os.makedirs(os.path.dirname(lease.path), exist_ok=True)
    Path(lease.path).write_text(json.dumps(told) + "\n")
    return Path(lease.path)


def token(path: Path) -> str:
    return json.loads(path.read_text().partition("\n")[0])["token"]


def test_a_run_folder_has_one_runner(run):
    first, second = locks.RunLock(run), locks.RunLock(run)
    assert first.take() == ""
    assert second.take(wait=5) == f"toy: a run holds {run.folder.path}/lock"
    first.release()
    assert second.take() == ""


def test_a_lock_whose_file_was_removed_is_no_lock(run):
    first, second, third = locks.RunLock(run), locks.RunLock(run), locks.RunLock(run)
    first.take()
    os.unlink(run.folder.at("lock"))
    assert second.take() == "" and third.take() != ""


def test_a_folder_without_locks_is_told(run):
    os.mkdir(run.folder.at("lock"))
    lock = locks.RunLock(run)
    assert "put the run folder on a local disk" in lock.take()


def test_a_lease_is_taken_beaten_and_freed(run, tmp_path):
    lease = locks.Lease(run)
    assert lease.take() == "" and not lease.lost()
    path = tmp_path / ".ckpt.rgt-lease"
    before = path.read_text()
    lease.beat()
    assert path.read_text() == before, "not yet"
    run.clock.nap(30)
    lease.beat()
    assert path.read_text() != before and token(path) == json.loads(before)["token"]
    assert os.listdir(tmp_path).count(".ckpt.rgt-lease") == 1
    lease.free()
    assert not path.exists()


def test_without_checkpoints_there_is_nothing_to_hold(tmp_path):
    run = Run(job_of({"rendered": {"run_dir": str(tmp_path)}}))
    lease = locks.Lease(run)
    assert lease.take() == lease.respect() == ""
    lease.beat()
    lease.free()


def test_a_living_run_of_this_machine_is_refused_under_any_name_of_the_folder(tmp_path, run, other):
    path = held_by(run, other)
    (tmp_path / "alias").symlink_to(tmp_path / "ckpt")
    run.spec.checkpoint.folder = str(tmp_path / "alias")
    again = Run(run.spec, clock=Clock())
    for lease in (locks.Lease(run), locks.Lease(again)):
        said = lease.take()
        assert said.startswith(
            f"toy: the run in /other/run (pid {other.pid}) trains into {lease.run.checkpoints}"
        )
        assert "bash /other/run/run.sh stop" in said
        assert lease.respect() == said
    assert token(path) == "theirs" and run.clock.time == 1_800_000_000


def test_a_dead_run_of_this_machine_is_replaced_at_once(run, other):
    path = held_by(run, other)
    other.kill()
    other.wait()
    lease = locks.Lease(run)
    assert lease.respect() == "" and token(path) == "theirs"
    assert lease.take() == "" and token(path) != "theirs"
    assert run.clock.time == 1_800_000_000
    assert '"lease-taken-over"' in run.folder.read("events.jsonl")


def test_a_pid_that_another_process_has_by_now_is_dead(run, other):
    held_by(run, other, runner=[other.pid, 1])
    assert locks.Lease(run).take() == ""


def test_a_supervisor_that_will_raise_its_runner_counts_but_not_one_s_own(run, other):
    start = procs.stat(other.pid)
    supervisor = {"runner": [1, 1], "supervisor": [other.pid, start.start if start else 0]}
    held_by(run, other, **supervisor)
    assert f"pid {other.pid}" in locks.Lease(run).take()
    held_by(run, other, **supervisor, folder=run.folder.path)
    assert locks.Lease(run).take() == ""


@pytest.fixture
def orphan(run):
    """A program whose runner is gone."""
    child = subprocess.Popen(["sleep", "100"], env={"RGT_RUN_DIR": run.folder.path})
    yield child
    child.kill()
    child.wait()


def test_a_program_that_outlived_its_run_folder_is_refused(run, orphan):
    held_by(run, orphan, runner=[1, 1], folder=run.folder.path)
    said = locks.Lease(run).take()
    assert f"end it (kill {orphan.pid})" in said
    # With its folder still there, a new runner adopts it.
    run.folder.write("attempt.json", '{"attempt": 1}')
    assert locks.Lease(run).take() == ""


ELSEWHERE = {"host": "another", "boot": "x"}


def test_another_machine_that_beats_is_refused_soon(run, other, tmp_path):
    path = held_by(run, other, **ELSEWHERE)
    begin = run.clock.time
    beats = []

    def nap():
        beats.append(1)
        if len(beats) == 15:
            told = json.loads(path.read_text())
            path.write_text(json.dumps({**told, "beat": 99}) + "\n")

    run.clock.on_nap = nap
    assert locks.Lease(run).take() == (
        f"toy: a run on another trains into {tmp_path}/ckpt; stop it there,"
        " or give this one another checkpoint folder"
    )
    assert run.clock.time - begin < 20 and token(path) == "theirs"
    run.clock.on_nap = lambda: os.utime(path, ns=(1, len(beats) + 7))
    assert locks.Lease(run).respect() != "", "a full disk leaves its times alone to be changed"


def test_a_silent_machine_is_dead_after_a_while_whatever_dates_say(run, other):
    path = held_by(run, other, **ELSEWHERE)
    os.utime(path, (4e9, 4e9))
    begin = run.clock.time
    assert locks.Lease(run).take() == "" and token(path) != "theirs"
    assert 180 <= run.clock.time - begin < 185
    assert "waiting 180 s for a sign of life" in run.folder.read("log/runner.log")


def test_an_unreadable_lease_is_waited_for_too(run, tmp_path):
    (tmp_path / ".ckpt.rgt-lease").write_text("")
    assert locks.Lease(run).take() == "" and run.clock.time >= 1_800_000_180


def test_the_wait_ends_when_the_run_is_asked(run, other):
    held_by(run, other, **ELSEWHERE)
    run.clock.on_nap = lambda: setattr(run, "asked", "stop")
    assert locks.Lease(run).take(lambda: bool(run.asked)) == "toy: stop"


@pytest.mark.parametrize(
    ("job", "restart", "waits"), [("7", "2", 0), ("7", "1", 180), ("8", "5", 180)]
)
def test_a_requeued_job_of_slurm_takes_over_at_once(run, other, monkeypatch, job, restart, waits):
    held_by(run, other, **ELSEWHERE, job="7", restart=1)
    monkeypatch.setenv("SLURM_JOB_ID", job)
    monkeypatch.setenv("SLURM_RESTART_COUNT", restart)
    begin = run.clock.time
    assert locks.Lease(run).take() == "" and waits <= run.clock.time - begin < waits + 5


def test_a_holder_that_wakes_to_another_s_lease_has_lost(run, other):
    lease = locks.Lease(run)
    lease.take()
    path = held_by(run, other)
    run.clock.nap(30)
    lease.beat()
    assert lease.lost() and token(path) == "theirs"
    lease.free()
    assert path.exists()


def test_an_emptied_folder_gets_the_lease_again(run, tmp_path):
    lease = locks.Lease(run)
    lease.take()
    (tmp_path / ".ckpt.rgt-lease").unlink()
    run.clock.nap(30)
    lease.beat()
    assert (tmp_path / ".ckpt.rgt-lease").exists() and not lease.lost()


def test_a_lease_renewed_in_the_last_moment_is_put_back(run, other):
    path = held_by(run, other)
    before = path.read_text()
    with pytest.raises(FileNotFoundError):
        locks._remove(str(path) + "-1", before)
    locks._remove(str(path), "what was judged")
    assert path.read_text() == before and path.exists()
    locks._remove(str(path), before)
    assert not path.exists()


def test_nodes_of_a_run_hold_a_lease_each(tmp_path, run):
    first, second = locks.Lease(run), locks.Lease(make(tmp_path, "run", rank=1))
    assert first.take() == second.take() == ""
    assert {".ckpt.rgt-lease", ".ckpt.rgt-lease-1"} <= set(os.listdir(tmp_path))


def test_of_many_that_take_over_at_once_one_wins(tmp_path, run, other):
    held_by(run, other, **ELSEWHERE)
    code = (
        "import sys; sys.path[:0] = ['server', '.']\n"
        "from pathlib import Path\n"
        "from tests.runner.test_locks import make; from remote_gpu_trainer.runner import locks\n"
        "from remote_gpu_trainer.runner.clock import Clock\n"
        f"run = make(Path({str(tmp_path)!r}), sys.argv[1], lease_dead=0.5, lease_beat=0.1)\n"
        "run.clock = Clock(); lease = locks.Lease(run); said = lease.take()\n"
        "print('won' if not said else 'refused', flush=True); sys.stdin.read()\n"
        "lease.beat(); print('lost' if lease.lost() else 'kept')\n"
    )
    root = Path(__file__).parents[2]
    children = [
        subprocess.Popen([sys.executable, "-c", code, f"run{n}"], cwd=root, text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for n in range(4)
    ]  # fmt: skip
    first = []
    for child in children:
        assert child.stdout
        while (line := child.stdout.readline().strip()) not in ("won", "refused"):
            assert child.poll() is None
        first.append(line)
    last = [child.communicate("", timeout=30)[0].split()[-1] for child in children]
    winners = [n for n in range(4) if first[n] == "won" and last[n] == "kept"]
    assert len(winners) == 1, (first, last)


def test_the_file_system_of_a_path_is_known():
    assert locks.file_system("/proc/self") == "proc"
    assert locks.file_system("/sys/no/such") == "sysfs"


def test_a_lock_is_lost_with_its_folder_whatever_lies_under_the_name_now(run, tmp_path):
    lock = locks.RunLock(run)
    assert not lock.is_held() and lock.take() == "" and lock.is_held()
    os.rename(run.folder.path, tmp_path / "away")
    assert not lock.is_held()
    make(tmp_path).folder.touch("lock")
    assert not lock.is_held(), "that one is another start's"
