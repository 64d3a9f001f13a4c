"""What users of other tools lost money and days by: a field that was ignored, a failure shown as success, a silent guard."""

import asyncio
import os
import subprocess
import typing
from datetime import date

import pytest
from pydantic import BaseModel
from remote_gpu_trainer.mcp_server.server import make_server
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.runs.job import Job
from remote_gpu_trainer.runs.job_errors import JobError
from remote_gpu_trainer.runs.job_reading import from_object
from remote_gpu_trainer.runs.render import render

from tests.conftest import read_yaml
from tests.programs import rgt
from tests.runner.box import Box
from tests.runs.test_status import said

pytest_plugins = ["tests.runner.box"]

JOB = {"name": "a", "command": ["python", "t.py"], "deadline": "2h"}


def models(model: type[BaseModel], path: tuple = ()) -> list[tuple[tuple, type[BaseModel]]]:
    """The model, and all below it, each with the fields that lead to it."""

    def inside(kind):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return [kind]
        return [found for part in typing.get_args(kind) for found in inside(part)]

    found = [(path, model)]
    for name, field in model.model_fields.items():
        for kind in inside(field.annotation):
            found += models(kind, (*path, name))
    return found


JOBS, PROFILES = models(Job), models(profile.Profile)


@pytest.mark.parametrize("path", sorted({path for path, _ in JOBS}), ids=".".join)
def test_a_misspelt_field_of_a_job_is_refused_by_its_name_at_any_depth(path):
    job: dict = {**JOB}
    at = job
    for name in path:
        at[name] = {} if name not in ("data", "cells", "secrets") else at.get(name, {})
        at = at[name]
    at["timeoutSecnds"] = 1
    for listed in ("data", "cells"):  # their items are what has fields
        if listed in path:
            job = {**JOB, "data": [at]} if listed == "data" else {**JOB, "queue": {"cells": [at]}}
    if "tolerations" in path:
        job = {**JOB, "kubernetes": {"image": "x", "tolerations": [at]}}
    if path == ("secrets",):
        job = {**JOB, "secrets": {"HF_TOKEN": {"variable": "HF_TOKEN", "timeoutSecnds": 1}}}
    with pytest.raises(JobError, match="timeoutSecnds: unknown field"):
        from_object(job)


@pytest.mark.parametrize("model", dict.fromkeys(m for _, m in PROFILES), ids=lambda m: m.__name__)
def test_a_misspelt_fact_of_a_platform_is_refused(model):
    with pytest.raises(ValueError, match="timeoutSecnds"):
        model.model_validate({"timeoutSecnds": 1})


def test_a_misspelt_option_or_argument_is_refused_and_nothing_is_rendered():
    options = [option for name, value in JOB.items() for option in ("--set", f"{name}={value}")]
    done = rgt("render", *options, "--set", "dedline=3h")
    assert (done.returncode, done.stdout) == (2, "")
    assert "dedline: unknown field" in done.stderr
    call = make_server().call_tool("render_run_script", {"job": JOB, "timeoutSeconds": 60})
    answer = asyncio.run(call)
    assert answer.is_error and "unknown argument 'timeoutSeconds'" in answer.content[0].text


@pytest.mark.parametrize(
    "says",
    [
        {"exit": 1},
        {"exit": 137, "class": "killed"},
        {"exit": 0, "class": "bug"},
        {"exit": 0, "expect_missing": ["out/final.pt"]},
    ],
)
def test_a_run_that_failed_is_never_told_as_finished(says):
    """A full disk may leave the marker of one end and the state of another."""
    found = said(phase="done", alive=False, **says)
    assert (found.state, found.code) == ("failed", 1)


FIRST = "echo 'Watchdog caught collective operation timeout'; exit 1"
SECOND = "echo 'Traceback (most recent call last)'; exit 3"
CHANGING = 'if [ "$RGT_ATTEMPT" = 1 ]; then {}; fi; {}'


def run(box: Box, first: str, second: str):
    box.make(
        command=["bash", "-c", CHANGING.format(first, second)],
        results=[],
        checkpoint=None,
        notify=["tee", "-a", str(box.folder / "notices")],
    )
    return box.verb("run")


def test_the_original_failure_is_reported_and_not_that_of_its_retry(box: Box):
    done = run(box, FIRST, SECOND)
    now = box.status()
    assert (now["class"], now["entry"], now["exit"], done.returncode) == ("hang", "D20", 1, 1)
    assert now["reason"] == (
        "a collective operation timed out; then bug: the program failed with exit status 3"
        "; the same failure at the same step twice, with no newer checkpoint between"
    )
    assert box.marker("failed")["class"] == "hang"
    box.until(lambda: (box.folder / "notices").exists() and "timed out" in notices(box))
    assert "failed: a collective operation timed out" in notices(box)
    assert "done" not in notices(box)


def notices(box: Box) -> str:
    return (box.folder / "notices").read_text()


def test_a_retry_that_comes_further_and_fails_then_has_a_failure_of_its_own(box: Box):
    done = run(box, f"echo step 5; {FIRST}", f"echo step 90; {SECOND}")
    now = box.status()
    assert (now["class"], now["exit"], done.returncode) == ("bug", 3, 3)


def test_a_retry_that_succeeds_leaves_no_failure(box: Box):
    done = run(box, FIRST, "exit 0")
    assert (done.returncode, box.status()["class"], box.status()["phase"]) == (0, "", "done")


@pytest.mark.parametrize(
    "command, says",
    [
        ("false", "its end command failed with exit status 1"),
        ("true", "still on after its end command"),
    ],
    ids=["failed", "accepted, and the box is still on"],
)
def test_a_box_that_its_end_command_did_not_end_is_told_and_tried_again(box: Box, command, says):
    box.make(
        command=["true"],
        results=[],
        checkpoint=None,
        target="ssh",
        platform="generic-ssh",
        at_end={
            "do": "run",
            "keeps_disk": True,
            "command": f"echo x >>{box.folder}/tries; {command}",
        },
        notify=["tee", "-a", str(box.folder / "notices")],
    )
    box.start()
    box.until(lambda: (box.folder / "notices").exists() and says in notices(box), what="no alarm")
    box.until(lambda: (box.folder / "tries").read_text().count("x") >= 2, what="no second try")
    assert "the box stays on" in box.verb("stop").stdout
    box.until(lambda: not box.processes(), what="somebody still tries")


@pytest.mark.parametrize("target", ["skypilot", "kubernetes"])
def test_the_code_of_a_failed_program_is_what_the_engine_is_told(target, tmp_path):
    """Slurm's own verdict: test_slurm_run.py."""
    fields = {"skypilot": {}, "kubernetes": {"kubernetes": {"image": "a", "claim": "work"}}}
    job = {**JOB, "command": ["bash", "-c", "exit 7"], "gpus": 0, **fields[target]}
    made = render(from_object(job), profile.get("generic-ssh"), target, date(2026, 11, 25)).script
    parts = read_yaml(made)
    if target == "skypilot":
        script = parts[0]["run"]
    else:
        script = next(part["data"]["run.sh"] for part in parts if part["kind"] == "ConfigMap")
        pod = next(part for part in parts if part["kind"] == "Job")["spec"]["template"]["spec"]
        command = pod["containers"][0]["command"]
        assert (command[0], command[-1]) == ("bash", "run"), "no shell between that hides the code"
        mount = pod["containers"][0]["volumeMounts"]
        claim = next(m["mountPath"] for m in mount if "claim" in str(m) or m["name"] == "work")
        script = script.replace(claim, str(tmp_path))
    (tmp_path / "run.sh").write_text(script)
    env = {k: v for k, v in os.environ.items() if not k.startswith("RGT_")} | {
        "HOME": str(tmp_path)
    }
    words = [] if target == "skypilot" else ["run"]
    done = subprocess.run(
        ["bash", str(tmp_path / "run.sh"), *words],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 7, done.stderr.decode()
