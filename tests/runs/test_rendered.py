"""What a run.sh holds: the job, and what its platform and target make of it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.runner import spec
from remote_gpu_trainer.runs.job import Job
from remote_gpu_trainer.runs.job_reading import from_object
from remote_gpu_trainer.runs.rendered import Unfit, job_of, rendered_of

LEAST = {"name": "a", "command": ["python", "train.py"], "deadline": "2h"}


def read(platform: str = "local", target: str = "local", **more) -> SimpleNamespace:
    """The job as the runner has it."""
    job = from_object({**LEAST, **more})
    both = {"job": job_of(job), "rendered": rendered_of(job, profile.get(platform), target, "1")}
    return spec.read(json.dumps(both))


def test_a_script_holds_the_job_as_its_user_wrote_it():
    given = {
        "checkpoint": {"folder": "out", "files": ["optim_*.pt", "args.json"], "pattern": "*.pt"},
        "durable": {"to": "/d", "what": ["out"], "every_minutes": 15, "on_this_box": True},
        "secrets": {"A": {"file": "~/a"}, "B": {"variable": "BOX_B"}},
        "resume": {"flag": "--resume"},
        "data": [{"from": "~/x", "to": "x"}],
    }
    job = from_object({**LEAST, **given, "code": "/home/me/train"})
    held = job_of(job)
    assert from_object({**held, "code": "/home/me/train"}) == job
    assert set(held) == set(Job.model_fields) - {"code"}, "where the code lies here stays here"
    assert held["checkpoint"]["folder"] == "out" and held["durable"]["every_minutes"] == 15
    assert held["data"] == given["data"] and held["stall"]["log_minutes"] == 30


def test_what_a_job_leaves_out_names_nothing():
    job = read(gpus=0)
    assert job.checkpoint.folder == job.checkpoint.pattern == job.durable.to == ""
    assert job.checkpoint.save_seconds == 30 and job.queue.cells == [] and job.processes == 1
    assert read(checkpoint={"folder": "out", "pattern": ""}).checkpoint.pattern == "*"
    assert read(gpus=4).processes == 4


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"job": {}, "rendered": {}}', '{"job": 1}'])
def test_a_script_that_holds_no_job_is_refused(text):
    with pytest.raises(spec.SpecError, match="can't be read .*; render it again"):
        spec.read(text)


@pytest.mark.parametrize("given, held", [
    ({"command": "python3 a.py && python b.py", "python": "/venv/bin/python"}, "/venv/bin/python a.py && python b.py"),
    ({"command": "python a.py", "python": "/a b/python"}, "'/a b/python' a.py"),
    ({"command": "python a.py"}, "python a.py"), ({"command": ["python", "a.py"], "python": "/v/python"}, ["/v/python", "a.py"]),
    ({"command": ["x", "python"], "python": "/v/python"}, ["x", "python"]),
])  # fmt: skip
def test_a_named_interpreter_takes_the_place_of_a_first_python(given, held):
    assert read(**given).command == held


def test_an_interpreter_in_a_home_folder_is_refused():
    with pytest.raises(Unfit, match="python: nothing reads the ~"):
        read(python="~/venv/bin/python")


@pytest.mark.parametrize("end, platform, command, needs", [
    ({}, "runpod", "", ""),
    ({"do": "stop"}, "autodl", "/usr/bin/shutdown", ""),
    ({"do": "stop"}, "lambda", "", ""),  # its only stop deletes
    ({"do": "run", "command": ["p", "$(x)"]}, "local", ["p", "$(x)"], ""),
    ({"do": "run", "command": "p $A_KEY", "credential": {"file": "~/k"}}, "local", "p $A_KEY", "A_KEY=~/k"),
    ({"do": "run", "command": ["p", "x"], "credential": {"file": "~/k"}}, "local", ["p", "x"], "RGT_STOP_KEY=~/k"),
    ({"do": "run", "command": "p", "credential": {"variable": "TOKEN_OF_MINE"}}, "local", "p", "TOKEN_OF_MINE"),
])  # fmt: skip
def test_what_ends_the_box_is_one_command(end, platform, command, needs):
    if end.get("do") == "run":
        end = {**end, "keeps_disk": True}
    job = read(platform, "ssh", at_end=end)
    assert (job.rendered.end.command, job.rendered.end.needs) == (command, needs)
    assert job.at_end.when == ["done", "failed", "deadline"]


@pytest.mark.parametrize("platform, target, spot, billed", [
    ("runpod", "ssh", False, True), ("runpod", "local", False, True), ("generic-ssh", "ssh", False, True), ("generic-ssh", "local", False, True),
    ("local", "local", False, False), ("slurm", "slurm", False, False), ("kubernetes", "kubernetes", False, False),
    ("aws", "skypilot", False, True), ("aws", "skypilot", True, False),
])  # fmt: skip
def test_a_rented_box_is_billed_whatever_renders_it(platform, target, spot, billed):
    more = {"kubernetes": {"image": "x"}, "skypilot": {"accelerator": "H100", "spot": spot}}
    assert read(platform, target, **more).rendered.billed is billed


RUN = {"do": "run", "command": "p"}


@pytest.mark.parametrize("end, durable, is_fine", [
    (RUN, False, False), (RUN, True, True), ({**RUN, "keeps_disk": True}, False, True),
    ({**RUN, "when": ["done", "unsaved"]}, False, True), ({"do": "stop"}, False, True), ({}, False, True),
])  # fmt: skip
def test_a_command_that_may_delete_is_refused_where_nothing_is_copied(end, durable, is_fine):
    more = {"durable": {"to": "/d", "what": ["out"]}} if durable else {}
    if is_fine:
        read("runpod", "ssh", at_end=end, **more)
        return
    with pytest.raises(Unfit, match="at_end: its command may delete the box"):
        read("runpod", "ssh", at_end=end, **more)


@pytest.mark.parametrize("command, durable, why", [
    (["sky", "stop", "-y", "toy"], False, ""),
    ("sky stop toy --yes", False, ""),
    ("sky stop toy", True, "sky stop asks, and nobody answers on a box; add -y"),
    ("sky down -y toy", True, ""),
    ("sky down -y toy", False, "may delete the box"),
    (["dstack", "stop", "toy", "-y"], False, "may delete the box"),
    (["dstack", "stop", "toy"], True, "add -y"),
])  # fmt: skip
def test_the_end_of_skypilot_and_dstack_is_known(command, durable, why):
    more = {"durable": {"to": "/d", "what": ["out"]}} if durable else {}
    end = {"do": "run", "command": command}
    if why:
        with pytest.raises(Unfit, match=why):
            read("generic-ssh", "ssh", at_end=end, **more)
    else:
        keeps = read("generic-ssh", "ssh", at_end=end, **more).rendered.end.keeps_disk
        assert keeps == ("stop" in command)
    if "sky stop" not in " ".join(command if isinstance(command, list) else [command]):
        with pytest.raises(Unfit):
            read("generic-ssh", "ssh", at_end={**end, "keeps_disk": True}, **more)


def test_the_platforms_stop_stands_by_where_the_jobs_own_command_may_not_run():
    durable = {"to": "/d", "what": ["out"]}
    rendered = read("autodl", "ssh", at_end=RUN, durable=durable).rendered
    assert (rendered.end.command, rendered.stop.command) == ("p", "/usr/bin/shutdown")
    assert not rendered.end.keeps_disk
    assert read("lambda", "ssh", at_end=RUN, durable=durable).rendered.stop.command == ""
    assert read("autodl", "ssh", at_end={"do": "stop"}).rendered.end.keeps_disk
