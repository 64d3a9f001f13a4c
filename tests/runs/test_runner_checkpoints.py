"""Is a checkpoint whole? The program that the run script carries, on files of every kind."""

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from remote_gpu_trainer.runs import shell_text


@pytest.fixture(scope="module")
def checker(tmp_path_factory) -> Path:
    script = shell_text.script({"RGT_CHECKPOINT_GLOB": "*"}).removesuffix('rgt_main "$@"\n')
    path = tmp_path_factory.mktemp("checker") / "check_checkpoint.py"
    with path.open("wb") as file:
        subprocess.run(
            ["bash", "-s"],
            input=(script + "rgt_check_checkpoint_program\n").encode(),
            stdout=file,
            check=True,
        )
    return path


def ask(checker: Path, folder: Path, pattern: str, *cache: Path) -> list[tuple[str, str]]:
    """(kind, name) newest first, up to the first whole one."""
    out = (
        subprocess.run(
            [sys.executable, checker, folder, pattern, *cache], capture_output=True, check=True
        )
        .stdout.decode()
        .split("\0")
    )
    return [(out[n], os.path.relpath(out[n + 1], folder)) for n in range(0, len(out) - 1, 3)]


def zipped(path: Path, size: int = 1000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", os.urandom(size))
    time.sleep(0.01)


def safetensors(path: Path, cut: int = 0) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    content = len(header).to_bytes(8, "little") + header + b"\1" * 16
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content[: len(content) - cut])
    time.sleep(0.01)


def test_the_newest_whole_file_is_found_behind_torn_ones(checker, tmp_path):
    for n in (1, 2, 3, 10):
        zipped(tmp_path / f"s-{n}.pt")
    whole = (tmp_path / "s-10.pt").read_bytes()
    (tmp_path / "s-10.pt").write_bytes(whole[:-10])
    (tmp_path / "s-3.pt").write_bytes(b"\0" * 900)
    os.utime(tmp_path / "s-10.pt", (time.time() + 2, time.time() + 2))
    assert ask(checker, tmp_path, "*.pt") == [
        ("torn", "s-10.pt"),
        ("torn", "s-3.pt"),
        ("whole", "s-2.pt"),
    ]


def test_one_wrong_byte_in_a_zip_is_torn(checker, tmp_path):
    zipped(tmp_path / "s-1.pt")
    content = bytearray((tmp_path / "s-1.pt").read_bytes())
    content[200] ^= 1
    (tmp_path / "s-1.pt").write_bytes(content)
    assert ask(checker, tmp_path, "*.pt") == [("torn", "s-1.pt")]


@pytest.mark.parametrize(("cut", "kind"), [(0, "whole"), (1, "torn"), (40, "torn")])
def test_safetensors_must_have_the_size_of_their_header(checker, tmp_path, cut, kind):
    safetensors(tmp_path / "model.safetensors", cut)
    assert ask(checker, tmp_path, "*.safetensors") == [(kind, "model.safetensors")]


def test_a_folder_is_as_whole_as_its_worst_file(checker, tmp_path):
    for n in (10, 20):
        safetensors(tmp_path / f"checkpoint-{n}/model.safetensors")
        zipped(tmp_path / f"checkpoint-{n}/optimizer.pt")
    assert ask(checker, tmp_path, "checkpoint-*") == [("whole", "checkpoint-20")]
    safetensors(tmp_path / "checkpoint-20/model.safetensors", cut=3)
    assert ask(checker, tmp_path, "checkpoint-*") == [
        ("torn", "checkpoint-20"),
        ("whole", "checkpoint-10"),
    ]


def test_a_folder_that_lacks_what_its_neighbour_holds_is_torn(checker, tmp_path):
    for n in (10, 20):
        zipped(tmp_path / f"checkpoint-{n}/rng_state_0.pth")
        zipped(tmp_path / f"checkpoint-{n}/model.pt")
    (tmp_path / "checkpoint-10/trainer_state.json").write_text("{}")
    os.utime(tmp_path / "checkpoint-10/trainer_state.json", (1, 1))
    assert ask(checker, tmp_path, "checkpoint-*") == [
        ("torn", "checkpoint-20"),
        ("whole", "checkpoint-10"),
    ]


def test_an_index_must_find_its_shards(checker, tmp_path):
    safetensors(tmp_path / "c-1/model-1.safetensors")
    (tmp_path / "c-1/model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})
    )
    assert ask(checker, tmp_path, "c-*") == [("torn", "c-1")]


def test_leftovers_and_notes_are_no_checkpoints(checker, tmp_path):
    zipped(tmp_path / "s-1.pt")
    for name in ("s-2.pt.tmp", "s-3.pt.torn", ".s-4.pt.Xy12", "latest", "log.txt", "args.json"):
        (tmp_path / name).write_text("x")
    assert ask(checker, tmp_path, "*") == [("whole", "s-1.pt")]


def test_what_was_whole_is_not_read_again_until_it_changes(checker, tmp_path):
    zipped(tmp_path / "a/s-1.pt")
    cache = tmp_path / "cache"
    assert ask(checker, tmp_path / "a", "*.pt", cache) == [("whole", "s-1.pt")]
    assert len(cache.read_text().splitlines()) == 1
    (tmp_path / "a/s-1.pt").write_bytes(b"PK broken")
    assert ask(checker, tmp_path / "a", "*.pt", cache) == [("torn", "s-1.pt")]


def test_real_files_of_torch_and_safetensors_are_whole(checker, tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.ones(8)}, tmp_path / "new.pt")
    torch.save({"w": torch.ones(8)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for name in ("new.pt", "old.pt"):
        assert ask(checker, tmp_path, name) == [("whole", name)]


def test_what_a_trainer_writes_beside_its_checkpoints_is_none(checker, tmp_path):
    zipped(tmp_path / "checkpoint-10/model.pt")
    zipped(tmp_path / "checkpoint-20/model.pt")
    (tmp_path / "runs/today").mkdir(parents=True)
    (tmp_path / "runs/today/events.out.tfevents.1").write_text("x")
    (tmp_path / "samples").mkdir()
    for name in ("zero_to_fp32.py", "sample_30.png", "README.md"):
        (tmp_path / name).write_text("x")
    os.mkfifo(tmp_path / "pipe-30.pt")
    assert ask(checker, tmp_path, "*") == [("whole", "checkpoint-20")]


def test_a_checkpoint_that_cannot_be_read_is_not_called_torn(checker, tmp_path):
    zipped(tmp_path / "s-1.pt")
    zipped(tmp_path / "s-2.pt")
    code = f"import runpy, sys; sys.argv = ['check', {str(tmp_path)!r}, 's-*.pt']\nimport builtins; real = open\n"
    code += "def broken(path, *more, **names):\n    if str(path).endswith('s-2.pt'): raise OSError(116, 'Stale file handle')\n    return real(path, *more, **names)\n"
    code += f"builtins.open = broken; runpy.run_path({str(checker)!r}, run_name='__main__')"
    out = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        .stdout.decode()
        .split("\0")
    )
    assert [(out[n], os.path.basename(out[n + 1])) for n in range(0, len(out) - 1, 3)] == [
        ("unread", "s-2.pt"),
        ("whole", "s-1.pt"),
    ]


def test_an_evaluation_in_an_older_folder_does_not_make_it_the_newest(checker, tmp_path):
    for n in (500, 1000):
        zipped(tmp_path / f"checkpoint-{n}/model.pt")
    (tmp_path / "checkpoint-500/eval_results.json").write_text("{}")
    assert ask(checker, tmp_path, "checkpoint-*") == [("whole", "checkpoint-1000")]
    os.utime(tmp_path / "checkpoint-500/eval_results.json", (1, 1))
    assert ask(checker, tmp_path, "checkpoint-*") == [("whole", "checkpoint-1000")]
    zipped(tmp_path / "best/model.pt")
    (tmp_path / "checkpoint-500/eval_results.json").touch()
    assert ask(checker, tmp_path, "*") == [("whole", "best")]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("step-900.pt", "step-1000.pt"),
        ("epoch=2-step=90-val_loss=0.9.ckpt", "epoch=3-step=10-val_loss=0.1.ckpt"),
        ("acc91_epoch2.pt", "acc90_epoch3.pt"),
    ],
)
def test_of_names_that_differ_in_numbers_the_higher_is_newer_whatever_was_touched(
    checker, tmp_path, older, newer
):
    zipped(tmp_path / newer)
    zipped(tmp_path / older)
    assert ask(checker, tmp_path, "*") == [("whole", newer)]


@pytest.mark.parametrize(
    ("older", "newer"),
    [("loss-0.91.pt", "loss-0.52.pt"), ("step-90.pt", "last.pt"), ("a9/w.pt", "a1/w.pt")],
)
def test_other_names_are_ordered_by_time(checker, tmp_path, older, newer):
    zipped(tmp_path / older)
    zipped(tmp_path / newer)
    assert ask(checker, tmp_path, "**/*.pt") == [("whole", newer)]


def test_a_file_that_only_one_of_two_older_folders_holds_is_not_missed(checker, tmp_path):
    for n in (10, 20, 30):
        zipped(tmp_path / f"checkpoint-{n}/model.pt")
    zipped(tmp_path / "checkpoint-20/merged.pt")
    assert ask(checker, tmp_path, "checkpoint-*") == [("whole", "checkpoint-30")]
    zipped(tmp_path / "checkpoint-10/merged.pt")
    assert ask(checker, tmp_path, "checkpoint-*")[:1] == [("torn", "checkpoint-30")]


def test_folders_of_different_kinds_need_not_hold_the_same(checker, tmp_path):
    zipped(tmp_path / "checkpoint-10/model.pt")
    zipped(tmp_path / "checkpoint-10/optimizer.pt")
    zipped(tmp_path / "final/model.pt")
    assert ask(checker, tmp_path, "*") == [("whole", "final")]
