"""`start`, `stop`, `resume`: one command each from a job to a run that trains, ends and goes on."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from remote_gpu_trainer.cli import start_stop_resume
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.gpu_health import examine
from remote_gpu_trainer.gpu_health.reading import Health
from remote_gpu_trainer.runner import failures, procs
from remote_gpu_trainer.runner.folder import Folder
from remote_gpu_trainer.runs import job_start
from remote_gpu_trainer.runs import status as run_status
from remote_gpu_trainer.runs.calling import Answer
from remote_gpu_trainer.runs.sent_job import job_in
from remote_gpu_trainer.runs.status_reply import Signs, Status
from remote_gpu_trainer.text.spans import shown_moment

from tests.engines.fake_run import fake_run
from tests.engines.sshd import boxes, sshd  # noqa: F401
from tests.programs import rgt
from tests.runner.box import shells

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


def test_a_first_attempt_that_failed_is_told_although_the_next_one_trains(here, job):
    (job.parent / "train.py").write_text(
        "import os, time\n"
        "if os.path.exists('tried'):\n    print('step 1', flush=True)\n    time.sleep(60)\n"
        "open('tried', 'w').close()\nraise ConnectionError('Connection reset by peer')\n"
    )
    done = rgt("start", "gpu", str(job))
    assert done.returncode == 0, done.stderr
    assert "failed   attempt 1: a connection failed\n" in done.stderr
    assert "log: ConnectionError: Connection reset by peer\n" in done.stderr
    assert "attempt 2 follows attempt 1, which failed: see above\n" in done.stderr


def test_after_a_failure_the_log_and_another_start_come_before_the_release(here, job):
    (job.parent / "train.py").write_text("raise SystemExit(3)\n")
    done = rgt("start", "gpu", str(job), "--set", "retries.unknown=0", "--set", "retries.bug=0")
    options = "--set retries.unknown=0 --set retries.bug=0"
    said = done.stderr.replace("remote-gpu-trainer", "rgt")
    assert [line[9:] for line in said.splitlines() if line.startswith("next")] == [
        f"rgt lookup --log gpu:{here.home}/runs/toy/log",
        f"mend it, then: rgt start gpu {job} {options}",
        "rgt release gpu --run toy --profile generic-ssh",
    ]
    read = rgt("lookup", "--log", f"gpu:{here.home}/runs/toy/log")
    assert read.returncode in (0, 1), read.stderr
    again = rgt("resume", "gpu").stderr.replace("remote-gpu-trainer", "rgt")
    assert f"mend it, then: rgt resume gpu --run {here.home}/runs/toy\n" in again


def test_of_a_run_that_failed_twice_alike_one_way_on_is_named_and_that_goes_on(here, job):
    (job.parent / "train.py").write_text("raise SystemExit(3)\n")
    assert rgt("start", "gpu", str(job), "--set", "retries.unknown=0").returncode == 1
    marker = here.home / "runs/toy/.failed"
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "again": failures.TWICE}))
    (job.parent / "train.py").write_text(PROGRAM)
    said = rgt("start", "gpu", str(job)).stderr.replace("remote-gpu-trainer", "rgt")
    assert "toy failed twice at the same step\n" in said and "bash" not in said
    [line] = [line[9:] for line in said.splitlines() if line.startswith("next")]
    assert line == "mend that, then: rgt resume gpu --run toy"
    done = rgt(*line.partition("rgt ")[2].split())
    assert done.returncode == 0 and "trains   step" in done.stderr


def test_a_finished_run_is_run_again_only_when_that_was_meant(here, job):
    (job.parent / "train.py").write_text("print('step 1')\n")
    assert "finished" in rgt("start", "gpu", str(job)).stdout
    done = rgt("resume", "gpu")
    assert done.returncode == 1
    assert (
        "toy has finished, so nothing was started; rgt release brings its results, --yes runs it "
        "again"
    ) in done.stderr
    assert not list((here.home / "runs/toy/log").glob("train.log.0001"))
    assert "finished" in rgt("resume", "gpu", "--yes").stdout
    assert "rgt resume --yes runs it again" in rgt("start", "gpu", str(job)).stderr


def test_the_limits_that_hold_and_those_that_do_not_are_told(here, job):
    words = ["start", "gpu", str(job), "--dry-run"]
    told = rgt(*words).stderr
    assert "limits   stalled after 30 min without a line, a checkpoint or other output\n" in told
    assert "no limit on the time at the same step (stall.step_minutes: 0)\n" in told
    told = rgt(*words, "--set", "stall.log_minutes=0").stderr
    assert "limits   its deadline only\n" in told
    told = rgt(*words, "--set", "stall.step_minutes=5").stderr
    assert (
        "a checkpoint or other output or 5 min at the same step\n" in told
        and "no limit" not in told
    )


@pytest.mark.parametrize(("fields", "says"), [
    (["floors.free_gb=100000000"], "the run folder ~/runs/toy has less room than floors.free_gb: "),
    (["floors.free_inodes=1000000000000"], "has fewer inodes than floors.free_inodes: "),
    (["run_dir=/dev/null/runs"], "the run folder /dev/null/runs is not writable"),
    (["checkpoint.folder=/dev/null/out"], "the checkpoint folder /dev/null/out is not writable"),
])  # fmt: skip
def test_a_dry_run_says_what_the_box_would_refuse(here, job, fields, says):
    options = [word for field in fields for word in ("--set", field)]
    done = rgt("start", "gpu", str(job), "--dry-run", "--json", *options)
    assert done.returncode == 1, done.stderr
    assert f"refused  the {'run' if 'inodes' in says else says.split()[1]} folder" in done.stderr
    assert says in done.stderr and "nothing was sent and nothing started" in done.stderr
    assert any(says in reason for reason in json.loads(done.stdout)["refusals"])
    assert not (here.home / "runs").exists(), "it only looks"


def test_a_dry_run_finds_a_file_in_the_way_and_a_missing_python(boxes, tmp_path, job):
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "sh", "timeout", "cat", "tr", "base64"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    [bare, other] = boxes("bare", path=str(tmp_path / "bin")) + boxes("other")
    done = rgt("start", "bare", str(job), "--dry-run")
    assert done.returncode == 1
    assert "refused  no python3 on bare; install Python 3.8 or newer there\n" in done.stderr
    done = rgt("start", "bare", str(job))
    assert done.returncode == 2 and "error: no python3 on bare; install Python 3.8" in done.stderr
    (tmp_path / "bin/python3").write_text("")  # there, and nobody may run it
    done = rgt("start", "bare", str(job))
    assert done.returncode == 2 and "error: no python3 on bare; install Python 3.8" in done.stderr
    (other.home / "runs").write_text("a file in the way")
    done = rgt("start", "other", str(job), "--dry-run")
    assert done.returncode == 1 and "the run folder ~/runs/toy is not writable" in done.stderr


def test_folders_that_are_nobodys_code_are_named(here, job):
    for name in ("venv", ".cache", "sub/__pycache__"):
        (job.parent / name).mkdir(parents=True)
        (job.parent / name / "x.py").write_text("")
    told = rgt("start", "gpu", str(job), "--dry-run").stderr
    assert "stays here, no code of yours: .cache/, sub/__pycache__/, venv/\n" in told


def test_a_budget_counts_from_a_moment_that_the_user_agreed_to(here, job):
    """The first contact is asked about; what was agreed to holds for a later start."""
    money = ["--set", "budget=40 USD", "--set", "price=2 USD"]
    done = rgt("start", "gpu", str(job), *money)
    assert done.returncode == 2 and not (here.home / "runs").exists()
    assert "count the budget from the first contact with the box, at " in done.stderr
    assert "Nobody is here to ask; --set rented=now counts it from this start" in done.stderr
    spent = [*money, "--set", "rented=2026-01-01T00:00Z"]
    done = rgt("start", "gpu", str(job), *spent)
    assert done.returncode == 2 and "budget: 40 USD was spent at 2026-01-01 20:00" in done.stderr
    short = [*money, "--set", "budget=0.3 USD", "--set", "rented=now"]
    done = rgt("start", "gpu", str(job), *short)
    assert done.returncode == 2 and "budget: 0.3 USD leaves 9.0 min, and a rehears" in done.stderr
    longer = [*money, "--set", "rented=now", "--set", "deadline=3d"]
    assert rgt("start", "gpu", str(job), *longer).returncode == 0
    told = json.loads(rgt("status", "gpu", "--json").stdout)
    assert told["deadline"] - told["first_start"] == pytest.approx(20 * 3600, abs=60)
    cost = told["cost"]
    assert (cost["budget"], cost["currency"], cost["estimated"]) == (40, "USD", True)
    assert 39.9 < cost["left"] <= 40 and 19.9 < cost["hours_left"] <= 20
    assert " h left of the budget (2 an hour, by the job)" in rgt("status", "gpu").stdout
    rgt("stop", "gpu")
    again = rgt("start", "gpu", str(job), *money, "--dry-run", "--set", "deadline=3d")
    assert "count the budget" not in again.stderr, "it was answered at the first start"


def test_a_run_that_the_purse_has_no_money_for_is_refused(here, job):
    assert rgt("purse").returncode == 1
    assert rgt("purse", "set", "10", "USD").returncode == 0
    done = rgt("start", "gpu", str(job))
    assert done.returncode == 2 and "purse: the job names no price in USD" in done.stderr
    money = ["--set", "price=2 USD"]
    done = rgt("start", "gpu", str(job), *money, "--set", "deadline=6h")
    assert done.returncode == 2 and not (here.home / "runs").exists()
    assert "of 10 USD are left, and this run may cost 12.00 until its end at" in done.stderr
    done = rgt("start", "gpu", str(job), *money, "--set", "deadline=4h")
    assert done.returncode == 0 and "purse    10 USD: about 0.0" in done.stderr
    told = json.loads(rgt("purse", "--json").stdout)
    assert told["reserved"] == pytest.approx(8, abs=0.1) and told["left"] < 2.1
    assert told["estimated"] is True and told["uncounted"] == []


def test_the_price_of_a_start_that_was_refused_is_nobodys(here, job):
    assert rgt("purse", "set", "10", "USD").returncode == 0
    for words in (["--dry-run"], []):
        done = rgt("start", "gpu", str(job), "--set", "price=1 EUR", *words)
        assert done.returncode == 2 and "purse: the job names no price in USD" in done.stderr
    assert "EUR" not in rgt("start", "gpu", str(job), "--dry-run").stderr
    assert "EUR" not in rgt("status", "gpu").stdout


def test_a_run_that_goes_on_is_counted_anew(here, job):
    """Its box was forgotten, or the purse is newer."""
    money = ["--set", "price=2 USD", "--set", "deadline=4h"]
    assert rgt("start", "gpu", str(job), *money).returncode == 0
    rgt("stop", "gpu")
    forgotten = rgt("release", "gpu", "--forget")
    assert forgotten.returncode == 0
    assert "a box answers there and may be billed, and nobody watches it now" in forgotten.stdout
    assert rgt("purse", "set", "5", "USD").returncode == 0
    done = rgt("resume", "gpu", "--yes")
    assert done.returncode == 2 and "of 5 USD are left, and this run may cost " in done.stderr
    cost = float(done.stderr.partition("may cost ")[2].partition(" ")[0])
    assert cost == pytest.approx(8, abs=0.1)
    assert rgt("purse", "set", "10", "USD").returncode == 0
    assert rgt("resume", "gpu", "--yes").returncode in (0, 1)
    told = json.loads(rgt("purse", "--json").stdout)
    assert told["reserved"] == pytest.approx(8, abs=0.1)


def test_an_own_machine_is_neither_handed_back_nor_billed(here, job, monkeypatch, capsys):
    back = {**NO_CARD["findings"][0], "level": "fatal", "action": "reboot the box, or hand it back"}
    cards(monkeypatch, "unfit", findings=[back])
    words = [str(job), "--set", "gpus=1", "--set", f"run_dir={here.home}/runs/own"]
    assert main(["start", "local", *words, "--profile", "local", "--dry-run"]) == 1
    said = capsys.readouterr().err
    assert "gpu is unfit, so nothing was started; start elsewhere" not in said
    assert "local is unfit, so nothing was started; start elsewhere\n" in said
    assert "do: reboot the box, or have the machine repaired" in said and "back" not in said
    assert main(["start", "gpu", str(job), "--set", "gpus=1"]) == 1
    assert "or hand it back" in capsys.readouterr().err


def test_a_run_on_an_own_machine_is_stopped_without_a_word_of_rent(here, job):
    started = rgt("start", "gpu", str(job), "--profile", "local")
    assert started.returncode == 0, started.stderr
    assert rgt("stop", "gpu").stdout == "toy has stopped\n"
    told = rgt("status", "gpu").stdout
    assert "stopped as asked: rgt resume goes on from" in told and "rent" not in told


def test_a_yaml_job_may_come_from_standard_input_and_name_its_code(here, job):
    text = "name: toy\ncommand: [python3, train.py]\ngpus: 0\ndeadline: 1h\n"
    done = rgt("start", "gpu", "-", "--dry-run", input=text)
    assert "none: the job names no code folder; --set code=FOLDER sends one" in done.stderr
    code = f"code={job.parent}"
    done = rgt("start", "gpu", "-", "--dry-run", "--set", code, input=text)
    assert done.returncode == 0 and "sends: job.json, train.py" in done.stderr
    for wrong, says in (
        ("{'a': 1", "line 1, column 2: a name in double quotes is missing; write "),
        ("a: [", "line 1, column 5: a bracket isn't closed; write "),
    ):
        done = rgt("start", "gpu", "-", input=wrong)
        assert done.returncode == 2 and f"error: standard input {says}" in done.stderr


def test_each_help_says_which_run_is_meant():
    helps = {name: " ".join(rgt(name, "--help").stdout.split()) for name in ("stop", "resume")}
    assert "(default: the one that is alive, else the newest)" in helps["stop"]
    assert "(default: the newest)" in helps["resume"]


@pytest.mark.parametrize("option", ["--out", "--output", "-o"])
def test_what_other_tools_call_the_place_of_a_script_is_named(job, option):
    done = rgt("render", str(job), option, "run.sh")
    assert done.returncode == 2
    assert done.stderr == f"error: no such option: {option}; did you mean --write-to?\n"
    assert not Path("run.sh").exists()


def test_what_the_box_refuses_ends_the_start(here, job):
    done = rgt("start", "gpu", str(job), "--set", "floors.free_gb=100000000")
    assert done.returncode == 1
    assert "next     mend that, then: " in done.stderr and " start gpu " in done.stderr
    assert "the run script on gpu refused with exit 78" in done.stderr
    assert (
        "left     ~/runs/toy on gpu, with the code that was sent, for the next try; "
        "rm -r ~/runs/toy there removes it" in done.stderr
    )
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
    monkeypatch.setattr(start_stop_resume, "_begin", lambda *_: 0)
    assert main(["start", "gpu", str(job), "--set", "gpus=1"]) == 0
    assert (here.home / "runs/toy/run.sh").exists()


def test_a_box_that_could_not_be_judged_is_asked_about(here, job, monkeypatch, capsys):
    cards(monkeypatch, "unknown", gpus=H100)
    monkeypatch.setattr(start_stop_resume, "_begin", lambda *_: 0)
    words = ["start", "gpu", str(job), "--set", "gpus=1"]
    assert main(words) == 2
    assert "Nobody is here to ask; --yes begins all the same" in capsys.readouterr().err
    assert not (here.home / "runs").exists()
    monkeypatch.setattr(start_stop_resume.terminal, "is_terminal", lambda _: True)
    monkeypatch.setattr(start_stop_resume.click, "confirm", lambda *_, **__: False)
    assert main(words) == 1
    assert not (here.home / "runs").exists()
    assert main([*words, "--yes"]) == 0
    assert (here.home / "runs/toy/run.sh").exists()


def test_leaving_the_question_is_a_no(here, job, monkeypatch, capsys):
    cards(monkeypatch, "unknown", gpus=H100)
    monkeypatch.setattr(start_stop_resume.terminal, "is_terminal", lambda _: True)

    def leave(*_, **__):
        raise start_stop_resume.click.Abort

    monkeypatch.setattr(start_stop_resume.click, "confirm", leave)
    assert main(["start", "gpu", str(job), "--set", "gpus=1"]) == 1
    assert "nothing was sent and nothing started" in capsys.readouterr().err
    assert not (here.home / "runs").exists()


def test_without_a_card_its_cpu_is_offered(here, job, monkeypatch, capsys):
    cards(monkeypatch, "unknown", **NO_CARD)
    monkeypatch.setattr(start_stop_resume, "_begin", lambda *_: 0)
    words = ["start", "gpu", str(job), "--set", "gpus=1"]
    assert main([*words, "--yes"]) == 2
    assert "it shows no GPU: train on its CPU? Nobody is here to ask; --set gpus=0" in (
        capsys.readouterr().err
    )
    monkeypatch.setattr(start_stop_resume.terminal, "is_terminal", lambda _: True)
    monkeypatch.setattr(start_stop_resume.click, "confirm", lambda *_, **__: True)
    assert main(words) == 0
    assert job_in(str(here.home / "runs/toy"))["job"]["gpus"] == 0


def test_much_code_is_asked_about(here, job, monkeypatch, capsys):
    monkeypatch.setattr(start_stop_resume, "LARGE", 100)
    monkeypatch.setattr(start_stop_resume, "_begin", lambda *_: 0)
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
        [sys.executable, "-m", "remote_gpu_trainer", "status", "gpu", "--wait", "--every", "1s"],
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


@pytest.mark.parametrize("after", ["sent ", "started ", "waits "])
def test_a_ctrl_c_says_that_the_run_goes_on_and_so_it_does(here, job, after):
    process = subprocess.Popen(
        [sys.executable, "-m", "remote_gpu_trainer", "start", "gpu", str(job)],
        stderr=subprocess.PIPE,
        text=True,
        env=here.env(),
    )
    for line in process.stderr:
        if line.startswith(after):
            break
    while not (here.home / "runs/toy/own/start.lock").exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    *_, last = process.communicate(timeout=60)[1].splitlines()
    assert process.returncode == 130
    assert last.replace("remote-gpu-trainer", "rgt") == (
        "gpu: the run goes on there; rgt status gpu --run toy shows it, "
        "rgt stop gpu --run toy ends it"
    )
    assert rgt("status", "gpu", "--run", "toy").stdout.startswith("alive: ")


@pytest.mark.parametrize(("part", "came_to"), [
    ("plan", "nothing was sent and nothing started"),
    ("refuse_living", "nothing was sent and nothing started"),
    ("send", "the code may be there in part, and nothing was started"),
    ("known_jobs.remember", "the code is there, and nothing was started"),
])  # fmt: skip
def test_a_ctrl_c_before_the_start_says_that_nothing_was_started(
    here, job, monkeypatch, capsys, part, came_to
):
    where = part if "." in part else f"job_start.{part}"
    monkeypatch.setattr(f"remote_gpu_trainer.runs.{where}", broken_off)
    assert main(["start", "gpu", str(job), "--set", "retries.bug=0"]) == 130
    said = capsys.readouterr().err.replace("remote-gpu-trainer", "rgt").splitlines()[-1]
    assert said == f"gpu: {came_to}; for another try: rgt start gpu {job} --set retries.bug=0"
    assert rgt("status", "gpu", "--run", "toy").stdout.startswith("nothing: ")


def test_a_ctrl_c_of_a_resume_says_that_nothing_was_started(here, monkeypatch, capsys):
    monkeypatch.setattr(run_status, "ask", broken_off)
    assert main(["resume", "gpu", "--run", "toy"]) == 130
    said = capsys.readouterr().err.replace("remote-gpu-trainer", "rgt")
    assert said == "gpu: nothing was started; for another try: rgt resume gpu --run toy\n"


def test_after_a_ctrl_c_what_did_not_begin_and_who_does_not_answer_are_told(
    here, job, monkeypatch, capsys
):
    monkeypatch.setattr(job_start, "begin", broken_off)
    monkeypatch.setattr(job_start, "SETTLING_THERE", 5.0)
    told = "rgt status gpu --run toy tells it, rgt stop gpu --run toy ends it"

    def said() -> str:
        assert main(["start", "gpu", str(job)]) == 130
        return capsys.readouterr().err.replace("remote-gpu-trainer", "rgt").splitlines()[-1]

    assert said() == f"gpu: nothing runs there now; should it begin all the same, {told}"
    unknown = "gpu: whether the run goes on there isn't known"
    with monkeypatch.context() as again:
        again.setattr(job_start, "left_running", broken_off)
        assert said() == f"{unknown}; {told}"

    def begin_without_a_network(*_):
        here.stop()
        raise KeyboardInterrupt

    monkeypatch.setattr(job_start, "begin", begin_without_a_network)
    last = said()
    assert last.startswith(f"{unknown} (") and "refused" in last and last.endswith(f"; {told}")


def test_a_program_that_outlived_its_runner_goes_on_by_the_command_that_is_named(here, job):
    assert rgt("start", "gpu", str(job)).returncode == 0
    folder = here.home / "runs/toy"
    noted = [procs.noted(Folder(str(folder)), name)[0] for name in ("supervisor", "runner")]
    for pid in (*noted, *shells(folder)):  # a parent starts its child again at once
        os.kill(pid, signal.SIGKILL)
    assert "rgt resume goes on with the program" in rgt("status", "gpu").stdout
    refused = rgt("start", "gpu", str(job))
    assert refused.returncode == 1
    assert "toy trains on gpu at step" in refused.stderr
    told = " without its runner, so that nothing is copied; rgt resume goes on with it, rgt stop"
    assert told in refused.stderr
    again = rgt("resume", "gpu")
    assert again.returncode == 0, again.stderr
    assert rgt("status", "gpu").stdout.startswith("alive: ")
    logs = [file.read_text().splitlines() for file in (folder / "log").glob("train.log.*")]
    assert [line for lines in logs for line in lines].count("step 1") == 1


def test_while_the_probe_looks_its_verdict_is_what_is_waited_for(here, job, monkeypatch, capsys):
    looking = "looking at the first steps"
    trains = {"phase": "running", "signs": Signs(step=3)}
    states = iter([
        Status("nothing", "gpu"),
        Status("alive", "gpu", phase="running", probe=looking),
        *[Status("alive", "gpu", probe=looking, **trains)] * 2,
        Status("alive", "gpu", probe="sound", **trains),
    ])  # fmt: skip
    monkeypatch.setattr(run_status, "ask", lambda *_, **__: next(states))
    monkeypatch.setattr(job_start, "begin", lambda *_: Answer(["started"], 0, "~/runs/toy"))
    monkeypatch.setattr(job_start, "POLL", 0.01)
    assert main(["start", "gpu", str(job)]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if ":" not in line[:6]]
    assert said[said.index("started") + 1 :][:4] == [
        "waits    for a step or a new checkpoint; Ctrl-C leaves the run going",
        "trains   step 3",
        "waits    for the probe's verdict on the first 30 optimizer steps, 2 min at most; "
        "Ctrl-C leaves the run going",
        "probe    sound",
    ]


def broken_off(*_, **__):
    raise KeyboardInterrupt


def test_a_resume_takes_a_later_deadline_and_the_code_of_today(here, job):
    assert rgt("start", "gpu", str(job)).returncode == 0
    assert rgt("stop", "gpu").returncode == 0
    with (job.parent / "train.py").open("a") as file:
        file.write("# mended\n")
    there = here.home / "runs/toy/code/train.py"
    told = rgt("status", "gpu").stdout
    assert "code here differs in 1 file from what runs there (train.py); rgt resume" in told
    later = rgt("resume", "gpu", "--set", "deadline=3h")
    assert later.returncode == 0, later.stderr
    assert "code here differs in 1 file" in later.stderr and there.read_text() == PROGRAM
    assert job_in(str(here.home / "runs/toy"))["job"]["deadline"] == "hours:3"
    assert rgt("stop", "gpu").returncode == 0
    sent = rgt("resume", "gpu", "--code")
    assert sent.returncode == 0, sent.stderr
    assert "differs" not in sent.stderr and there.read_text().endswith("# mended\n")
    assert job_in(str(here.home / "runs/toy"))["job"]["deadline"] == "hours:3", "it stays"
    first = float((here.home / "runs/toy/deadline").read_text().split()[1])
    again = rgt("start", "gpu", str(job), "--set", "deadline=2h", "--dry-run")
    assert again.returncode == 1 and "is alive" in again.stderr
    rgt("stop", "gpu")
    again = rgt("start", "gpu", str(job), "--set", "deadline=2h", "--dry-run")
    counted = shown_moment(first + 2 * 3600)
    assert f"until    {counted} at the latest, counted from its first start at " in again.stderr


def test_a_passed_deadline_names_the_command_that_goes_on(here, job):
    assert rgt("start", "gpu", str(job)).returncode == 0
    rgt("stop", "gpu")
    folder = here.home / "runs/toy"
    now = int(time.time())
    (folder / "deadline").write_text(f"{now - 3600} {now - 7200}\thours:1\n")
    done = rgt("resume", "gpu", "--run", "toy")
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1].replace("remote-gpu-trainer", "rgt")
    assert re.match(r"next +rgt resume gpu --run toy --set deadline=18[01]m$", line)
    short = rgt("resume", "gpu", "--run", "toy", "--set", "deadline=30m")
    assert short.returncode != 0 and "such as --set deadline=18" in short.stderr
    assert rgt(*line.split()[2:]).returncode == 0


def test_a_run_goes_on_on_another_box_once_the_old_one_does_not_train(boxes, tmp_path, job):
    old, new = boxes("old", "new")
    keep = f"durable={{to: {tmp_path}/keep, what: [out], every_minutes: 0.1, on_this_box: true}}"
    try:
        assert rgt("start", "old", str(job), "--set", keep).returncode == 0
        given = ["resume", "new", "--from", "old", "--run", "toy"]
        on_box = rgt(*given)
        assert on_box.returncode == 1 and "lie on old itself" in on_box.stderr
        # A mounted volume: the same place, which outlives the box.
        given += ["--set", "durable.on_this_box=false"]
        alive = rgt(*given)
        assert alive.returncode == 1
        assert "toy is alive on old" in alive.stderr and "rgt stop old --run toy" in alive.stderr
        assert rgt("stop", "old").returncode == 0
        old.stop()
        away = rgt(*given)
        assert away.returncode == 1 and "add --old-is-gone" in away.stderr
        assert not (new.home / "runs").exists()
    finally:
        old.kill_everything()
        new.kill_everything()
    assert rgt("resume", "new", "--from", "new").stderr.startswith("error: no run was started on")


def test_a_moved_run_keeps_its_deadline_and_says_from_which_step_it_went_on(
    boxes, tmp_path, job, monkeypatch, capsys
):
    old, new = boxes("old", "new")
    keep = f"durable={{to: {tmp_path}/keep, what: [out], every_minutes: 0.1, on_this_box: true}}"
    for file in (job, job.parent / "train.py"):  # json beside weights is no checkpoint of its own
        file.write_text(file.read_text().replace("*.json", "*.bin").replace("}.json", "}.bin"))
    try:
        assert rgt("start", "old", str(job), "--set", keep).returncode == 0
        assert rgt("stop", "old").returncode == 0
        first = float((old.home / "runs/toy/deadline").read_text().split()[1])
        # Both boxes are on this machine, so the place that lies on the old one is the new one's.
        monkeypatch.setattr(job_start, "why_not_elsewhere", lambda *_: "")
        old.stop()
        assert main(["resume", "new", "--from", "old", "--run", "toy"]) == 0
        said = capsys.readouterr().err
        assert "deadline still counts from the first start, at 2" in said
        assert re.search(r"from +went on from (step )?[0-9]+([.]bin)? of old\n", said), said
        assert "cost     counts from here on for the new box; that of old isn't in it" in said
        at = int(job_in(str(new.home / "runs/toy"))["job"]["deadline"].partition("at:")[2])
        assert abs(at - (first + 3600)) < 60
        # A later span counts from there as well.
        assert rgt("stop", "new").returncode == 0
        assert rgt("resume", "new", "--set", "deadline=3h").returncode == 0
        at = int(job_in(str(new.home / "runs/toy"))["job"]["deadline"].partition("at:")[2])
        assert abs(at - (first + 3 * 3600)) < 60
    finally:
        old.kill_everything()
        new.kill_everything()


def test_nothing_begins_anew_where_a_durable_checkpoint_was_to_come(here, job, tmp_path):
    given = json.loads(job.read_text())
    given["durable"] = {"to": str(tmp_path / "keep"), "what": ["out"], "on_this_box": True}
    given["code"] = str(job.parent)
    place = job_start.Box("gpu", "gpu")
    plan = job_start.plan(given, "", place, time.time(), must_restore=True)
    job_start.send(place, plan)
    job_start.begin(place, "~/runs/toy")
    found = run_status.wait(lambda: run_status.ask(place), most=30, interval=0.5)
    assert found.state == "failed" and "no checkpoint came from" in found.reason
    assert not list((here.home / "runs/toy/log").glob("train.log.*"))


def test_the_loser_of_two_starts_is_not_told_to_remove_the_other_ones_folder(here, job):
    words = [sys.executable, "-m", "remote_gpu_trainer", "start", "gpu", str(job)]
    both = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate(timeout=120)[1] for process in both]
    assert 0 in [process.returncode for process in both]
    assert not any("removes it" in text for text in told), told
