"""Scripts whole, for every target and launcher; the same bytes each time; what bash sees of them, and what the runner reads."""

import io
import json
import os
import re
import subprocess
import sys
import tarfile
from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.runner import spec
from remote_gpu_trainer.runs import rendered as in_script
from remote_gpu_trainer.runs import run_script
from remote_gpu_trainer.runs.job import Job
from remote_gpu_trainer.runs.job_errors import JobError
from remote_gpu_trainer.runs.job_reading import from_object
from remote_gpu_trainer.runs.launch_risks import warnings
from remote_gpu_trainer.runs.render import OURS, TARGETS, render, usual_target
from remote_gpu_trainer.runs.rendered import Unfit, self_stop
from remote_gpu_trainer.runs.rendering import rendered

from tests.conftest import engine, read_yaml
from tests.runner.jobs import unpacked

DAY = date(2026, 11, 20)
PLATFORMS = {
    "ssh": "vastai",
    "slurm": "slurm",
    "kubernetes": "kubernetes",
    "skypilot": "aws",
    "local": "local",
}
LAUNCHERS = {
    "none": {"command": "python train.py --lr 1e-4 | tee out.txt", "gpus": 1},
    "torchrun": {
        "command": ["train.py", "--lr", "1e-4"],
        "launcher": "torchrun",
        "gpus": 4,
        "nodes": 2,
        "rendezvous": "node0:29400",
    },
    "accelerate": {"command": ["train.py", "it's"], "launcher": "accelerate", "gpus": 2},
    "deepspeed": {"command": ["train.py"], "launcher": "deepspeed", "gpus": 8},
    "queue": {
        "command": ["python", "train.py"],
        "gpus": 2,
        "queue": {
            "slots": 2,
            "cells": [
                {"name": "a", "arguments": ["--lr", "1e-4"]},
                {"name": "b", "arguments": ["--note", "it's $HOME"]},
            ],
        },
    },
}
FULL = {
    "name": "sft", "deadline": "20h", "variables": {"OMP_NUM_THREADS": "8"}, "secrets": {"WANDB_API_KEY": {"variable": "WANDB_API_KEY"}},
    "checkpoint": {"folder": "out/ckpt", "pattern": "step_*.pt", "every_minutes": 20, "save_seconds": 40}, "resume": {"flag": "--resume"},
    "durable": {"to": "rclone:keep:runs/sft", "what": ["out"]}, "results": ["out/final.pt"], "notify": ["curl", "-d", "@-", "https://example.org/alarm"],
    "kubernetes": {"image": "pytorch/pytorch:2.9.0", "claim": "work"}, "skypilot": {"accelerator": "H100", "spot": True}, "slurm": {"partition": "gpu", "most_hours": 8},
}  # fmt: skip
PLAIN = {"name": "sft", "command": ["true"], "deadline": "1h"}


def job(**fields) -> Job:
    return from_object({**FULL, "command": ["python", "train.py"], **fields})


def made(target: str, **fields):
    return render(job(**fields), profile.get(PLATFORMS[target]), target, DAY)


def script_of(target: str, text: str) -> str:
    """The run.sh in what an engine takes."""
    if target == "kubernetes":
        return read_yaml(text)[0]["data"]["run.sh"]
    if target == "skypilot":
        run = read_yaml(text)[0]["run"]
        return run[
            run.index("#!/usr/bin/env bash\n") : run.index(run_script.END) + len(run_script.END)
        ]
    return text


def job_in(script: str) -> dict:
    """The fields that the runner in a run.sh reads."""
    parts = unpacked(script)
    return json.loads(next(text for name, text in parts.items() if name.endswith("/job.json")))


def without_script(text: str) -> str:
    """The text with two lines in place of what follows the comments of a run.sh."""
    text = re.sub(
        r"(?ms)^( *)RGT_NAME=.*?# run\.d/end\n",
        "\\1<<< the runner >>>\n",
        text,
    )
    return re.sub(r"\bRGT_[0-9A-F]{16}\b", "RGT_DELIMITER", text)  # made from the script


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("target", TARGETS)
def test_every_target_and_launcher_gives_its_golden_file(target, launcher, golden):
    try:
        given = made(target, **LAUNCHERS[launcher])
    except Unfit as refused:
        golden(f"{target}-{launcher}.txt", f"refused: {refused}\n")
        return
    text = without_script(given.script)
    assert "<<< the runner >>>" in text
    around = {key: value for key, value in given.as_dict().items() if key != "script"}
    golden(
        f"{target}-{launcher}.txt",
        text + "\n===\n" + json.dumps(around, indent=1, ensure_ascii=False) + "\n",
    )


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("target", TARGETS)
def test_every_target_and_launcher_gives_a_whole_script(target, launcher):
    try:
        here = made(target, **LAUNCHERS[launcher])
    except Unfit:
        return
    script = script_of(target, here.script)
    assert script.startswith("#!/usr/bin/env bash\n") and script.endswith(run_script.END)
    assert spec.of(**job_in(script)).name == "sft"
    done = subprocess.run(
        ["bash", "-n"],
        input=script,
        text=True,
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_where_whole_nodes_come_with_their_gpus_no_line_asks_for_them():
    asked = made("slurm", gpus=8, slurm={"exclusive": True}).script
    script = made("slurm", gpus=8, slurm={"exclusive": True, "gres": False}).script
    assert "\n#SBATCH --gres=gpu:8\n" in asked
    assert "#SBATCH --gres" not in script and "\n#SBATCH --exclusive\n" in script
    assert job_in(script)["job"]["gpus"] == 8
    with pytest.raises(JobError, match="^slurm.gpu_type: stands in the --gres line"):
        made("slurm", gpus=8, slurm={"gpu_type": "h100", "gres": False})


def test_slurm_reads_its_lines_before_the_first_that_is_no_comment():
    lines = made("slurm").script.split("\n")
    end = next(n for n, line in enumerate(lines) if line and not line.startswith("#"))
    assert sum(line.startswith("#SBATCH ") for line in lines[:end]) > 8
    assert not [line for line in lines[end:] if line.startswith("#SBATCH ")]


def test_the_verb_help_of_a_whole_script_names_the_verbs(tmp_path):
    (tmp_path / "run.sh").write_text(made("local", python=sys.executable).script)
    done = subprocess.run(
        ["bash", "run.sh", "--help"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "stop           save now, then end" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["run.sh"]


def test_python_3_8_runs_a_whole_script(tmp_path):
    python = engine("python3.8", "pyenv install 3.8", "/root/.pyenv/versions/3.8.18/bin")
    (tmp_path / "run.sh").write_text(made("local", python=python).script)
    done = subprocess.run(
        ["bash", "run.sh", "--help"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_shell_of_a_script_is_clean(tmp_path):
    engine("shellcheck", "apt install shellcheck")
    (tmp_path / "run.sh").write_text(unpacked(made("slurm").script)["run.sh"] + "\n")
    done = subprocess.run(
        ["shellcheck", "-S", "warning", "-e", "SC2088", "run.sh"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


CELLS = {"cells": [{"name": name} for name in "abc"]}


def test_one_command_starts_all_boxes_of_a_queue():
    given = made("skypilot", queue={**CELLS, "boxes": 3}, skypilot={"accelerator": "H100"})
    launch = (
        "sky jobs launch -n sft-$n --yes --detach-run --env RGT_PART=$n/3 --secret WANDB_API_KEY"
    )
    assert given.start == f"for n in $(seq 1 3); do\n{launch} sft.sky.yaml\ndone" == given.resume
    assert given.stop == "for n in $(seq 1 3); do\nsky jobs cancel --yes -n sft-$n\ndone"
    assert given.watch == "sky jobs queue"


@pytest.mark.parametrize("target", ["ssh", "local", "slurm"])
def test_boxes_are_refused_where_a_target_has_one(target):
    with pytest.raises(Unfit, match=rf"^queue.boxes: target {target} shares no cells .*; leave"):
        made(target, queue={**CELLS, "boxes": 2})


def test_more_boxes_than_cells_are_refused():
    with pytest.raises(JobError, match="more boxes than cells"):
        job(queue={**CELLS, "boxes": 4})


@pytest.mark.parametrize("engine", ["docker", "apptainer"])
def test_a_container_reaches_the_runner_as_the_job_says(engine):
    given = {"engine": engine, "image": "a/b:1", "mounts": ["/x:/y:ro"], "options": ["--z=1"]}
    assert job_in(made("local", container=given).script)["job"]["container"] == given


@pytest.mark.parametrize(
    ("target", "fields", "told"),
    [
        ("kubernetes", {"engine": "docker"}, "container: a pod is one already"),
        ("ssh", {"engine": "pyxis"}, "container.engine: pyxis is a part of Slurm"),
    ],
)
def test_a_container_that_a_target_has_not_is_refused(target, fields, told):
    with pytest.raises(Unfit, match=told):
        made(target, container={"image": "a", **fields})
    with pytest.raises(Unfit, match="checkpoint.folder: no engine binds"):
        made("local", container={"engine": "docker", "image": "a"}, checkpoint={"folder": "a,b"})


@pytest.mark.parametrize(
    "fields",
    [
        {"image": "-x"},
        {"image": "a b"},
        {"mounts": ["x:/y"]},
        {"mounts": ["/x:y"]},
        {"mounts": ["/x,/y"]},
        {"options": ["x"]},
        {"options": ["--detach"]},
        {"options": ["--v", "--name=x"]},
    ],
)
def test_a_container_that_would_hide_its_program_is_refused(fields):
    with pytest.raises(JobError, match=r"^container"):
        job(container={"engine": "docker", "image": "a", **fields})


def test_an_environment_is_not_installed_into_a_container():
    with pytest.raises(JobError, match="environment: what is installed into a container is lost"):
        job(container={"engine": "docker", "image": "a"}, environment="requirements.txt")


@pytest.mark.parametrize("target", TARGETS)
def test_rendering_again_gives_the_same_bytes(target):
    one, two = (made(target).script for _ in range(2))
    assert one == two and one.startswith((f"#!/usr/bin/env bash\n{OURS}", f"{OURS}.\n---\n"))


def test_another_job_has_another_fingerprint():
    shas = {
        job_in(made("local", **more).script)["rendered"]["job_sha"]
        for more in ({}, {"deadline": "21h"})
    }
    assert len(shas) == 2


HOSTILE = st.one_of(
    st.sampled_from(["'", '"', "$(touch pwned)", "`touch pwned`", "a\nb", "; touch pwned", "*", "-rf", "--", "\\", "!!", "$HOME", "${x}", "%s", "\x1b[31m", "\t", "#x", "~", "é中\U0001f600", "'\"'$(x)", "\r\n", "EOF", "", " "]),
    st.text(max_size=60),
)  # fmt: skip
FIELDS = {
    "command": st.lists(HOSTILE, min_size=1, max_size=4), "variables": st.dictionaries(st.sampled_from(["A", "B_1"]), HOSTILE, max_size=2), "python": HOSTILE, "results": st.lists(HOSTILE, max_size=2), "notify": st.lists(HOSTILE, max_size=2),
    "step_pattern": HOSTILE, "environment": st.none() | HOSTILE, "checkpoint": st.none() | st.fixed_dictionaries({"folder": HOSTILE, "pattern": HOSTILE}), "durable": st.none() | st.fixed_dictionaries({"to": HOSTILE, "what": st.lists(HOSTILE, min_size=1, max_size=2)}),
    "data": st.lists(st.fixed_dictionaries({"from": HOSTILE, "to": HOSTILE}), max_size=1), "rehearsal": st.fixed_dictionaries({"arguments": st.lists(HOSTILE, max_size=2)}), "secrets": st.dictionaries(st.just("S"), st.fixed_dictionaries({"file": HOSTILE}), max_size=1),
    "run_dir": st.none() | HOSTILE, "queue": st.none() | st.fixed_dictionaries({"cells": st.lists(st.fixed_dictionaries({"name": HOSTILE, "arguments": st.lists(HOSTILE, max_size=2)}), min_size=1, max_size=2)}),
    "name": st.just("a") | HOSTILE, "rendezvous": st.none() | HOSTILE, "code": st.none() | HOSTILE,
}  # fmt: skip


@given(
    fields=st.fixed_dictionaries({}, optional={**FIELDS, "at_end": st.fixed_dictionaries({"do": st.just("run"), "command": FIELDS["notify"]})}),
    target=st.sampled_from(TARGETS),
)  # fmt: skip
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_whatever_a_job_holds_reaches_the_runner_as_it_is_or_is_refused_by_its_field(
    fields, target
):
    try:
        given_job = from_object({"name": "a", "command": ["x"], "deadline": "1h", **fields})
        text = render(given_job, profile.get(PLATFORMS[target]), target, DAY).script
    except (JobError, Unfit) as refused:
        names = (*FIELDS, "at_end", "found", "job", "kubernetes", "skypilot", "nodes")
        assert str(refused).splitlines()[0].startswith(names), refused
        return
    script = script_of(target, text)
    read = job_in(script)
    spec.of(**read)
    for field in ("variables", "results", "notify"):
        assert read["job"][field] == getattr(given_job, field)
    assert len(re.findall(r"(?m)^# run\.d/job-[0-9a-f]{12}/job\.json$", script)) == 1


def test_the_stop_of_a_platform_is_given_only_where_it_keeps_the_disk_and_its_gaps_can_be_filled():
    stop = {"at_end": {"do": "stop"}}
    assert self_stop(job(**stop), profile.get("lambda")) == ("", "")  # its only stop deletes
    assert self_stop(job(**stop), profile.get("generic-ssh")) == ("", "")
    assert self_stop(job(**stop), profile.get("autodl")) == ("/usr/bin/shutdown", "")
    assert self_stop(job(**stop), profile.get("runpod"))[1] == "RUNPOD_API_KEY"
    assert (
        self_stop(
            job(at_end={"do": "stop", "credential": {"file": "~/key"}}), profile.get("vastai")
        )[1]
        == "CONTAINER_API_KEY=~/key"
    )
    assert self_stop(job(**stop), profile.get("nebius")) == ("", "")
    assert (
        '"$RGT_BOX_ID"'
        in self_stop(
            job(at_end={"do": "stop", "box_id": "computeinstance-1"}), profile.get("nebius")
        )[0]
    )


@pytest.mark.parametrize(
    "fields, platform, target, ids",
    [
        ({}, "local", "local", []),
        ({"durable": None}, "runpod", "ssh", ["RP3", "RP4"]),
        ({"durable": None}, "local", "local", []),
        ({"checkpoint": None}, "local", "local", ["C3"]),
        ({"resume": "none"}, "local", "local", []),  # nobody writes it by accident
        ({"deadline": "30h", "slurm": {"most_hours": 8, "requeue": False}}, "slurm", "slurm", ["SLURM2"]),
        ({"deadline": "30h", "slurm": {"most_hours": 8}}, "slurm", "slurm", []),
        ({"deadline": "20h", "price": "2 USD", "budget": "39 USD", "rented": "2026-11-20T10:00Z"}, "local", "local", ["GEN1"]),
        ({"deadline": "20h", "price": "2 USD", "budget": "40 USD", "rented": "2026-11-20T10:00Z"}, "local", "local", []),
        ({"at_end": {"do": "stop"}}, "lambda", "ssh", ["LAM3"]),
        ({"at_end": {"do": "stop"}}, "autodl", "ssh", ["AD1"]),
            ({"variables": {"HF_ENDPOINT": "https://hf-mirror.com"}}, "autodl", "ssh", ["GEN1"]),
        ({"checkpoint": {"folder": "out", "every_minutes": 240, "save_seconds": 30}, "hours_between_kills": 3}, "aws", "ssh", ["GEN1", "AWS1"]),
        ({"checkpoint": {"folder": "out", "every_minutes": 13, "save_seconds": 30}, "hours_between_kills": 3}, "aws", "ssh", ["GEN1"]),
        ({"checkpoint": {"folder": "out", "save_seconds": 300}}, "aws", "ssh", ["GEN1", "AWS1"]),
        ({"code": "/src"}, "kubernetes", "kubernetes", ["K8S3"]),
    ],
)  # fmt: skip
def test_each_risk_is_named_with_its_entry_and_nothing_else_is(fields, platform, target, ids):
    answer = render(job(**fields), profile.get(platform), target, date(2026, 8, 25))
    assert [warning.id for warning in answer.warnings if "." not in warning.id] == ids


def about(fields: dict, target: str = "local", name: str = "job") -> list[str]:
    """The texts of the warnings about the job's fields. `fields` alone, not beside FULL."""
    answer = render(
        from_object({"name": "a", "deadline": "2h", **fields}), profile.get("local"), target, DAY
    )
    return [warning.text for warning in answer.warnings if warning.id.startswith(name)]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"command": ["python", "train.py"]}, "train.py"),
        ({"command": "cd x && python src/train.py --lr 1"}, "src/train.py"),
        ({"command": ["accelerate", "launch", "--config=conf/a.yaml"]}, "conf/a.yaml"),
        ({"command": ["nvidia-smi"], "environment": "requirements.txt"}, "requirements.txt"),
        ({"command": ["python", "/opt/train.py", "~/conf.yaml"]}, ""),
        ({"command": ["python", "-m", "train"]}, ""),
        ({"command": ["python", "train.py"], "code": "/src"}, ""),
    ],
)
def test_a_job_without_code_is_told_what_will_not_be_there(fields, named):
    told = about(fields, name="job.code")
    assert len(told) == bool(named)
    assert not named or f"nothing is sent; {named} must lie in ~/runs/a" in told[0]


def test_the_code_of_a_cluster_is_in_its_image():
    given = {"command": ["python", "train.py"], "kubernetes": {"image": "x"}}
    assert not about(given, "kubernetes", "job.code")


@pytest.mark.parametrize(
    ("given", "held"),
    [
        (["python", "train.py"], ["/x/python", "train.py"]),
        (["python3", "-m", "a"], ["/x/python", "-m", "a"]),
        (["python3.11", "a.py", "python"], ["python3.11", "a.py", "python"]),
        ("python train.py | tee a", "/x/python train.py | tee a"),
        ("pythonic a", "pythonic a"),
    ],
)
def test_a_first_word_python_is_the_interpreter_that_the_job_names(given, held):
    fields = {"name": "a", "deadline": "2h", "command": given}
    assert in_script.command(from_object({**fields, "python": "/x/python"})) == held
    assert in_script.command(from_object(fields)) == given


def test_an_interpreter_that_the_command_does_not_use_is_told_or_refused():
    line = "cd a && python train.py"
    assert (
        "calls PATH's python, not /x/python"
        in about({"command": line, "python": "/x/python"}, name="job.python")[0]
    )
    assert not about({"command": line}, name="job.python")
    assert not about({"command": "python -c 1", "python": "/x/python"}, name="job.python")
    with pytest.raises(Unfit, match="python: nothing reads the ~ there"):
        about({"command": ["x"], "python": "~/venv/bin/python"})


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"command": ["x"]}, True),
        ({"command": ["x", "--out=./out/ckpt/"]}, False),
        ({"command": "x --out out/ckpt"}, False),
        ({"command": ["x"], "variables": {"OUT": "out/ckpt"}}, False),
    ],
)
def test_a_program_that_is_not_given_its_folder_is_told_what_a_rehearsal_needs(fields, told):
    given = {**fields, "checkpoint": {"folder": "out/ckpt/"}}
    texts = about(given, name="job.checkpoint")
    assert len(texts) == told and all("RGT_CHECKPOINT_DIR" in text for text in texts)


def test_without_a_platform_the_target_local_is_ones_own_machine_and_a_rented_box_stays_rented(
    monkeypatch,
):
    given = {"name": "a", "deadline": "2h", "command": ["x"]}

    def ids(named: str, target: str = "local") -> list[str]:
        told = rendered(given, named, target, on=DAY)["warnings"]
        return [warning["id"] for warning in told if "." not in warning["id"]]

    monkeypatch.setenv("NEBIUS_IAM_TOKEN", "x")  # one's own machine may have this
    for named in ("", "local"):
        answer = rendered(given, named, "local", on=date(2028, 12, 31))
        assert [warning["id"] for warning in answer["warnings"]] == ["C3", "job.results"]
        assert job_in(answer["script"])["rendered"]["profile"] == "local"
    assert "RP4" in ids("runpod")  # whoever names a meter stands on it
    by_job = rendered({**given, "platform": "runpod"}, on=DAY)
    assert job_in(by_job["script"])["rendered"]["profile"] == "runpod"
    assert "GEN1" in ids("generic-ssh")
    monkeypatch.setenv("RUNPOD_POD_ID", "abc")
    assert "RP4" in ids("")
    kubernetes = {**given, "kubernetes": {"image": "x"}}
    told = rendered(kubernetes, "", "kubernetes", on=DAY)["warnings"]
    assert [warning["id"] for warning in told if "kubernetes." not in warning["id"]] == [
        "C3",
        "job.results",
        "C4",
    ]


ENDED = {"do": "run", "command": ["provider", "stop", "a b"]}


@pytest.mark.parametrize("end, durable, said", [
    (ENDED, True, "when the run is done, when it failed and at the deadline, the box runs `provider stop 'a b'`, and again until it is off: only once the newest complete checkpoint and the results are safe elsewhere; it may delete the disk. Where they never are, it doesn't run. It must bear repeating."),
    ({**ENDED, "when": ["done"]}, True, "when the run is done, the box runs `provider stop 'a b'`, and again until it is off: only once the newest"),
    ({**ENDED, "when": ["done", "unsaved"]}, True, ": before the deadline only once the newest complete checkpoint and the results are safe elsewhere, from the deadline on also while results are on this box only, which may be lost then; it may delete the disk. It must"),
    ({**ENDED, "when": ["deadline", "unsaved"]}, True, "`, and again until it is off: also while results are on this box only, which may be lost then; it may delete the disk. It must"),
    ({**ENDED, "when": ["unsaved"]}, True, "from the deadline on, where the run trained to its end and its last copy isn't verified, the box runs `provider stop 'a b'`, and again until it is off: also while results are on this box only, which may be lost then"),
    ({**ENDED, "keeps_disk": True}, False, ": nothing is copied elsewhere, and its disk is kept"),
    ({**ENDED, "command": "a && b", "credential": {"file": "~/key"}}, True, "`a && b`, and again until it is off: only once the newest complete checkpoint and the results are safe elsewhere; it may delete the disk. Where they never are, it doesn't run. It must bear repeating. It needs RGT_STOP_KEY=~/key there."),
])  # fmt: skip
@pytest.mark.parametrize(
    "platform, target", [("local", "local"), ("generic-ssh", "ssh"), ("runpod", "local")]
)
def test_the_users_own_end_command_is_shown_word_for_word_with_its_cases(
    end, durable, said, platform, target
):
    more = {} if durable else {"durable": None}
    told = warnings(job(at_end=end, **more), profile.get(platform), target, DAY)
    # Where the platform has a stop of its own, that too.
    stop = "60 min after the deadline the platform's own stop keeps the disk"
    texts = [w.text.replace(stop, "it doesn't run") for w in told if w.id == "job.at_end"]
    assert [text for text in texts if said in text], told
    billed = platform != "local"
    lacks = [w for w in told if "at_end.when lacks deadline" in w.text]
    assert bool(lacks) == (billed and "deadline" not in end.get("when", ["deadline"]))


@pytest.mark.parametrize("end, platform, leads", [
    ({}, "runpod", "To end the GPU's price, set at_end.do: stop; the disk stays and may cost until you delete it."), ({}, "lambda", "set your provider's own command, at_end: {do: run, command: [...]}."),
    ({"do": "stop"}, "lambda", "at_end.do: stop does nothing here: lambda has no known stop that keeps the disk. Set your provider's own command, at_end: {do: run,"),
    ({"do": "stop"}, "generic-ssh", "Set your provider's own command, at_end: {do: run,"),
    ({"do": "stop"}, "nebius", "Set at_end.box_id;"),
    ({"do": "stop"}, "local", "at_end.do: stop does nothing. If it is rented, name its platform (--profile), or your own command: at_end: {do: run,"),
])  # fmt: skip
def test_advice_about_the_meter_leads_somewhere(end, platform, leads):
    told = warnings(job(at_end=end), profile.get(platform), "local", DAY)
    assert [w.text for w in told if leads in w.text], told
    followed = {**ENDED} if "do: run" in leads else {"do": "stop", "box_id": "computeinstance-1"}
    told = warnings(job(at_end=followed), profile.get(platform), "local", DAY)
    assert not [w.text for w in told if "billed" in w.text or "does nothing" in w.text], told


@pytest.mark.parametrize("command, seen", [
    ("nohup python train.py … &", "nohup"), ("python train.py &", "&"), ("python train.py & disown", "& disown"), ("(python train.py &)", "&)"),
    ("cd x && setsid python train.py", "setsid"), (["nohup", "python", "train.py"], "nohup"), (["bash", "-c", "python train.py &"], "&"),
    ("python a.py & python b.py; wait", ""), ("python a.py && python b.py", ""), ("python a.py 2>&1", ""), (["python", "nohup.py"], ""),
])  # fmt: skip
def test_a_program_in_the_background_is_told(command, seen):
    told = about({"command": command}, name="job.command")
    assert len(told) == bool(seen)
    assert not seen or told[0].startswith(repr(seen))


def test_a_stall_limit_under_three_heartbeats_is_raised_with_a_word():
    assert about({"command": ["x"], "stall": {"log_minutes": 0.1}}, name="job.stall") == [
        "log_minutes: under 30 s, in which the runner looks 3 times; 30 s are taken instead."
    ]
    assert not about(
        {"command": ["x"], "stall": {"log_minutes": 0.5, "step_minutes": 0}}, name="job.stall"
    )


@pytest.mark.parametrize("place", ["/", "//", "/usr", "/home/", "home", "above home", "."])
def test_code_that_is_a_root_the_system_or_a_home_folder_is_refused(place, tmp_path, monkeypatch):
    home = tmp_path / "users/me"
    (home / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    code = {"home": str(home), "above home": str(home.parent)}.get(place, place)
    given = {"name": "a", "deadline": "2h", "command": ["x"]}
    with pytest.raises(JobError, match="^code: .* all of it would be sent; name the folder with"):
        rendered({**given, "code": code}, "generic-ssh")
    assert rendered({**given, "code": "project"}, "generic-ssh")["start"]


def test_the_entry_on_a_bill_is_no_entry_on_a_deletion_that_failed():
    """What a box bills that nobody ends isn't what is billed after a deletion."""
    from remote_gpu_trainer.catalogue import bundle
    from remote_gpu_trainer.runs import launch_risks

    titles = {id: bundle.load().get(id).title for id in launch_risks.BILLED.values()}
    assert not [id for id, title in titles.items() if re.search("delet|destroy", title, re.I)]


def test_every_warning_names_an_entry_that_exists_or_a_fact():
    from remote_gpu_trainer.catalogue import bundle
    from remote_gpu_trainer.runs import launch_risks

    ids = {
        identifier
        for table in (
            launch_risks.LOST,
            launch_risks.ENDED,
            launch_risks.BILLED,
            launch_risks.TAKEN,
        )
        for identifier in table.values()
    } | {"C3", "C4", "K8S3", "RP6"}
    assert all(bundle.load().get(identifier).id == identifier for identifier in ids)


def test_a_stale_fact_that_the_script_rests_on_is_named_with_its_source():
    stale = [
        w
        for w in render(
            job(at_end={"do": "stop"}), profile.get("runpod"), "ssh", date(2028, 1, 1)
        ).warnings
        if w.id.startswith("runpod.")
    ]
    assert {w.id for w in stale} >= {
        "runpod.self_stop",
        "runpod.limits",
        "runpod.preemption",
    } and all(
        re.fullmatch(
            r"stale \((decides|hardly)\): read \d+ days ago; source: profile://runpod", w.text
        )
        for w in stale
    )


def test_the_usual_target_of_a_platform():
    assert {
        name: usual_target(profile.get(name)) for name in ("slurm", "kubernetes", "local", "runpod")
    } == {"slurm": "slurm", "kubernetes": "kubernetes", "local": "local", "runpod": "ssh"}


def test_a_script_is_written_whole_and_no_other_file_is_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = rendered({**FULL, "command": "x"}, "local", None, str(tmp_path))
    path = Path(answer["path"])
    assert "script" not in answer and path.name == "sft.run.sh" and path.stat().st_mode & 0o100
    assert rendered({**FULL, "command": "y"}, "local", None, str(path))["path"] == str(path)
    mark = path.read_text().splitlines(keepends=True)[1]
    assert mark.startswith("# Rendered by remote-gpu-trainer ")
    for text in (
        "my own notes",
        f"my own notes\n\nfrom a log:\n{mark}",
        f"#!/usr/bin/env bash\necho mine\n{mark}",
        f"#!/usr/bin/env python3\n{mark}print('mine')\n",
        f"{mark}notes: mine\n",
    ):
        path.write_text(text)
        with pytest.raises(JobError, match="isn't a rendered script"):
            rendered({**FULL, "command": "y"}, "local", None, str(path))
        assert path.read_text() == text


@pytest.mark.parametrize("target", TARGETS)
def test_the_script_of_every_target_is_known_as_rendered(target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in ("first", "second"):
        answer = rendered({**FULL, "command": [command]}, PLATFORMS[target], target, "out/")
        assert answer["path"].startswith("out/sft.") and command in Path(answer["path"]).read_text()


def test_a_script_is_written_neither_through_a_link_nor_into_a_hidden_folder(tmp_path, monkeypatch):
    here, other = tmp_path / "here", tmp_path / "other"
    for folder in (here / ".git" / "hooks", here / "jobs", other):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    (here / "dangling.sh").symlink_to(other / "new.sh")
    (here / "linked").symlink_to(other)
    (here / "hooks").symlink_to(here / ".git" / "hooks")
    (here / "jobs" / "again.sh").symlink_to("../sft.run.sh")
    rendered(PLAIN, "local", None, ".")

    def refused(write_to, said, **more):
        with pytest.raises(JobError, match=said):
            rendered(PLAIN, "local", None, str(write_to), **more)

    for outside in (False, True):
        refused("dangling.sh", "is a link", outside=outside)
        refused("jobs/again.sh", "is a link", outside=outside)
        refused(".git/hooks/pre-commit", "hidden", outside=outside)
        refused(".git/", "hidden", outside=outside)
        refused("hooks/pre-commit", "hidden", outside=outside)
        refused("hooks", "hidden", outside=outside)
        refused(".envrc", "hidden", outside=outside)
        refused(here / "jobs" / ".." / ".git" / "x.sh", "hidden", outside=outside)
    for path in ("linked", "linked/x.sh", "../other/x.sh", other / "x.sh", "jobs/../../x.sh"):
        refused(path, "outside the working folder .*--outside")
    assert list(other.iterdir()) == [] == list((here / ".git" / "hooks").iterdir())
    assert rendered(PLAIN, "local", None, str(other), outside=True)["path"]
    assert rendered(PLAIN, "local", None, "jobs/new/x.sh")["path"] == "jobs/new/x.sh"
    assert rendered(PLAIN, "local", None, str(here / "jobs"))["path"]
    monkeypatch.chdir("/")  # everything is inside, so that says nothing
    refused(other / "y.sh", "outside the working folder")


@pytest.mark.parametrize(
    "place, outside, said",
    [
        ("/proc/run.sh", True, "write_to: /proc/run."),
        ("/tmp/" + "x" * 300, False, "write_to: "),
        ("/tmp/a\0b", False, r"\(a NUL in it\); pass a folder or a file"),
        ("~nobody.of.that.name/", False, "write_to: can't use"),
        ("/dev/zero", True, "/dev/zero exists and isn't a rendered script"),
        ("/etc/x.sh", False, "write_to: /etc/x.sh is outside the working folder"),
        ("fifo", False, "isn't a rendered script"),
        ("last.pt", False, "isn't a rendered script"),
    ],
    ids=["no file", "long", "a NUL", "nobody's home", "a device", "the system's", "a fifo", "3 GB"],
)
def test_a_place_that_no_script_belongs_to_is_refused(tmp_path, monkeypatch, place, outside, said):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    with open("last.pt", "wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(JobError, match=said):
        rendered(PLAIN, "local", None, place, outside=outside)


def test_a_new_place_without_an_ending_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert rendered(PLAIN, "local", None, "out/new")["path"] == "out/new/sft.run.sh"
    assert rendered(PLAIN, "local", None, "other.d/")["path"] == "other.d/sft.run.sh"
    assert rendered(PLAIN, "local", None, "one.sh")["path"] == "one.sh"
    (tmp_path / "one.sh").rename("script")  # one that was rendered under such a name stays a file
    assert rendered(PLAIN, "local", None, "script")["path"] == "script"


def test_the_command_line_takes_a_place_outside_only_with_its_option(tmp_path, monkeypatch, capsys):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    asked = ["render", "--profile", "local", "--set", "name=x", "--set", "command=python train.py"]
    asked += ["--set", "deadline=1h", "--write-to", str(tmp_path / "x.sh")]
    assert main(asked) == 2 and "--outside" in capsys.readouterr().err
    assert main([*asked, "--outside"]) == 0 and (tmp_path / "x.sh").exists()


def test_code_is_recorded_with_commit_difference_and_ignored_files(tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    (tmp_path / "train.py").write_text("a = 1\n")
    (tmp_path / ".gitignore").write_text("data/\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("x")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *arguments], check=True)
    (tmp_path / "train.py").write_text("a = 2\n")
    answer = rendered({**FULL, "command": ["x"], "code": str(tmp_path)}, "local")
    held = job_in(answer["script"])["rendered"]["code"]
    assert held["commit"].endswith(" first\n")
    assert "+a = 2" in held["diff"] and held["ignored"] == "data/\n"


@pytest.mark.parametrize("tracked", [True, False])
@pytest.mark.parametrize("target", ["local", "ssh", "slurm"])
def test_the_printed_commands_send_what_start_sends(tmp_path, target, tracked, capfdbinary):
    for name in (
        "train.py",
        "kaggle.json",
        ".npmrc",
        "client_secret_1.json",
        ".docker/config.json",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    if tracked:
        for words in (["init", "-q"], ["add", "-f", "."]):
            subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
        (tmp_path / "untracked.py").write_text("x")
    platform = "slurm" if target == "slurm" else "local"
    answer = rendered({**PLAIN, "code": str(tmp_path)}, platform, target)
    assert f"remote-gpu-trainer render --pack-code {tmp_path} | " in answer["start"]
    assert "rsync" not in answer["start"]
    assert main(["render", "--pack-code", str(tmp_path)]) == 0
    with tarfile.open(fileobj=io.BytesIO(capfdbinary.readouterr().out)) as archive:
        members = archive.getmembers()
    assert [(one.name, one.size, one.uname) for one in members] == [("train.py", 1, "")]


def test_a_deadline_that_has_passed_is_refused():
    with pytest.raises(
        JobError, match="^deadline: has passed; write deadline: 20h, or a later time$"
    ):
        rendered({**PLAIN, "deadline": "2020-01-01T00:00Z"}, "local")


def test_the_command_prints_the_script_and_says_the_rest_on_stderr(tmp_path, capsys):
    (tmp_path / "job.yaml").write_text("name: sft\ncommand: [python, train.py]\ndeadline: 2h\n")
    assert main(["render", str(tmp_path / "job.yaml"), "--profile", "runpod"]) == 0
    out, err = capsys.readouterr()
    assert (
        out.startswith("#!/usr/bin/env bash\n# Rendered by remote-gpu-trainer")
        and "# start\n(set -eo pipefail\nssh BOX" in err
        and "warning RP3: no durable place" in err
    )
    (tmp_path / "old.sh").write_text(out)
    assert (
        main(
            [
                "render",
                str(tmp_path / "job.yaml"),
                "--profile",
                "runpod",
                "--diff",
                str(tmp_path / "old.sh"),
            ]
        )
        == 0
    )
    assert (
        main(
            [
                "render",
                str(tmp_path / "job.yaml"),
                "--profile",
                "runpod",
                "--set",
                "deadline=3h",
                "--diff",
                str(tmp_path / "old.sh"),
            ]
        )
        == 1
    )
    assert '+  "deadline": "hours:3",\n' in capsys.readouterr().out


@pytest.mark.parametrize(
    "args, said",
    [
        (
            ["--set", "name=a"],
            "error: --set command: missing; write --set 'command=[python, train.py]'",
        ),
        ([], "no job given; pass a YAML or JSON file"),
        (["gone.yaml"], "gone.yaml: there is no such file; name a YAML or JSON file with a job"),
        (["--set", "deadline"], "isn't FIELD=VALUE; write one such as --set deadline=20h"),
        (
            ["--set", "name=a", "--set", "command=x", "--set", "deadline=1h", "--profile", "moon"],
            "unknown profile 'moon'",
        ),
        (
            ["--set", "name=a", "--set", "command=x", "--set", "deadline=1h", "--target", "moon"],
            "target: unknown target 'moon'",
        ),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_2(args, said, capsys):
    assert main(["render", *args]) == 2
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err


def test_the_schema_says_where_a_program_saves(capsys):
    assert main(["render", "--schema"]) == 0
    assert "the program must save to RGT_CHECKPOINT_DIR" in capsys.readouterr().out


def test_the_schema_is_published(capsys):
    assert main(["render", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["required"] == ["name", "command", "deadline"]


PROBED = PLAIN | {"command": ["python", "train.py"], "checkpoint": {"folder": "out"}}


@pytest.mark.parametrize(
    ("fields", "on"),
    [
        ({}, True),
        ({"command": "cd src && torchrun --nproc-per-node 2 train.py | tee log"}, True),
        ({"command": ["/opt/venv/bin/python3.11", "-m", "train"]}, True),
        ({"command": ["accelerate", "launch", "train.py"]}, True),
        ({"command": ["train"], "launcher": "deepspeed"}, True),
        ({"command": ["./train.sh"]}, False),
        ({"command": ["julia", "train.jl", "pythonic"]}, False),
        ({"probe": False}, False),
        ({"probe": "off"}, False),
        ({"checkpoint": None}, True),
    ],
)
def test_a_rehearsal_has_the_probe_where_a_python_program_trains_unless_the_job_says_no(fields, on):
    probed = from_object(PROBED | fields)
    assert (
        job_in(render(probed, profile.get("local"), "local", DAY).script)["rendered"]["probe"] is on
    )


def test_a_misspelt_probe_is_refused_by_its_name():
    with pytest.raises(JobError, match="^probe: "):
        from_object(PROBED | {"probe": "of"})
