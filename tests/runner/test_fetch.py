"""What comes to the box before the program: data, and checkpoints of this run."""

import shutil
import subprocess
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import durable, fetch, procs, sync
from remote_gpu_trainer.runner.context import Run

from tests.runner.copying import events, fill, make, tool, without

pytest_plugins = ["tests.engines.sshd"]


def whole(monkeypatch) -> None:
    """Take the newest file of the pattern for the newest whole checkpoint: its content is no matter here."""

    def newest(run: Run, beat=None):
        from remote_gpu_trainer.runner.checkpoints import Checkpoint

        found = sorted(Path(run.checkpoints).glob("step-*.pt"), key=lambda path: int(path.stem[5:]))
        return Checkpoint(str(found[-1]), int(found[-1].stem[5:]), "") if found else None

    monkeypatch.setattr("remote_gpu_trainer.runner.checkpoints.newest", newest)


@pytest.fixture(autouse=True)
def _whole(monkeypatch):
    whole(monkeypatch)


def restore(run: Run):
    return fetch.restore(run, lambda: False)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("step-*"))


def another_box(tmp_path: Path, **fields) -> Run:
    """The same job where nothing is left but the durable place."""
    shutil.rmtree(tmp_path / "run")
    shutil.rmtree(tmp_path / "ckpt")
    return make(tmp_path, **fields)


def test_a_new_box_takes_the_checkpoints_from_the_durable_place(tmp_path):
    run = make(tmp_path)
    fill(tmp_path, 10, 20)
    assert sync.worker(run, "quick") == 0
    run = another_box(tmp_path)
    assert restore(run) is None
    assert names(tmp_path / "ckpt") == ["step-10.pt", "step-20.pt"]
    assert events(run, "restored")[0]["checkpoint"].endswith("step-20.pt")


def test_a_first_run_has_nothing_to_restore_and_does_not_wait(tmp_path):
    run = make(tmp_path)
    begun = run.up
    assert restore(run) is None and run.up - begun < 1
    assert not events(run, "restore-failed")


def test_an_abandoned_line_is_told_and_not_restored(tmp_path):
    run = make(tmp_path)
    fill(tmp_path, 30, 40, 60)
    sync.worker(run, "quick")
    for step in (40, 60):
        (tmp_path / f"ckpt/step-{step}.pt").unlink()
    assert restore(run) is None and names(tmp_path / "ckpt") == ["step-30.pt"], "the user's will"
    fill(tmp_path, 31)
    sync.worker(run, "quick")
    assert names(tmp_path / "durable/ckpt") == [
        "step-30.pt",
        "step-31.pt",
        "step-40.pt",
        "step-60.pt",
    ]
    run = another_box(tmp_path)
    assert restore(run) is None
    assert names(tmp_path / "ckpt") == ["step-30.pt", "step-31.pt"]
    assert events(run, "abandoned")[0]["names"] == "step-40.pt, step-60.pt"


def test_a_box_with_an_old_disk_takes_what_another_box_went_on_to(tmp_path):
    run = make(tmp_path)
    fill(tmp_path, 10, 20)
    sync.worker(run, "quick")
    shutil.copytree(tmp_path / "ckpt", tmp_path / "old disk")
    fill(tmp_path, 30)
    sync.worker(run, "quick")
    shutil.rmtree(tmp_path / "ckpt")
    (tmp_path / "old disk").rename(tmp_path / "ckpt")
    assert restore(run) is None
    assert names(tmp_path / "ckpt") == ["step-10.pt", "step-20.pt", "step-30.pt"]


def test_checkpoints_of_another_run_are_refused(tmp_path):
    run = make(tmp_path)
    fill(tmp_path, 500)
    sync.worker(run, "quick")
    verdict = restore(another_box(tmp_path, name="another"))
    assert verdict and "are of the run 'toy'" in verdict.reason
    assert not (tmp_path / "ckpt").exists()


def test_copies_of_an_earlier_release_come_back_too(tmp_path):
    fill(tmp_path, 10)
    (tmp_path / "durable").mkdir()
    (tmp_path / "ckpt").rename(tmp_path / "durable/ckpt")
    assert restore(make(tmp_path)) is None
    assert names(tmp_path / "ckpt") == ["step-10.pt"]


def test_checkpoints_inside_a_copied_folder_come_back_too(tmp_path):
    fields = {
        "durable_what": [str(tmp_path / "out")],
        "checkpoint_folder": str(tmp_path / "out/ckpt"),
    }
    run = make(tmp_path, **fields)
    fill(tmp_path, 10)
    (tmp_path / "out").mkdir()
    (tmp_path / "ckpt").rename(tmp_path / "out/ckpt")
    sync.worker(run, "quick")
    shutil.rmtree(tmp_path / "out")
    assert restore(run) is None and names(tmp_path / "out/ckpt") == ["step-10.pt"]


def test_a_place_that_does_not_answer_is_no_reason_to_begin_again(tmp_path, monkeypatch):
    tool(tmp_path, "ssh", "#!/bin/sh\nexit 255\n", monkeypatch)
    run = make(tmp_path, durable="gpu:/kept")
    verdict = restore(run)
    assert verdict and verdict.failure == "network" and "can't be looked for" in verdict.reason
    fill(tmp_path, 10)
    assert restore(run) is None, "those here are used"


def test_data_come_to_the_work_folder(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a b.txt").write_text("numbers")
    pairs = [
        [str(tmp_path / "data"), "data here"],
        [str(tmp_path / "data/a b.txt"), "one/renamed.txt"],
    ]
    run = make(tmp_path, data=pairs)
    assert fetch.data(run, lambda: False) is None
    assert (tmp_path / "run/data here/a b.txt").read_text() == "numbers"
    assert (tmp_path / "run/one/renamed.txt").read_text() == "numbers"
    verdict = fetch.data(make(tmp_path, data=[[str(tmp_path / "nowhere"), "x"]]), lambda: False)
    assert (
        verdict
        and verdict.failure == "network"
        and f"staging {tmp_path}/nowhere failed" in verdict.reason
    )
    assert len(events(run, "stage-failed")) == 3


def test_data_come_without_rsync(tmp_path, monkeypatch):
    without("rsync", tmp_path, monkeypatch)
    test_data_come_to_the_work_folder(tmp_path)


def test_a_full_disk_is_told_as_one(tmp_path, monkeypatch):
    tool(tmp_path, "rsync", "#!/bin/sh\necho No space left on device >&2\nexit 11\n", monkeypatch)
    (tmp_path / "data").mkdir()
    verdict = fetch.data(make(tmp_path, data=[[str(tmp_path / "data"), "x"]]), lambda: False)
    assert verdict and verdict.failure == "disk" and verdict.reason.endswith("no room left")


def test_a_stop_ends_a_copy_with_its_children(tmp_path, monkeypatch):
    tool(tmp_path, "rsync", f"#!/bin/sh\ntouch {tmp_path}/began\nsleep 100\n", monkeypatch)
    (tmp_path / "data").mkdir()
    run = make(tmp_path, data=[[str(tmp_path / "data"), "x"]])
    assert fetch.data(run, (tmp_path / "began").exists) is None
    assert not procs.of_program(run.folder)


def test_a_copy_that_hangs_is_made_another_way(tmp_path, monkeypatch):
    tool(tmp_path, "rsync", "#!/bin/sh\nsleep 100\n", monkeypatch)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.txt").write_text("a")
    run = make(tmp_path, data=[[str(tmp_path / "data"), "x"]], timings={"copy_quiet": 10.0})
    assert fetch.data(run, lambda: bool(run.clock.nap(0.5))) is None
    assert (tmp_path / "run/x/a.txt").exists()
    assert "no progress for 10 s" in events(run, "stage-failed")[0]["why"]


@pytest.mark.parametrize("way", ["rsync", "without"])
def test_checkpoints_and_data_come_over_ssh(tmp_path, monkeypatch, sshd, way):
    real = subprocess.run(
        ["which", "ssh"], capture_output=True, text=True, check=True
    ).stdout.strip()
    tool(tmp_path, "ssh", f'#!/bin/sh\nexec {real} -F {sshd.ssh_config} "$@"\n', monkeypatch)
    if way == "without":
        without("rsync", tmp_path, monkeypatch)
    fields = {
        "durable": "gpu:~/it's",
        "data": [["gpu:~/it's/ckpt", "in"], ["gpu:~/it's/final.bin", "one.bin"]],
    }
    run = make(tmp_path, **fields)
    fill(tmp_path, 10, 20)
    assert sync.worker(run, "quick") == 0
    (Path(sshd.home) / "it's/ckpt/step-10.pt").unlink()
    run = another_box(tmp_path, **fields)
    assert durable.check(run) == [] and restore(run) is None
    assert names(tmp_path / "ckpt") == ["step-20.pt"]
    assert fetch.data(run, lambda: False) is None
    assert (
        names(tmp_path / "run/in") == ["step-20.pt"]
        and (tmp_path / "run/one.bin").stat().st_size == 700
    )
