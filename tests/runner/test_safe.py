"""What of a run is safe elsewhere."""

from __future__ import annotations

import os
import zipfile

from remote_gpu_trainer.runner import sync
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.safe import judged_now, look_safe
from remote_gpu_trainer.runner.spec import of


def _run(tmp_path, **fields) -> Run:
    usual = {"run_dir": str(tmp_path / "run"), "checkpoint_folder": "out"}
    run = Run(of({**usual, "checkpoint_pattern": "step_*.pt", **fields}))
    run.folder.make()
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
    found = look_safe(run)
    assert (found.newest, found.newest_step) == (whole, 5)
    os.unlink(whole)
    assert look_safe(run).newest == ""
    assert look_safe(run).nothing_complete


def test_safe_is_what_is_complete_and_verified_there(tmp_path):
    fields = {"durable": str(tmp_path / "keep"), "durable_what": ["out"], "results": ["final.*"]}
    run = _run(tmp_path, durable_on_this_box=True, **fields)
    _save(run, 5)
    assert not look_safe(run).is_all_safe
    assert sync.worker(run, "quick") == 0
    found = look_safe(run)
    assert found.verified.startswith(str(tmp_path / "keep/out.generations/gen-1-5-"))
    assert (found.verified_step, found.results_missing) == (5, ["final.*"])
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


def test_a_path_is_judged_at_the_moment_in_which_it_is_named(tmp_path):
    run = _run(tmp_path)
    path = _save(run, 5)
    assert judged_now(run, path) == path
    _save(run, 5, cut=500)
    assert judged_now(run, path) == ""
    os.unlink(path)
    assert judged_now(run, path) == judged_now(run, "") == ""
