"""What of a run is safe elsewhere."""

from __future__ import annotations

import json
import os
import time
import zipfile

from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.safe import look_safe
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


def test_what_is_here_alone_is_not_safe(tmp_path):
    run = _run(tmp_path, durable=str(tmp_path / "keep"), durable_what=["out"])
    _save(run, 5)
    assert not look_safe(run).is_all_safe
    run.folder.write("final-sync", json.dumps({"t": int(time.time())}))
    assert look_safe(run).is_all_safe
