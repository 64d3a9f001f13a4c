"""Is a checkpoint whole, and which is the newest? On files of every kind."""

import json
import os
import time
import zipfile
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import completeness, content


def ask(folder: Path, pattern: str, cache: str = "") -> list[tuple[str, str]]:
    """(kind, name) newest first, up to the first whole one."""
    look = content.look(str(folder), pattern, cache)
    found = [("corrupt", item) for item, _ in look.corrupt]
    found += [("unread", item) for item, _ in look.unread]
    found += [("whole", look.whole)] if look.whole else []
    return [(kind, os.path.relpath(item.path, folder)) for kind, item in found]


_age = iter(range(1, 10**6))


def aged(path: Path) -> None:
    """Each file is a second younger than the one before."""
    when = 1_700_000_000 + next(_age)
    os.utime(path, (when, when))


def zipped(path: Path, size: int = 1000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", os.urandom(size))
    aged(path)


def safetensors(path: Path, cut: int = 0) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    whole = len(header).to_bytes(8, "little") + header + b"\1" * 16
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(whole[: len(whole) - cut])
    aged(path)


def test_a_save_in_two_files_is_corrupt_where_one_of_them_is(tmp_path):
    for n in (9, 18, 27, 36):
        for half in "GD":
            zipped(tmp_path / f"{half}_{n}.pth")
    (tmp_path / "D_36.pth").write_bytes((tmp_path / "D_36.pth").read_bytes()[:-30])
    (tmp_path / "G_27.pth").write_bytes(b"\0" * 900)
    cache = str(tmp_path / "cache")
    look = content.look(str(tmp_path), "G_*.pth", cache, ["D_*.pth"])
    assert Path(look.whole.path).name == "G_18.pth"
    told = {Path(item.path).name: why for item, why in look.corrupt}
    assert set(told) == {"G_36.pth", "D_36.pth", "G_27.pth", "D_27.pth"}
    assert told["G_36.pth"].startswith("D_36.pth of the same save isn't whole")
    assert content.last_whole(str(tmp_path), "G_*.pth", cache, ["D_*.pth"]) is None
    os.utime(tmp_path / "G_18.pth")
    assert content.last_whole(str(tmp_path), "G_*.pth", cache, ["D_*.pth"]).path.endswith(
        "G_18.pth"
    )


@pytest.mark.parametrize("files", [[], ["D_*.pth"]], ids=["one pattern", "named beside it"])
@pytest.mark.parametrize("half", ["torn", "missing"])
def test_of_a_pair_that_is_not_whole_neither_half_is_resumed_from(tmp_path, half, files):
    pattern, cache = "G_*.pth" if files else "*_*.pth", str(tmp_path / "cache")
    for n in (9, 18, 27):
        for name in ("D", "G"):
            zipped(tmp_path / f"{name}_{n}.pth")
    torn = tmp_path / "D_27.pth"
    torn.write_bytes(torn.read_bytes()[:-30]) if half == "torn" else torn.unlink()
    look = content.look(str(tmp_path), pattern, cache, files)
    assert Path(look.whole.path).name == "G_18.pth" and look.state == completeness.COMPLETE
    told = {Path(item.path).name: why for item, why in look.corrupt}
    assert set(told) == ({"G_27.pth", "D_27.pth"} if half == "torn" else {"G_27.pth"})
    why = "D_27.pth of the same save isn't whole" if half == "torn" else "D_0.pth of this save is"
    assert told["G_27.pth"].startswith(why)
    assert content.last_whole(str(tmp_path), pattern, cache, files) is None
    older = content.look(str(tmp_path), pattern, cache, files, look.whole.path)
    assert Path(older.whole.path).name == "G_9.pth", "not the other half of the one left out"


def test_a_file_of_the_same_number_that_no_save_before_had_breaks_none(tmp_path):
    for name in ("best_7.pt", "ckpt_9.pt", "best_10.pt", "ckpt_10.pt"):
        zipped(tmp_path / name)
    (tmp_path / "best_10.pt").write_bytes(b"\0" * 900)
    assert ask(tmp_path, "*_*.pt") == [("corrupt", "best_10.pt"), ("whole", "ckpt_10.pt")]
    (tmp_path / "ckpt_9.pt").unlink()
    assert ask(tmp_path, "*_*.pt") == [("corrupt", "best_10.pt"), ("whole", "ckpt_10.pt")]
    for name in ("best.pt", "last.pt"):
        zipped(tmp_path / "none" / name)
    (tmp_path / "none/best.pt").write_bytes(b"\0" * 900)
    assert ask(tmp_path / "none", "*.pt") == [("corrupt", "best.pt"), ("whole", "last.pt")]


def test_the_newest_whole_file_is_found_behind_corrupt_ones(tmp_path):
    for n in (1, 2, 3, 10):
        zipped(tmp_path / f"s-{n}.pt")
    whole = (tmp_path / "s-10.pt").read_bytes()
    (tmp_path / "s-10.pt").write_bytes(whole[:-10])
    (tmp_path / "s-3.pt").write_bytes(b"\0" * 900)
    assert ask(tmp_path, "*.pt") == [
        ("corrupt", "s-10.pt"),
        ("corrupt", "s-3.pt"),
        ("whole", "s-2.pt"),
    ]


@pytest.mark.parametrize(("cut", "kind"), [(0, "whole"), (1, "corrupt"), (40, "corrupt")])
def test_safetensors_must_have_the_size_of_their_header(tmp_path, cut, kind):
    safetensors(tmp_path / "model.safetensors", cut)
    assert ask(tmp_path, "*.safetensors") == [(kind, "model.safetensors")]


def test_a_header_of_another_form_is_corrupt_and_breaks_nothing(tmp_path):
    header = b'[{"data_offsets": 5}]'
    (tmp_path / "m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    assert ask(tmp_path, "*") == [("corrupt", "m.safetensors")]


def test_a_folder_is_as_whole_as_its_worst_file(tmp_path):
    for n in (10, 20):
        safetensors(tmp_path / f"checkpoint-{n}/model.safetensors")
        zipped(tmp_path / f"checkpoint-{n}/optimizer.pt")
    assert ask(tmp_path, "checkpoint-*") == [("whole", "checkpoint-20")]
    safetensors(tmp_path / "checkpoint-20/model.safetensors", cut=3)
    assert ask(tmp_path, "checkpoint-*") == [
        ("corrupt", "checkpoint-20"),
        ("whole", "checkpoint-10"),
    ]


def test_a_folder_that_lacks_what_its_neighbour_holds_is_corrupt(tmp_path):
    for n in (10, 20):
        zipped(tmp_path / f"checkpoint-{n}/rng_state_0.pth")
        zipped(tmp_path / f"checkpoint-{n}/model.pt")
    (tmp_path / "checkpoint-10/trainer_state.json").write_text("{}")
    assert ask(tmp_path, "checkpoint-*") == [
        ("corrupt", "checkpoint-20"),
        ("whole", "checkpoint-10"),
    ]


def test_a_file_that_only_one_of_two_older_folders_holds_is_not_missed(tmp_path):
    for n in (10, 20, 30):
        zipped(tmp_path / f"checkpoint-{n}/model.pt")
    zipped(tmp_path / "checkpoint-20/merged.pt")
    assert ask(tmp_path, "checkpoint-*") == [("whole", "checkpoint-30")]
    zipped(tmp_path / "checkpoint-10/merged.pt")
    assert ask(tmp_path, "checkpoint-*")[:1] == [("corrupt", "checkpoint-30")]


def test_folders_of_different_kinds_need_not_hold_the_same(tmp_path):
    zipped(tmp_path / "checkpoint-10/model.pt")
    zipped(tmp_path / "checkpoint-10/optimizer.pt")
    zipped(tmp_path / "final/model.pt")
    assert ask(tmp_path, "*") == [("whole", "final")]


def test_an_index_must_find_its_shards(tmp_path):
    safetensors(tmp_path / "c-1/model-1.safetensors")
    (tmp_path / "c-1/model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})
    )
    assert ask(tmp_path, "c-*") == [("corrupt", "c-1")]


def test_leftovers_and_notes_are_no_checkpoints(tmp_path):
    zipped(tmp_path / "s-1.pt")
    (tmp_path / ".corrupt").mkdir()
    for name in ("s-2.pt.tmp", ".corrupt/s-3.pt", ".s-4.pt.Xy12", "latest", "log.txt", "args.json"):
        (tmp_path / name).write_text("x")
    assert ask(tmp_path, "*") == [("whole", "s-1.pt")]
    assert content.is_leftover("s-2.pt.tmp") and not content.is_leftover("s-1.pt")


def test_what_a_trainer_writes_beside_its_checkpoints_is_none(tmp_path):
    zipped(tmp_path / "checkpoint-10/model.pt")
    zipped(tmp_path / "checkpoint-20/model.pt")
    (tmp_path / "runs/today").mkdir(parents=True)
    (tmp_path / "runs/today/events.out.tfevents.1").write_text("x")
    (tmp_path / "samples").mkdir()
    for name in ("zero_to_fp32.py", "sample_30.png", "README.md"):
        (tmp_path / name).write_text("x")
    os.mkfifo(tmp_path / "pipe-30.pt")
    assert ask(tmp_path, "*") == [("whole", "checkpoint-20")]


def test_what_was_whole_is_not_read_again_until_it_changes(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    zipped(tmp_path / "a/s-1.pt")
    read, real = [], content.judge_path
    monkeypatch.setattr(content, "judge_path", lambda path: read.append(path) or real(path))
    cache = str(tmp_path / "cache")
    for _ in range(2):
        assert ask(tmp_path / "a", "*.pt", cache) == [("whole", "s-1.pt")]
    assert len(read) == 1
    (tmp_path / "a/s-1.pt").write_bytes(b"PK broken")
    assert ask(tmp_path / "a", "*.pt", cache) == [("corrupt", "s-1.pt")]


def broken(monkeypatch, name: str, number: int = 116) -> None:
    """Files and folders of this name can't be read, as on a mount that is gone."""
    for module, of in ((os, "listdir"), (completeness, "open")):
        real = getattr(module, of, open)

        def fails(path, *more, real=real, **names):
            if str(path).endswith(name):
                raise OSError(number, "Stale file handle")
            return real(path, *more, **names)

        monkeypatch.setattr(module, of, fails, raising=False)


def test_a_checkpoint_that_cannot_be_read_is_not_called_corrupt(tmp_path, monkeypatch):
    zipped(tmp_path / "s-1.pt")
    zipped(tmp_path / "s-2.pt")
    broken(monkeypatch, "s-2.pt")
    assert ask(tmp_path, "s-*.pt") == [("unread", "s-2.pt"), ("whole", "s-1.pt")]


def test_a_folder_that_cannot_be_listed_is_not_called_empty(tmp_path, monkeypatch):
    assert ask(tmp_path / "nowhere", "*") == []
    broken(monkeypatch, tmp_path.name)
    with pytest.raises(OSError, match="Stale"):
        content.look(str(tmp_path), "*")


def test_an_evaluation_in_an_older_folder_does_not_make_it_the_newest(tmp_path):
    for n in (500, 1000):
        zipped(tmp_path / f"checkpoint-{n}/model.pt")
    (tmp_path / "checkpoint-500/eval_results.json").write_text("{}")
    assert ask(tmp_path, "checkpoint-*") == [("whole", "checkpoint-1000")]
    zipped(tmp_path / "best/model.pt")
    (tmp_path / "checkpoint-500/eval_results.json").touch()
    assert ask(tmp_path, "*") == [("whole", "best")]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("step-900.pt", "step-1000.pt"),
        ("epoch=2-step=90-val_loss=0.9.ckpt", "epoch=3-step=10-val_loss=0.1.ckpt"),
        ("acc91_epoch2.pt", "acc90_epoch3.pt"),
    ],
)
def test_of_names_that_differ_in_numbers_the_higher_is_newer(tmp_path, older, newer):
    zipped(tmp_path / newer)
    zipped(tmp_path / older)
    assert ask(tmp_path, "*") == [("whole", newer)]


@pytest.mark.parametrize(
    ("older", "newer"),
    [("loss-0.91.pt", "loss-0.52.pt"), ("step-90.pt", "last.pt"), ("a9/w.pt", "a1/w.pt")],
)
def test_other_names_are_ordered_by_time(tmp_path, older, newer):
    zipped(tmp_path / older)
    zipped(tmp_path / newer)
    assert ask(tmp_path, "**/*.pt") == [("whole", newer)]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("step-40.pt", 40),
        ("epoch=2-step=90-loss=0.25.ckpt", 90),
        ("checkpoint-500", 500),
        ("global_step1200", 1200),
        ("step-1000000000.pt", 1_000_000_000),
        ("last.pt", None),
        ("ckpt_20261129_104812.pt", None),
        ("checkpoint-20261129104812", None),
        ("step-1795949229.pt", None),
        ("step-1795949247583394366.pt", None),
    ],
)
def test_a_name_tells_its_step(name, step):
    assert content.step_of(f"/checkpoints-7/{name}") == step


def test_the_time_of_a_folder_is_that_of_its_weights(tmp_path):
    zipped(tmp_path / "c-1/model.pt")
    weights = os.stat(tmp_path / "c-1/model.pt").st_mtime_ns
    (tmp_path / "c-1/note.txt").write_text("now")
    item = content.stamp(str(tmp_path / "c-1"))
    assert item.weights == weights and item.changed > weights and item.changed <= time.time_ns()
