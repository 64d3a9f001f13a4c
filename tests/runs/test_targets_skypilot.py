"""SkyPilot tasks: loaded by SkyPilot's own parser, and their `run` executed by bash as SkyPilot does."""

import json
import os
import subprocess

import pytest
import yaml
from hypothesis import example, given
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.runs import run_script
from remote_gpu_trainer.runs.job import Job
from remote_gpu_trainer.runs.job_errors import JobError
from remote_gpu_trainer.runs.job_reading import from_object
from remote_gpu_trainer.runs.rendered import Unfit, job_of, rendered_of
from remote_gpu_trainer.runs.targets import skypilot

from tests.conftest import read_yaml
from tests.runs.test_targets_kubernetes import HOSTILE

INSTALL = "python3 -m venv sky && sky/bin/pip install skypilot==0.14.1, then SKYPILOT_PYTHON=sky/bin/python"
LOAD = """\
import json, sys, sky
for path in sys.argv[1:]:
    try:
        task = sky.Task.from_yaml(path)
        print(json.dumps({"task": task.to_yaml_config(), "run": task.run, "secrets": [ref.name for ref in task._managed_secret_refs]}))
    except Exception as error:
        print(json.dumps({"error": str(error)}))
"""

SECRETS = {"HF_TOKEN": {"variable": "HF_TOKEN"}, "WANDB_API_KEY": {"variable": "WANDB"}}
OWN = {"accelerator": "H100"}
CELLS = {"cells": [{"name": name} for name in "abc"]}


def job(own=None, **fields) -> Job:
    """A job of one H100: these fields over it, and these of `skypilot`."""
    usual = {"name": "tiny", "deadline": "20h", "command": ["python3", "train.py"], "secrets": SECRETS}  # fmt: skip
    return from_object({**usual, **fields, "skypilot": OWN if own is None else own})


# In place of a Python: it tells how the runner was called, and unpacks run.d as a Python does.
STAND_IN = """\
#!/bin/sh
case "$*" in
  *sys.version_info*) ;;
  *"/runner/entry.py "*) shift 8; echo "$*|rdzv=${RGT_RENDEZVOUS-}${RGT_PART:+|part=$RGT_PART}" >> "$HOME/calls" ;;
  *) exec python3 "$@" ;;
esac
"""
FULL = {
    **OWN, "infra": "aws", "region": "us-east-1", "zone": "us-east-1a", "setup": ["apt-get install -y x || true"], "spot": True, "disk_gb": 300, "cpus": 8, "memory_gb": 64,
    "image": "docker:pytorch/pytorch:2.13.0", "file_mounts": {"~/key": "/etc/hostname", "/data": "s3://bucket/data"},
}  # fmt: skip
PAIR = {"nodes": 2, "launcher": "torchrun"}


@pytest.fixture(scope="module")
def made():
    """The text of a job, with the script that went in."""

    def make(own=None, **fields):
        one = job(own, **fields)
        rendered = rendered_of(one, profile.get("aws"), "skypilot", "1")
        script = run_script.packed(run_script.files(job_of(one), rendered))
        return skypilot.as_yaml(one, rendered, script), script

    return make


@pytest.fixture
def load(tmp_path):
    """What SkyPilot reads from texts."""
    python = os.environ.get("SKYPILOT_PYTHON")
    if not python:
        (pytest.fail if os.environ.get("REQUIRE_ENGINES") else pytest.skip)(
            f"SKYPILOT_PYTHON is not set: {INSTALL}"
        )

    def read(*texts):
        paths = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, encoding="utf-8")
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
        }
        done = subprocess.run(
            [python, "-c", LOAD, *map(str, paths)],
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return read


@pytest.fixture
def execute(tmp_path):
    """Runs a task's `run` as SkyPilot does: a file, given to bash -i. It returns the folder of home."""

    def run(text, home=None, **variables):
        home = home or tmp_path / "home"
        home.mkdir(exist_ok=True)
        script = tmp_path / "sky_script"
        script.write_bytes(("#!/bin/bash\n" + text).encode())
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8", **variables}
        done = subprocess.run(
            ["/bin/bash", "-i", str(script)],
            env=env,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=60,
            start_new_session=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return home

    return run


def test_skypilot_loads_a_task_with_every_option_and_one_with_none(load, made):
    least = made({}, gpus=0, secrets={})
    full, least, spots = load(made(FULL, **PAIR, code="/tmp")[0], least[0], made()[0])
    assert full["secrets"] == ["HF_TOKEN", "WANDB"]
    assert full["task"]["num_nodes"] == 2
    got = full["task"]["resources"]
    assert (
        got["accelerators"] == {"H100": 1} and got["use_spot"] is True and got["disk_size"] == 300
    )
    assert (got["infra"], got["cpus"], got["memory"]) == ("aws/us-east-1/us-east-1a", "8+", "64+")
    assert (
        full["task"]["setup"] == "set +H\napt-get install -y x || true\n"
        and "setup" not in least["task"]
    )
    assert full["task"]["file_mounts"] == FULL["file_mounts"]
    assert least["task"]["name"] == "tiny"
    assert "error" not in spots


def test_of_several_gpus_skypilot_takes_any(load, made):
    loaded = load(made({"accelerator": "A100,L4"}, gpus=2)[0])[0]
    choice = loaded["task"]["resources"]["any_of"]
    assert dict(item for one in choice for item in one["accelerators"].items()) == {
        "A100": 2,
        "L4": 2,
    }


def test_skypilot_would_refuse_a_misspelt_key(load, made):
    task = read_yaml(made()[0])[0]
    task["resources"]["use_spott"] = True
    assert "use_spot" in load(yaml.safe_dump(task))[0]["error"]


def test_skypilot_gets_hostile_text_exactly(load, made):
    hard = [
        "a\x85b\u2028c",
        " x \n\t\n",
        "\r\n",
        "$HF_TOKEN ${HF_TOKEN}",
        "a!!b",
        "EOF\nRGT_\n",
        "{{ jinja }} {% x %}",
        "---\n...\n",
    ]
    text, script = made(command=hard)
    found = load(text)[0]["run"]
    assert script in found
    assert found == read_yaml(text)[0]["run"]


@pytest.fixture
def stand_in(tmp_path):
    path = tmp_path / "python"
    path.write_text(STAND_IN)
    path.chmod(0o755)
    return str(path)


def test_the_run_text_writes_the_script_and_runs_it(execute, made, stand_in):
    hard = ["a b", "!!", '"!x"', "$(touch bad)", "`touch bad`", "'", "a\nb", "\\", "训练", "\x01"]
    text, script = made(python=stand_in, command=hard)
    home = execute(read_yaml(text)[0]["run"])
    assert (home / "calls").read_text() == "run|rdzv=\n"
    kept = home / ".remote-gpu-trainer/tiny/run.sh"
    assert kept.read_bytes().decode() == script
    assert not [path for path in home.rglob("*") if path.name == "bad"]


def test_each_node_gets_its_rank_and_the_first_address(execute, made, stand_in):
    run = read_yaml(made(**PAIR, python=stand_in)[0])[0]["run"]
    for rank in "01":
        home = execute(run, SKYPILOT_NODE_RANK=rank, SKYPILOT_NODE_IPS="10.0.0.7\n10.0.0.8")
    assert (home / "calls").read_text().splitlines() == [
        "run --node-rank 0|rdzv=10.0.0.7",
        "run --node-rank 1|rdzv=10.0.0.7",
    ]


def test_a_queue_runs_its_cells(execute, made, stand_in):
    home = execute(read_yaml(made(python=stand_in, queue=CELLS)[0])[0]["run"])
    assert (home / "calls").read_text().startswith("queue|")


def test_boxes_that_share_a_queue_are_told_their_part(execute, made, load, stand_in):
    text = made(python=stand_in, queue={**CELLS, "boxes": 3})[0]
    task = read_yaml(text)[0]
    assert task["envs"] == {"RGT_PART": None}
    assert task["resources"]["job_recovery"] == {"recover_on_exit_codes": [75]}
    assert "RGT_PART" in load(text)[0]["error"], "SkyPilot starts none without its part"
    home = execute(task["run"], RGT_PART="2/3")
    assert (home / "calls").read_text() == "queue|rdzv=|part=2/3\n"


def test_skypilot_takes_the_part_that_the_start_command_names(load, made):
    text = made(queue={**CELLS, "boxes": 3})[0]
    [found] = load(text.replace("RGT_PART: null", 'RGT_PART: "1/3"'))
    assert found["task"]["envs"] == {"RGT_PART": "1/3"}


def test_the_delimiter_is_no_line_of_the_script():
    script = "x\n"
    first = skypilot.run(job(), script).split("<<'")[1].split("'")[0]
    hashed = skypilot.hashlib.sha256
    try:  # a script that holds its own hash can't be made, so the hash is held still
        skypilot.hashlib.sha256 = lambda data: hashed(script.encode())
        run = skypilot.run(job(), f"{first}\n{first}_\n")
    finally:
        skypilot.hashlib.sha256 = hashed
    assert f"<<'{first}__' || exit 1\n{first}\n{first}_\n{first}__\n" in run


@given(HOSTILE)
@example("a\x85\r\n")
def test_any_value_comes_back_exactly(made, value):
    try:
        text, script = made(variables={"V": value})
    except JobError:
        return
    task = read_yaml(text)[0]
    assert script in task["run"]
    assert {**task, "run": ""} == {**read_yaml(made()[0])[0], "run": ""}, (
        "a value reached something else than the script"
    )


@given(HOSTILE)
@example("a\x85\r\n$(x) !!")
def test_any_setup_comes_back_exactly(made, value):
    try:
        text, _ = made({**OWN, "setup": [value]})
    except JobError as refused:
        assert str(refused).startswith("skypilot.setup.0: ")
        return
    assert read_yaml(text)[0]["setup"] == f"set +H\n{value}\n"


@given(HOSTILE)
def test_a_path_with_a_variable_or_a_line_end_is_refused(path):
    try:
        one = job({**OWN, "file_mounts": {"/data": path}})
    except JobError as refused:
        assert str(refused).startswith("skypilot.file_mounts")
    else:
        assert "$" not in path and "\n" not in path
        assert one.skypilot.file_mounts == {"/data": path}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"accelerator": "H100:8"}, "accelerator: must be the name of a GPU"),
        ({"accelerator": "H100,"}, "accelerator: must be the name of a GPU"),
        ({"infra": "aws us"}, "infra: must be CLOUD"),
        ({"region": "us-east-1"}, "region: must be left out without infra"),
        ({"infra": "aws", "region": "us east"}, "region: must be a name"),
        ({"infra": "aws/us-east-1", "region": "us-east-1"}, "region: must be left out where infra"),
        ({"infra": "aws", "zone": "a"}, "zone: must be left out without region"),
        ({"image": "a\nb"}, "image: must be docker:IMAGE:TAG"),
        ({"disk_gb": -1}, "disk_gb: is -1, and must be 1 or more"),
        ({"file_mounts": {"/a": "${X}"}}, "file_mounts./a: must be a path without variables"),
    ],
)
def test_a_bad_value_is_refused_by_its_field_whatever_the_target(change, says):
    with pytest.raises(JobError, match=f"^skypilot.{says}.*; "):
        job({**OWN, **change})


@pytest.mark.parametrize(
    ("own", "fields", "says"),
    [
        ({}, {}, "skypilot.accelerator: missing"),
        (OWN, {"gpus": 0}, "skypilot.accelerator: must be left out where gpus is 0"),
        (OWN, {"name": "a---b"}, "name: SkyPilot takes at most two"),
        (OWN, {"code": "$HOME/x"}, "code: must be a path without variables"),
    ],
)
def test_what_does_not_fit_together_is_refused_for_skypilot_alone(made, own, fields, says):
    with pytest.raises(Unfit, match=f"^{says}.*; "):
        made(own, **fields)


def test_a_text_that_is_no_script_of_ours_is_refused():
    with pytest.raises(ValueError, match="^script: "):
        skypilot.as_yaml(job(), {}, "echo\n")
