"""Which generation is the newest where more than checkpoints lies in their folder."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import content, fetch, resuming, sync
from remote_gpu_trainer.runner.safe import look_safe

from .copying import make


def _write(folder: Path, at: int, *names: str) -> None:
    """Write files whose last change was `at` seconds after a moment of the past."""
    for name in names:
        path = folder / "ckpt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".json"):
            told = {"global_step": at} if name.endswith("trainer_state.json") else {"x": at}
            path.write_text(json.dumps(told))
        else:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("data", f"{name} {at}" * 100)
        os.utime(path, (1.7e9 + at, 1.7e9 + at))


def _newest(folder: Path) -> str:
    note = folder / "durable/ckpt.generations/NEWEST"
    return note.read_text().split("\n")[0] if note.exists() else ""


def _source(folder: Path, name: str) -> str:
    path = folder / f"durable/ckpt.generations/{name}/manifest.json"
    return json.loads(path.read_text())["source"]


TRAINER = ("model.safetensors.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth")


@pytest.mark.parametrize("pattern", ["checkpoint-*", "*"])
def test_what_a_trainer_leaves_beside_its_checkpoints_is_never_the_newest(tmp_path, pattern):
    run = make(tmp_path, checkpoint={"pattern": pattern})
    for step in (3, 6):
        names = [f"checkpoint-{step}/{name}" for name in (*TRAINER, "trainer_state.json")]
        _write(tmp_path, step, *names)
        assert sync.worker(run, "quick") == 0
    _write(tmp_path, 7, "training_args.bin", "config.json", "tokenizer.model.bin", "optimizer.pt")
    assert sync.worker(run, "quick") == 0
    _write(tmp_path, 8, "pytorch_model.bin", "trainer_state.json")
    assert sync.worker(run, "quick") == 0
    assert _source(tmp_path, _newest(tmp_path)) == "checkpoint-6"
    found = look_safe(run)
    assert found.verified.endswith(_newest(tmp_path)) and "/gen-1-6-" in found.verified
    assert os.path.basename(found.newest) == "checkpoint-6" and found.is_newest_safe
    kept = {
        name
        for manifest in (tmp_path / "durable").rglob("manifest.json")
        for name in json.loads(manifest.read_text())["files"]
    }
    assert {"training_args.bin", "pytorch_model.bin"} <= kept, "and yet it is copied"


def test_without_a_checkpoint_what_stands_beside_one_is_neither_safe_nor_brought_back(tmp_path):
    run = make(tmp_path, checkpoint={"pattern": "checkpoint-*"})
    _write(tmp_path, 1, "training_args.bin", "config.json")
    assert sync.worker(run, "quick") == 0
    assert (look_safe(run).verified, _newest(tmp_path)) == ("", "")
    for name in ("training_args.bin", "config.json"):
        os.unlink(tmp_path / "ckpt" / name)
    again = make(
        tmp_path,
        checkpoint={"pattern": "checkpoint-*"},
        rendered={"run_dir": str(tmp_path / "other")},
    )
    assert fetch.restore(again, lambda: False) is None
    assert not list((tmp_path / "ckpt").iterdir())


@pytest.mark.parametrize("pattern", ["*", "G_*.pth"])
def test_some_files_of_a_save_are_no_newer_checkpoint_than_a_whole_one(tmp_path, pattern):
    run = make(tmp_path, checkpoint={"pattern": pattern})
    for step in (8, 16):
        _write(tmp_path, step, f"D_{step}.pth", f"G_{step}.pth")
        assert sync.worker(run, "quick") == 0
    _write(tmp_path, 24, "G_24.pth")
    assert sync.worker(run, "quick") == 0
    assert _source(tmp_path, _newest(tmp_path)) == "D_16.pth"
    assert look_safe(run).verified.endswith(_newest(tmp_path))
    _write(tmp_path, 25, "D_24.pth")
    assert sync.worker(run, "quick") == 0
    assert _source(tmp_path, _newest(tmp_path)) == "D_24.pth", "once it is whole"


def test_a_model_without_its_usual_files_is_the_newest_once_it_has_none_again(tmp_path):
    run = make(tmp_path, checkpoint={"pattern": "*"})
    _write(tmp_path, 10, "ckpt_10.pt", "best_10.pt")
    for step in (20, 30):
        _write(tmp_path, step, f"ckpt_{step}.pt")
    assert sync.worker(run, "quick") == 0
    assert _source(tmp_path, _newest(tmp_path)) == "ckpt_30.pt"


def test_by_a_pattern_for_everything_no_companion_is_resumed_from(tmp_path):
    _write(tmp_path, 1, "model.pt")
    _write(tmp_path, 2, "optimizer.pt", "training_args.bin")
    found = content.look(str(tmp_path / "ckpt"), "*")
    assert found.whole is not None and os.path.basename(found.whole.path) == "model.pt"


def test_a_job_may_keep_its_checkpoints_in_json(tmp_path):
    run = make(tmp_path, checkpoint={"pattern": "step_*.json"})
    for step in (1, 2):
        _write(tmp_path, step, f"step_{step}.json", "losses.json")
        assert sync.worker(run, "quick") == 0
    assert _source(tmp_path, _newest(tmp_path)) == "step_2.json"
    assert look_safe(run).is_newest_safe
    for path in (tmp_path / "ckpt").iterdir():
        path.unlink()
    again = make(
        tmp_path,
        checkpoint={"pattern": "step_*.json"},
        rendered={"run_dir": str(tmp_path / "other")},
        results=[],
    )
    fetch.restore(again, lambda: False)
    assert (tmp_path / "ckpt/step_2.json").exists()


def test_a_folder_without_a_file_that_earlier_ones_had_drops_none_of_them(tmp_path):
    """accelerate marks no folder as whole, and its program deletes the older one before it saves again."""
    run = make(tmp_path, checkpoint={"pattern": "checkpoint-*"})
    states = ("unet/model.bin", "optimizer.bin", "random_states_0.pkl")
    _write(tmp_path, 8, *(f"checkpoint-8/{name}" for name in states))
    assert sync.worker(run, "quick") == 0
    whole = _newest(tmp_path)
    _write(tmp_path, 56, *(f"checkpoint-56/{name}" for name in states[:2]))
    for name in states:
        os.unlink(tmp_path / "ckpt/checkpoint-8" / name)
    _write(tmp_path, 60, "checkpoint-8/unet/model.bin")
    assert sync.worker(run, "full") == 0
    assert _newest(tmp_path) == whole and look_safe(run).verified.endswith(whole)


def test_copies_of_one_save_while_it_grows_are_no_two_saves_before_the_next(tmp_path):
    """A slow save is copied more than once; what its first copy lacked, the next save needs."""
    run = make(tmp_path, checkpoint={"pattern": "checkpoint_*"}, resume="automatic", results=[])
    states = ("model.bin", "optimizer.bin", "random_states_0.pkl", "custom_checkpoint_0.pkl")
    for parts in (states[:2], states):
        _write(tmp_path, 8 + len(parts), *(f"checkpoint_0/{name}" for name in parts))
        assert sync.worker(run, "quick") == 0
    whole = _newest(tmp_path)
    for name in states:
        os.unlink(tmp_path / "ckpt/checkpoint_0" / name)
    for parts in (states[:2], states[:3]):  # and then its program is killed
        _write(tmp_path, 20 + len(parts), *(f"checkpoint_1/{name}" for name in parts))
        assert sync.worker(run, "quick") == 0
    assert _newest(tmp_path) == whole and look_safe(run).verified.endswith(whole)
    run.folder.write("attempt.json", '{"attempt": 1}')
    run.folder.write("own/rc", '{"number": 1, "code": 137}')
    assert sync.worker(run, "full") == 0
    began = resuming.choose_checkpoint(run)
    assert began is not None and os.path.basename(began.path) == "checkpoint_0"
    assert sorted(os.listdir(began.path)) == sorted(states)
    # A program that takes the newest folder by itself doesn't find the torn one.
    assert [path.name for path in (tmp_path / "ckpt").glob("checkpoint_*")] == ["checkpoint_0"]


@pytest.mark.timeout(60)
def test_what_is_whole_of_a_corrupt_folder_is_copied_once_at_the_end(tmp_path):
    """Lightning keeps all checkpoints of a version in one folder; the first one lies there already."""
    run = make(tmp_path, checkpoint={"pattern": "*"})
    _write(tmp_path, 8, "version_0/checkpoints/epoch=2-step=8.ckpt")
    assert sync.worker(run, "quick") == 0
    corrupt = tmp_path / "ckpt/version_0/checkpoints/epoch=13-step=52.ckpt"
    corrupt.write_bytes(b"PK\x03\x04" + bytes(500))
    os.utime(corrupt, (1.7e9 + 52, 1.7e9 + 52))
    assert sync.worker(run, "full") == 0
    assert _source(tmp_path, _newest(tmp_path)) == "version_0"
