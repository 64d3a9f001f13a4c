"""Preflight: what it refuses, with the entry and the reason, and what it lets pass."""

import json
import os
import time

import pytest
from remote_gpu_trainer.runner import procs, verbs
from remote_gpu_trainer.runner.context import Run

from tests.runner.box import Box
from tests.runner.jobs import job_of, merged

pytest_plugins = ["tests.runner.box"]


def plain(box: Box, spec: dict | None = None, **fields) -> Box:
    """A box of no platform that has entries of its own."""
    usual = {"command": ["true"], "results": [], "python": "/usr/bin/python3", "target": "ssh"}
    return box.make(**{**usual, **fields}, spec=merged({"rendered": {"profile": ""}}, spec or {}))


def refusals(box: Box, *words: str) -> list[str]:
    done = box.verb("preflight", *words)
    assert (done.returncode == 0) == (not done.stdout), done.stdout + done.stderr
    return done.stdout.splitlines()


def test_a_healthy_box_is_refused_nothing(box: Box):
    assert refusals(plain(box), "--sent-at", str(int(time.time()) - 20)) == []


def test_too_little_room_is_refused_in_numbers(box: Box):
    said = refusals(
        plain(box, spec={"floors": {"free_gb": 10**6}, "rendered": {"profile": "vastai"}})
    )
    assert (
        len(said) == 2
        and said[0].startswith(f"refused VAST10 the run folder {box.run_dir} has ")
        and said[0].endswith("MB free, expected 1000000000 MB")
    )


@pytest.mark.parametrize(("floor", "entry"), [("free_gb", "U6"), ("free_inodes", "U7")])
def test_a_platform_without_an_entry_of_its_own_gets_the_one_for_all(box: Box, floor, entry):
    said = refusals(plain(box, floors={floor: 10**9}))
    assert said and all(line.startswith(f"refused {entry} ") for line in said)


def test_a_refused_start_says_why_and_leaves_a_failed_marker(box: Box):
    plain(box, spec={"floors": {"free_gb": 10**6}, "rendered": {"profile": "autodl"}})
    done = box.verb("start")
    assert done.returncode == 78 and done.stderr.startswith("refused AD5 the run folder")
    marker = box.marker("failed")
    assert (marker["class"], marker["entry"], marker["exit"]) == ("disk", "AD5", None)
    assert not box.events("attempt")


def test_a_refused_resume_leaves_a_stopped_run_as_it_was(box: Box):
    box.make("--steps", 4000, "--sleep", 0.05).start()
    box.at_step(5)
    assert box.verb("stop").returncode == 0
    before = box.status()
    assert before["phase"] == "preempted" and before["step"] and before["checkpoint"]
    box.make("--steps", 4000, "--sleep", 0.05, spec={"floors": {"free_gb": 10**6}})
    done = box.verb("resume")
    assert done.returncode == 78 and "refused" in done.stderr and "MB free" in done.stderr
    after = box.status()
    kept = ("phase", "attempt", "step", "reason", "checkpoint", "checkpoint_step", "numbers")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    assert not after["alive"] and box.marker("preempted")["reason"] == "asked"


def test_a_refusal_is_told_where_no_file_can_hold_it(box: Box):
    plain(box, spec={"floors": {"free_gb": 10**6}})
    (box.run_dir / "log").mkdir(parents=True)
    (box.run_dir / "log/runner.log").symlink_to("/dev/full")
    done = box.verb("start")
    assert done.returncode == 78 and done.stderr.startswith("refused U6 the run folder")
    assert "has less room than floors.free_gb: " in done.stderr


@pytest.mark.parametrize(("phase", "is_past"), [
    ("failed", False),  # an earlier start's, where a full disk keeps the old state
    ("preflight", False),
    ("staging", True),
    ("running", True),
])  # fmt: skip
def test_a_start_waits_until_its_own_checks_are_over(tmp_path, phase, is_past):
    run = Run(job_of({"run_dir": str(tmp_path)}))
    procs.note_pid(run.folder, "runner", os.getpid())
    run.folder.write("state.json", json.dumps({"phase": phase}))
    assert verbs._is_past_checks(run) is is_past
    run.folder.touch(".failed")
    assert verbs._is_past_checks(run)


def test_a_start_whose_run_folder_says_nothing_tells_what_the_runner_said(box: Box):
    plain(box, spec={"deadline": "at:1"})
    (box.run_dir / "log").mkdir(parents=True)
    (box.run_dir / "log/runner.log").symlink_to("/dev/full")
    done = box.verb("start")
    assert done.returncode == 78 and "toy: its deadline ran out" in done.stderr


@pytest.mark.parametrize("platform", ["generic-ssh", "runpod"])
def test_a_refused_start_leaves_no_process_on_a_billed_box(box: Box, platform):
    plain(box, platform=platform, floors={"free_gb": 10**6})
    assert box.verb("start").returncode == 78
    box.until(lambda: not box.processes(), timeout=15, what="somebody lives on")


def test_a_refused_start_says_that_the_box_is_ended_at_its_deadline(box: Box):
    end = {"do": "run", "command": "true", "keeps_disk": True}
    plain(box, platform="generic-ssh", floors={"free_gb": 10**6}, at_end=end)
    done = box.verb("start")
    assert "the end command still runs at the deadline; bash " in done.stderr
    assert box.processes()
    assert "its alarm and its end command are off" in box.verb("stop").stdout
    box.until(lambda: not box.processes(), timeout=15, what="somebody lives on")


def test_an_environment_is_installed_once_and_its_failure_ends_the_start(box: Box):
    plain(
        box, spec={"rendered": {"install": ["bash", "-c", f"echo installed >> {box.folder}/setup"]}}
    )
    assert box.verb("run").returncode == 0
    box.start("resume")
    box.wait("done")
    assert (box.folder / "setup").read_text() == "installed\n"
    plain(
        box,
        spec={
            "rendered": {
                "install": ["bash", "-c", "echo 'Temporary failure in name resolution'; exit 3"]
            }
        },
    )
    box.verb("resume")
    marker = (box.wait("failed"), box.marker("failed"))[1]
    assert (
        marker["class"] == "network"
        and marker["reason"].startswith("environment: ")
        and marker["exit"] == 3
    )
