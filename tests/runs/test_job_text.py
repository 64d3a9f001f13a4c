"""A job and a platform as the fields that the runner reads."""

from __future__ import annotations

import pytest
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.runner import spec
from remote_gpu_trainer.runs import job_text
from remote_gpu_trainer.runs.job_reading import from_object
from remote_gpu_trainer.runs.job_text import Unfit

LEAST = {"name": "a", "command": ["python", "train.py"], "deadline": "2h"}


def fields(platform: str = "local", target: str = "local", **more) -> dict:
    job = from_object({**LEAST, **more})
    read = job_text.spec_of(
        job, profile.get(platform), target, "1", "abc", ("~/runs/a", "~/runs/a")
    )
    spec.of(read)  # refuses a field that the runner doesn't know
    return read


def test_a_least_job_says_nothing_but_the_runners_defaults():
    read = fields(gpus=0)
    given = {
        "version", "job_sha", "profile", "name", "run_dir", "work_dir", "command", "deadline",
        "min_free_mb", "min_free_inodes", "stall_log_seconds", "probe",
    }  # fmt: skip
    assert {name for name, value in read.items() if value != spec.DEFAULTS[name]} == given


@pytest.mark.parametrize("given, read", [
    ({"command": "python3 a.py && python b.py", "python": "/venv/bin/python"}, "/venv/bin/python a.py && python b.py"),
    ({"command": "python a.py", "python": "/a b/python"}, "'/a b/python' a.py"),
    ({"command": "python a.py"}, "python a.py"), ({"command": ["python", "a.py"], "python": "/v/python"}, ["/v/python", "a.py"]),
    ({"command": ["x", "python"], "python": "/v/python"}, ["x", "python"]),
])  # fmt: skip
def test_a_named_interpreter_takes_the_place_of_a_first_python(given, read):
    assert fields(**given)["command"] == read


def test_an_interpreter_in_a_home_folder_is_refused():
    with pytest.raises(Unfit, match="python: nothing reads the ~"):
        fields(python="~/venv/bin/python")


@pytest.mark.parametrize("resume, way, name", [
    ("automatic", "automatic", ""), ("none", "none", ""), ({"flag": "--resume"}, "flag", "--resume"), ({"variable": "CKPT"}, "variable", "CKPT"),
])  # fmt: skip
def test_each_way_to_resume(resume, way, name):
    read = fields(resume=resume)
    assert (read["resume"], read["resume_name"]) == (way, name)


@pytest.mark.parametrize("minutes, seconds", [(None, 30), (0.05, 3), (15, 900), (0, 0)])
def test_copies_are_made_at_any_interval(minutes, seconds):
    more = {} if minutes is None else {"every_minutes": minutes}
    read = fields(durable={"to": "/d", "what": ["out"], "on_this_box": True, **more})
    assert read["durable_seconds"] == pytest.approx(seconds)
    assert read["durable_on_this_box"] is True


def test_the_files_of_one_checkpoint_are_passed_on():
    read = fields(checkpoint={"folder": "out", "files": ["optim_*.pt", "args.json"]})
    assert read["checkpoint_files"] == ["optim_*.pt", "args.json"]


@pytest.mark.parametrize("end, platform, do, command, needs", [
    ({}, "runpod", "keep", "", ""),
    ({"do": "stop"}, "autodl", "run", "/usr/bin/shutdown", ""),
    ({"do": "stop"}, "lambda", "keep", "", ""),  # its only stop deletes
    ({"do": "run", "command": ["p", "$(x)"]}, "local", "run", ["p", "$(x)"], ""),
    ({"do": "run", "command": "p $A_KEY", "credential": {"file": "~/k"}}, "local", "run", "p $A_KEY", "A_KEY=~/k"),
    ({"do": "run", "command": ["p", "x"], "credential": {"file": "~/k"}}, "local", "run", ["p", "x"], "RGT_STOP_KEY=~/k"),
    ({"do": "run", "command": "p", "credential": {"variable": "TOKEN_OF_MINE"}}, "local", "run", "p", "TOKEN_OF_MINE"),
])  # fmt: skip
def test_what_ends_the_box_is_one_command(end, platform, do, command, needs):
    if end.get("do") == "run":
        end = {**end, "keeps_disk": True}
    read = fields(platform, "ssh", at_end=end)
    assert (read["end_do"], read["end_command"], read["end_needs"]) == (do, command, needs)
    assert read["end_when"] == ["done", "failed", "deadline"]


@pytest.mark.parametrize("platform, target, spot, billed", [
    ("runpod", "ssh", False, True), ("runpod", "local", False, True), ("generic-ssh", "ssh", False, True), ("generic-ssh", "local", False, True),
    ("local", "local", False, False), ("slurm", "slurm", False, False), ("kubernetes", "kubernetes", False, False),
    ("aws", "skypilot", False, True), ("aws", "skypilot", True, False),
])  # fmt: skip
def test_a_rented_box_is_billed_whatever_renders_it(platform, target, spot, billed):
    more = {"kubernetes": {"image": "x"}, "skypilot": {"accelerator": "H100", "spot": spot}}
    assert fields(platform, target, **more)["billed"] is billed


def test_secrets_are_places_only():
    read = fields(secrets={"A": {"file": "~/a"}, "B": {"variable": "BOX_B"}})
    assert (read["secret_files"], read["secret_variables"]) == ({"A": "~/a"}, {"B": "BOX_B"})


@pytest.mark.parametrize("nodes, asks", [(1, True), (2, False)])
def test_of_several_nodes_none_asks_for_its_queue_again(nodes, asks):
    more = {"nodes": nodes, "launcher": "torchrun"} if nodes > 1 else {}
    assert fields("slurm", "slurm", **more)["requeue"] is asks


RUN = {"do": "run", "command": "p"}


@pytest.mark.parametrize("end, durable, is_fine", [
    (RUN, False, False), (RUN, True, True), ({**RUN, "keeps_disk": True}, False, True),
    ({**RUN, "when": ["done", "unsaved"]}, False, True), ({"do": "stop"}, False, True), ({}, False, True),
])  # fmt: skip
def test_a_command_that_may_delete_is_refused_where_nothing_is_copied(end, durable, is_fine):
    more = {"durable": {"to": "/d", "what": ["out"]}} if durable else {}
    if is_fine:
        fields("runpod", "ssh", at_end=end, **more)
        return
    with pytest.raises(Unfit, match="at_end: its command may delete the box"):
        fields("runpod", "ssh", at_end=end, **more)


def test_the_platforms_stop_stands_by_where_the_jobs_own_command_may_not_run():
    durable = {"to": "/d", "what": ["out"]}
    read = fields("autodl", "ssh", at_end={**RUN, "unproven_minutes": 5}, durable=durable)
    assert (read["end_command"], read["end_stop"]) == ("p", "/usr/bin/shutdown")
    assert read["end_limit_seconds"] == 300 and not read["end_keeps_disk"]
    assert fields("lambda", "ssh", at_end=RUN, durable=durable)["end_stop"] == ""
    assert fields("autodl", "ssh", at_end={"do": "stop"})["end_keeps_disk"]
