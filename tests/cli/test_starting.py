"""`start`, `stop`, `resume`: one command each from a job to a run that trains, ends and goes on."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from remote_gpu_trainer.cli import starting
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.health import examine
from remote_gpu_trainer.health.reading import Health

from tests.conftest import ROOT
from tests.engines.fake_run import fake_run
from tests.engines.sshd import boxes, sshd  # noqa: F401
from tests.programs import rgt

QUICK = {"heartbeat": 0.3, "tick": 0.1, "deadman": 1, "raise_after": 1}
PROGRAM = """\
import os, signal, sys, time
from pathlib import Path
folder = Path(os.environ["RGT_CHECKPOINT_DIR"])
folder.mkdir(parents=True, exist_ok=True)
begun = max([int(path.stem) for path in folder.glob("*.json")], default=0)
def save(*_):
    (folder / f"{step}.json").write_text("{}")
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
for step in range(begun + 1, 400):
    print("step", step, flush=True)
    time.sleep(0.1)
"""


@pytest.fixture
def job(tmp_path):
    """A job that trains for a while, in a folder without git."""
    (tmp_path / "job").mkdir()
    (tmp_path / "job/train.py").write_text(PROGRAM)
    given = {
        "name": "toy",
        "command": ["python3", "train.py"],
        "gpus": 0,
        "deadline": "1h",
        "checkpoint": {"folder": "out", "pattern": "*.json", "save_seconds": 5},
        "probe": False,
        "timings": QUICK,
    }
    (tmp_path / "job/job.json").write_text(json.dumps(given))
    return tmp_path / "job/job.json"


@pytest.fixture
def here(sshd):
    """The box, whose run is ended after the test."""
    yield sshd
    sshd.kill_everything()


def cards(monkeypatch, verdict, **more):
    """Let the check of the box come to a verdict."""
    found = {} if verdict == "unknown" else {"gpus": H100}
    health = Health(verdict, "gpu", **{**found, **more})
    monkeypatch.setattr(examine, "examine", lambda *_, **__: health)


H100 = [{"gpu": [0], "name": "H100", "memory_mib": 81559}]
NO_CARD = {
    "findings": [
        {
            "gpu": None,
            "level": "unknown",
            "evidence": "no nvidia-smi",
            "threshold": "a GPU",
            "action": "look",
            "entry": "U31",
        }
    ]
}


def test_a_job_starts_trains_stops_and_goes_on_by_one_command_each(here, job):
    done = rgt("start", "gpu", str(job))
    assert done.returncode == 0, done.stderr
    assert "trains   step" in done.stderr and "compared by SHA-256" in done.stderr
    assert "next     rgt stop gpu --run toy" in done.stderr.replace("remote-gpu-trainer", "rgt")
    assert (here.home / "runs/toy/code/train.py").read_text() == PROGRAM
    refused = rgt("start", "gpu", str(job))
    assert refused.returncode == 1
    assert "error: toy is alive on gpu" in refused.stderr
    stopped = rgt("stop", "gpu")
    assert stopped.returncode == 0
    assert stopped.stdout == "toy has stopped; the box stays on, and billed if you rent it\n"
    told = rgt("status", "gpu")
    assert told.returncode == 0 and told.stdout.startswith("stopped: ")
    assert "the box stays on, and billed if you rent it" in told.stdout
    assert "preempted" not in told.stdout and "deadline" not in told.stdout
    again = rgt("resume", here.line, "--run", "toy", "--accept-new-host-key")
    assert again.returncode == 0, again.stderr
    log = (here.home / "runs/toy/log").glob("train.log.*")
    steps = [line for file in sorted(log) for line in file.read_text().splitlines()]
    assert steps.count("step 1") == 1, "it went on from its checkpoint"
    alive = rgt("resume", "gpu")
    assert alive.returncode == 1 and "is alive; rgt status shows it" in alive.stderr
    assert rgt("stop", "gpu", "--run", "toy").returncode == 0
    assert rgt("stop", "gpu").stdout.startswith("toy is not running")


def test_the_providers_line_is_a_box_and_the_box_is_remembered(here, job):
    here.forget_host_key()
    unknown = rgt("start", here.line, str(job))
    assert unknown.returncode == 2 and "--accept-new-host-key" in unknown.stderr
    assert not (here.home / "runs").exists()


def test_a_program_that_fails_at_once_is_told_with_its_class(here, job):
    (job.parent / "train.py").write_text("raise SystemExit(3)\n")
    done = rgt("start", "gpu", str(job))
    assert done.returncode == 1
    assert done.stdout.startswith("failed: ") and "exit 3" in done.stdout


def test_what_the_box_refuses_ends_the_start(here, job):
    done = rgt("start", "gpu", str(job), "--set", "floors.free_gb=100000000")
    assert done.returncode == 1
    assert "the run script on gpu refused with exit 78" in done.stderr
    assert "MB free, expected" in done.stderr


def test_a_dry_run_sends_nothing(here, job):
    done = rgt("start", "gpu", str(job), "--dry-run", "--json")
    assert done.returncode == 0 and "sends: job.json, train.py" in done.stderr
    assert json.loads(done.stdout)["warnings"]
    assert not (here.home / "runs").exists()


def test_an_unfit_box_starts_nothing(here, job, monkeypatch, capsys):
    cards(monkeypatch, "unfit")
    assert main(["start", "gpu", str(job), "--set", "gpus=1", "--yes"]) == 1
    assert "gpu is unfit, so nothing was started; hand it back" in capsys.readouterr().err
    assert not (here.home / "runs").exists()


@pytest.mark.parametrize("verdict", ["fit", "care"])
def test_a_fit_box_and_one_to_take_care_of_begin(here, job, monkeypatch, capsys, verdict):
    cards(monkeypatch, verdict)
    monkeypatch.setattr(starting, "_begin", lambda *_: 0)
    assert main(["start", "gpu", str(job), "--set", "gpus=1"]) == 0
    assert (here.home / "runs/toy/run.sh").exists()


def test_a_box_that_could_not_be_judged_is_asked_about(here, job, monkeypatch, capsys):
    cards(monkeypatch, "unknown", gpus=H100)
    monkeypatch.setattr(starting, "_begin", lambda *_: 0)
    words = ["start", "gpu", str(job), "--set", "gpus=1"]
    assert main(words) == 2
    assert "Nobody is here to ask; --yes begins all the same" in capsys.readouterr().err
    assert not (here.home / "runs").exists()
    monkeypatch.setattr(starting.terminal, "is_terminal", lambda _: True)
    monkeypatch.setattr(starting.click, "confirm", lambda *_, **__: False)
    assert main(words) == 1
    assert not (here.home / "runs").exists()
    assert main([*words, "--yes"]) == 0
    assert (here.home / "runs/toy/run.sh").exists()


def test_leaving_the_question_is_a_no(here, job, monkeypatch, capsys):
    cards(monkeypatch, "unknown", gpus=H100)
    monkeypatch.setattr(starting.terminal, "is_terminal", lambda _: True)

    def leave(*_, **__):
        raise starting.click.Abort

    monkeypatch.setattr(starting.click, "confirm", leave)
    assert main(["start", "gpu", str(job), "--set", "gpus=1"]) == 1
    assert "nothing was sent and nothing started" in capsys.readouterr().err
    assert not (here.home / "runs").exists()


def test_without_a_card_its_cpu_is_offered(here, job, monkeypatch, capsys):
    cards(monkeypatch, "unknown", **NO_CARD)
    monkeypatch.setattr(starting, "_begin", lambda *_: 0)
    words = ["start", "gpu", str(job), "--set", "gpus=1"]
    assert main([*words, "--yes"]) == 2
    assert "it shows no GPU: train on its CPU? Nobody is here to ask; --set gpus=0" in (
        capsys.readouterr().err
    )
    monkeypatch.setattr(starting.terminal, "is_terminal", lambda _: True)
    monkeypatch.setattr(starting.click, "confirm", lambda *_, **__: True)
    assert main(words) == 0
    assert '"gpus": 0' in (here.home / "runs/toy/run.sh").read_text()


def test_much_code_is_asked_about(here, job, monkeypatch, capsys):
    monkeypatch.setattr(starting, "LARGE", 100)
    monkeypatch.setattr(starting, "_begin", lambda *_: 0)
    assert main(["start", "gpu", str(job)]) == 2
    assert "of code? Nobody is here" in capsys.readouterr().err
    assert not (here.home / "runs").exists()
    assert main(["start", "gpu", str(job), "--yes"]) == 0


def test_a_failing_part_stops_the_rest(here, job):
    (here.home / "runs").write_text("a file in the way")
    done = rgt("start", "gpu", str(job))
    assert done.returncode == 2
    assert "sending to ~/runs/toy on gpu failed" in done.stderr and "started" not in done.stderr
    here.stop()
    done = rgt("start", "gpu", str(job))
    assert done.returncode == 2 and "sent" not in done.stderr


def test_a_queue_counts_as_started_once_a_cell_trains(here, job, tmp_path):
    (tmp_path / "cells").write_text("one --lr 1\ntwo --lr 2\n")
    done = rgt("start", "gpu", str(job), "--queue", str(tmp_path / "cells"))
    assert done.returncode == 0, done.stderr + done.stdout
    assert "trains   step" in done.stderr
    assert rgt("stop", "gpu").returncode == 0


def test_a_job_on_standard_input_brings_no_code(here):
    given = {
        "name": "toy",
        "command": ["sleep", "60"],
        "gpus": 0,
        "deadline": "1h",
        "timings": QUICK,
    }
    done = rgt("start", "gpu", "-", "--dry-run", input=json.dumps(given))
    assert done.returncode == 0 and "none: the job names no code folder" in done.stderr


def test_stop_and_resume_without_a_run_say_so(here):
    for verb in ("stop", "resume"):
        done = rgt(verb, "gpu")
        assert done.returncode == 2
        assert "no run under ~/runs on gpu; start one" in done.stderr
    fake_run(here.home, phase="new", alive=False)
    here.stop()
    for verb in ("stop", "resume"):
        done = rgt(verb, "gpu")
        assert done.returncode == 2 and "refused" in done.stderr


def test_a_wait_tells_the_state_at_once_and_each_change(here):
    folder = fake_run(here.home)
    process = subprocess.Popen(
        [shutil.which("rgt") or "rgt", "status", "gpu", "--wait", "--every", "1s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=here.env(),
    )
    assert process.stderr.readline().split(" ", 1)[1] == "alive: step 120\n"
    fake_run(here.home, step=130)
    time.sleep(2.5)
    fake_run(here.home, phase="syncing", step=140)
    assert process.stderr.readline().split(" ", 1)[1] == "alive: syncing, step 140\n"
    fake_run(here.home, phase="done", alive=False, exit=0, step=200, deadline=9e9)
    out, rest = process.communicate(timeout=30)
    assert rest.split(" ", 1)[1] == "finished: step 200\n"
    assert out.startswith(f"finished: {folder}") and "deadline" not in out


def test_the_example_of_readme_runs_as_it_is(tmp_path):
    """From the clone to results, on this machine and its CPU."""
    home = tmp_path / "home"
    home.mkdir()
    env = {**os.environ, "HOME": str(home), "GIT_CONFIG_GLOBAL": str(tmp_path / "none")}
    git = ["-c", "safe.directory=*", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    shutil.copytree(ROOT / "examples/cpu", tmp_path / "clone/examples/cpu")
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *git, *words], cwd=tmp_path / "clone", env=env, check=True)

    def run(*words):
        return rgt(*words, cwd=tmp_path / "clone", env=env)

    began = time.monotonic()
    started = run("start", "local", "examples/cpu/job.yaml")
    assert started.returncode == 0, started.stderr
    assert "warning" not in started.stderr
    waited = run("status", "local", "--wait", "--every", "1s")
    assert waited.returncode == 0 and waited.stdout.startswith("finished: ")
    brought = run("release", "local", "--profile", "local", "--to", "results")
    assert brought.returncode == 0 and brought.stdout.startswith("verified: ")
    final = json.loads((tmp_path / "clone/results/code/out/final.json").read_text())
    assert final["step"] == 60
    assert time.monotonic() - began < 180
    assert Path(home, "runs/try-me").is_dir()
