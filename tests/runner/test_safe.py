"""What of a run is safe elsewhere."""

from __future__ import annotations

import os
import zipfile

import pytest
from remote_gpu_trainer.runner import sync
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.safe import look_safe, name_if_usable

from tests.runner.jobs import job_of

from .clocks import Clock


def _run(tmp_path, clock=None, **fields) -> Run:
    usual = {"rendered": {"run_dir": str(tmp_path / "run")}, "checkpoint": {"folder": "out"}}
    run = Run(job_of(usual, {"checkpoint": {"pattern": "step_*.pt"}}, fields), clock=clock)
    run.folder.make()
    if run.checkpoints:
        os.makedirs(run.checkpoints, exist_ok=True)
    return run


def _save(run: Run, step: int, cut: int = 0) -> str:
    path = os.path.join(run.checkpoints, f"step_{step}.pt")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "x" * 1000)
    if cut:
        os.truncate(path, cut)
    return path


def test_a_corrupt_checkpoint_is_never_named(tmp_path):
    run = _run(tmp_path)
    whole = _save(run, 5)
    _save(run, 10, cut=500)
    assert look_safe(run).newest == whole
    os.unlink(whole)
    assert look_safe(run).newest == ""


def test_safe_is_what_is_complete_and_verified_there(tmp_path):
    fields = {
        "durable": {"to": str(tmp_path / "keep"), "what": ["out"], "on_this_box": True},
        "results": ["final.*"],
    }
    run = _run(tmp_path, **fields)
    _save(run, 5)
    assert not look_safe(run).is_all_safe
    assert sync.worker(run, "quick") == 0
    found = look_safe(run)
    assert found.verified.startswith(str(tmp_path / "keep/out.generations/gen-1-5-"))
    assert found.results_missing == ["final.*"]
    assert not found.is_all_safe, "the result isn't there"
    result = tmp_path / "run/final.json"
    result.write_text("{}")
    assert sync.worker(run, "quick") == 0
    assert look_safe(run).is_all_safe
    assert (tmp_path / "keep/final.json").read_text() == "{}", "durable.what doesn't name it"
    _save(run, 10)
    assert not look_safe(run).is_all_safe, "the newest complete one is here alone"
    _save(run, 10, cut=500)
    assert look_safe(run).is_all_safe, "what is corrupt is no loss"
    result.write_text("{} ")
    assert look_safe(run).results_missing == ["final.*"], "it was written anew"


def _train(run: Run, step: int | str = "", failure: str = "", seconds: int = 5) -> None:
    """Write down an attempt that came to this step, and its class."""
    run.event("attempt", attempt=1)
    run.clock.nap(seconds)
    run.event("ended", attempt=1, step=step, **{"class": failure})


@pytest.mark.parametrize(
    ("attempt", "fields", "is_lost"),
    [
        ({"step": 36}, {}, True),
        ({}, {}, True),  # it came to its end, and printed no step
        ({"step": 36, "failure": "bug"}, {}, True),
        ({"failure": "deadline"}, {}, True),
        ({"failure": "killed", "seconds": 3600}, {}, True),
        ({"failure": "bug"}, {}, False),  # at once, before any step
        ({"step": 0, "failure": "bug"}, {}, False),
        ({"step": 36}, {"results": ["final.json"]}, False),  # it is there, and proven
        ({"step": 36}, {"results": ["model.pt"]}, True),
        ({"step": 36}, {"checkpoint": {"folder": "", "pattern": ""}}, False),
    ],
)
def test_an_empty_checkpoint_folder_is_no_proof_once_the_program_trained(
    tmp_path, attempt, fields, is_lost
):
    durable = {"to": str(tmp_path / "keep"), "what": ["out"], "on_this_box": True}
    run = _run(tmp_path, Clock(), durable=durable, **fields)
    (tmp_path / "run/out").mkdir(exist_ok=True)
    (tmp_path / "run/final.json").write_text("{}")
    _train(run, **attempt)
    run.folder.mark("failed", {})
    code = sync.worker(run, "full")
    last = run.folder.json("own/last-sync")
    assert bool(look_safe(run).unseen) is bool(code) is is_lost
    assert last["verified"] is not is_lost and run.folder.has("own/final-sync") is not is_lost
    if is_lost:
        assert f"was ever seen in {run.checkpoints}" in last["why"]
        assert not look_safe(run).is_newest_safe


def test_what_was_copied_was_seen_also_where_nobody_can_judge_it(tmp_path):
    durable = {"to": str(tmp_path / "keep"), "what": ["out"], "on_this_box": True}
    run = _run(tmp_path, durable=durable)
    with open(os.path.join(run.checkpoints, "step_5.pt"), "wb") as file:
        file.write(b"\x07" * 1000)
    _train(run, 36, seconds=0)
    assert look_safe(run).unseen
    assert sync.worker(run, "full") == 0
    known = run.folder.json("own/copies.json")["known"]
    assert [told["state"] for told in known.values()] == ["unknown"]
    assert not look_safe(run).unseen and run.folder.json("own/last-sync")["verified"]


def test_a_path_is_judged_at_the_moment_in_which_it_is_named(tmp_path):
    run = _run(tmp_path)
    path = _save(run, 5)
    assert name_if_usable(run, path) == path
    _save(run, 5, cut=500)
    assert name_if_usable(run, path) == ""
    os.unlink(path)
    assert name_if_usable(run, path) == name_if_usable(run, "") == ""
