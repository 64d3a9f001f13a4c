"""What comes to the box before the program: data, and checkpoints of this run."""

import shutil
import subprocess
import zipfile
from pathlib import Path

from remote_gpu_trainer.runner import durable, fetch, procs, safe, sync
from remote_gpu_trainer.runner.context import Run

from tests.runner.copying import events, fill, kept, kept_steps, make, same_size, tool

pytest_plugins = ["tests.engines.sshd"]


def restore(run: Run):
    return fetch.restore(run, lambda: False)


def zipped(folder: Path, *steps: int) -> None:
    """Write checkpoints that can be proven complete, each newer than the one before."""
    (folder / "ckpt").mkdir(exist_ok=True)
    (folder / "run").mkdir(exist_ok=True)
    (folder / "run/final.bin").write_bytes(b"the end")
    for step in steps:
        with zipfile.ZipFile(folder / f"ckpt/step-{step}.pt", "w") as archive:
            archive.writestr("data", bytes([step]) * 1000)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("step-*"))


def another_box(tmp_path: Path, **fields) -> Run:
    """The same job where nothing is left but the durable place."""
    shutil.rmtree(tmp_path / "run")
    if (tmp_path / "ckpt").exists() and not fields.pop("keep", False):
        shutil.rmtree(tmp_path / "ckpt")
    return make(tmp_path, **fields)


def test_a_new_box_takes_the_checkpoints_from_the_durable_place(tmp_path):
    run = make(tmp_path)
    fill(tmp_path, 10, 20)
    assert sync.worker(run, "quick") == 0
    run = another_box(tmp_path)
    assert restore(run) is None
    assert names(tmp_path / "ckpt") == ["step-20.pt"]
    assert (tmp_path / "ckpt/step-20.pt").read_bytes() == bytes([20]) * 2000
    assert events(run, "restored")[0]["checkpoint"] == "step-20.pt"


def test_a_first_run_has_nothing_to_restore_and_does_not_wait(tmp_path):
    run = make(tmp_path)
    begun = run.up
    assert restore(run) is None and run.up - begun < 1
    assert not events(run, "restore-failed")


def test_steps_that_their_user_deleted_are_not_restored(tmp_path):
    run = make(tmp_path)
    zipped(tmp_path, 30, 40, 60)
    sync.worker(run, "quick")
    for step in (40, 60):
        (tmp_path / f"ckpt/step-{step}.pt").unlink()
    assert restore(run) is None and names(tmp_path / "ckpt") == ["step-30.pt"], "the user's will"
    zipped(tmp_path, 31)
    sync.worker(run, "quick")
    assert kept_steps(tmp_path) == [30, 31, 40, 60]
    assert restore(another_box(tmp_path)) is None
    assert names(tmp_path / "ckpt") == ["step-31.pt"]


def test_a_corrupt_one_here_is_set_aside_for_the_complete_one_there(tmp_path):
    run = make(tmp_path, checkpoint={"pattern": "last.pt"})
    zipped(tmp_path, 0)
    path = (tmp_path / "ckpt/step-0.pt").rename(tmp_path / "ckpt/last.pt")
    right = path.read_bytes()
    assert sync.worker(run, "quick") == 0
    path.write_bytes(right[:500])
    assert sync.worker(run, "full") == 0, "nothing better is here"
    assert kept(tmp_path, "last.pt").read_bytes() == right
    assert restore(run) is None and path.read_bytes() == right
    assert (tmp_path / "ckpt/.corrupt/last.pt").read_bytes() == right[:500]


def test_a_generation_that_is_not_as_its_manifest_says_is_not_taken(tmp_path):
    zipped(tmp_path, 10)
    run = make(tmp_path, timings={"sync_wait": 0.1})
    assert sync.worker(run, "quick") == 0
    same_size(kept(tmp_path, "step-10.pt"))
    run = another_box(tmp_path, timings={"sync_wait": 0.1})
    verdict = restore(run)
    assert verdict and "isn't as its manifest says" in verdict.reason
    assert names(tmp_path / "ckpt") == []


def test_a_generation_that_was_damaged_gives_way_to_the_one_before(tmp_path):
    run = make(tmp_path)
    for step in (10, 20):
        zipped(tmp_path, step)
        assert sync.worker(run, "quick") == 0
    damaged = kept(tmp_path, "step-20.pt")
    damaged.write_bytes(damaged.read_bytes()[:500])
    run = another_box(tmp_path)
    assert durable.check(run) == [] and restore(run) is None
    assert names(tmp_path / "ckpt") == ["step-10.pt"]
    [told] = events(run, "generation-corrupt")
    assert "isn't as its manifest says" in told["why"] and damaged.exists()
    assert sync.worker(run, "full") == 0
    assert "/gen-1-10-" in safe.look_safe(run).verified
    note = (tmp_path / "durable/ckpt.generations/NEWEST").read_text()
    assert note.startswith("gen-1-10-") and "gen-1-20-" not in note


def test_a_box_with_an_old_disk_takes_what_another_box_went_on_to(tmp_path):
    run = make(tmp_path)
    zipped(tmp_path, 10, 20)
    sync.worker(run, "quick")
    for name in ("run", "ckpt"):
        shutil.copytree(tmp_path / name, tmp_path / f"old {name}")
    zipped(tmp_path, 30)
    sync.worker(another_box(tmp_path, keep=True), "quick")
    for name in ("run", "ckpt"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        (tmp_path / f"old {name}").rename(tmp_path / name)
    assert restore(make(tmp_path)) is None
    assert names(tmp_path / "ckpt") == ["step-10.pt", "step-20.pt", "step-30.pt"]


def test_a_new_disk_under_the_same_name_gets_all_that_the_old_one_had(tmp_path):
    run = make(tmp_path)
    fill(tmp_path, 10)
    assert sync.worker(run, "quick") == 0
    shutil.rmtree(tmp_path / "durable")
    (tmp_path / "durable").mkdir()
    run.folder.remove("own/place.json")  # as the refusal says
    assert durable.check(run) == [] and fetch.restore(run, lambda: False) is None
    assert sync.worker(run, "quick") == 0
    assert (tmp_path / "durable/final.bin").exists() and kept_steps(tmp_path) == [10]


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
        "durable": {"what": [str(tmp_path / "out")]},
        "checkpoint": {"folder": str(tmp_path / "out/ckpt")},
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
    run = make(tmp_path, durable={"to": "gpu:/kept"})
    verdict = restore(run)
    assert verdict and verdict.failure == "network" and "can't be looked for" in verdict.reason
    zipped(tmp_path, 10)
    assert restore(run) is None, "those here are used"


def test_data_come_to_the_work_folder(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a b.txt").write_text("numbers")
    pairs = [
        [str(tmp_path / "data"), "data here"],
        [str(tmp_path / "data/a b.txt"), "one/renamed.txt"],
    ]
    run = make(tmp_path, data=[{"from": source, "to": to} for source, to in pairs])
    assert fetch.data(run, lambda: False) is None
    assert (tmp_path / "run/data here/a b.txt").read_text() == "numbers"
    assert (tmp_path / "run/one/renamed.txt").read_text() == "numbers"
    verdict = fetch.data(
        make(tmp_path, data=[{"from": str(tmp_path / "nowhere"), "to": "x"}]), lambda: False
    )
    assert (
        verdict
        and verdict.failure == "network"
        and f"staging {tmp_path}/nowhere failed" in verdict.reason
    )
    assert len(events(run, "stage-failed")) == 3


def far(tmp_path, monkeypatch, rsync: str) -> Run:
    """A run whose data come from a machine that answers, by this rsync."""
    tool(tmp_path, "ssh", "#!/bin/sh\nexit 0\n", monkeypatch)
    tool(tmp_path, "rsync", f"#!/bin/sh\n{rsync}\n", monkeypatch)
    return make(tmp_path, data=[{"from": "gpu:/data", "to": "x"}], timings={"copy_quiet": 0.5})


def test_a_full_disk_is_told_as_one(tmp_path, monkeypatch):
    run = far(tmp_path, monkeypatch, "echo No space left on device >&2; exit 11")
    verdict = fetch.data(run, lambda: False)
    assert verdict and verdict.failure == "disk" and verdict.reason.endswith("no room left")
    assert len(events(run, "stage-failed")) == 1, "nothing makes room meanwhile"


def test_a_stop_ends_a_copy_with_its_children(tmp_path, monkeypatch):
    run = far(tmp_path, monkeypatch, f"touch {tmp_path}/began; sleep 100")
    assert fetch.data(run, (tmp_path / "began").exists) is None
    assert not procs.of_program(run.folder)


def test_a_copy_that_hangs_is_given_up_and_made_again(tmp_path, monkeypatch):
    again = f"test -e {tmp_path}/once || {{ touch {tmp_path}/once; sleep 100; }}"
    run = far(
        tmp_path, monkeypatch, f"{again}; mkdir -p {tmp_path}/run/x; touch {tmp_path}/run/x/a"
    )
    assert fetch.data(run, lambda: bool(run.clock.nap(0.5))) is None
    assert "no progress for 0.5 s" in events(run, "stage-failed")[0]["why"]


def test_checkpoints_and_data_come_over_ssh(tmp_path, monkeypatch, sshd):
    real = subprocess.run(
        ["which", "ssh"], capture_output=True, text=True, check=True
    ).stdout.strip()
    tool(tmp_path, "ssh", f'#!/bin/sh\nexec {real} -F {sshd.ssh_config} "$@"\n', monkeypatch)
    fields = {
        "durable": {"to": "gpu:~/it's"},
        "data": [
            {"from": "gpu:~/it's/log of data", "to": "in"},
            {"from": "gpu:~/it's/final.bin", "to": "one.bin"},
        ],
    }
    run = make(tmp_path, **fields)
    zipped(tmp_path, 10, 20)
    assert sync.worker(run, "quick") == 0
    (Path(sshd.home) / "it's/log of data").mkdir()
    (Path(sshd.home) / "it's/log of data/step-1.txt").write_text("1")
    run = another_box(tmp_path, **fields)
    assert durable.check(run) == [] and restore(run) is None
    assert names(tmp_path / "ckpt") == ["step-20.pt"]
    assert fetch.data(run, lambda: False) is None
    assert names(tmp_path / "run/in") == ["step-1.txt"]
    assert (tmp_path / "run/one.bin").read_bytes() == b"the end"
