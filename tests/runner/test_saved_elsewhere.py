"""What a log says was saved, and lies outside of all that is kept: named; all else raises no alarm."""

import os
import time

import pytest
from remote_gpu_trainer.runner import saved_elsewhere
from remote_gpu_trainer.runner.saved_elsewhere import paths_in

NOW = time.time()


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The folder of a run that began an hour ago and ended a minute ago, and the home around it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "runs/toy"
    (folder / "log").mkdir(parents=True)
    (folder / "code").mkdir()
    (folder / "deadline").write_text(f"0 {int(NOW) - 3600}\thours:2\n")
    (folder / ".done").write_text("{}")
    os.utime(folder / ".done", (NOW - 60, NOW - 60))
    return folder


def put(path, age=600.0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"weights")
    os.utime(path, (NOW - age, NOW - age))
    return path


def found(run, *lines, kept=(), most=1 << 20):
    (run / "log/train.log.0000").write_text("step 1 loss 2.0\n" + "".join(f"{x}\n" for x in lines))
    rows = saved_elsewhere.find(str(run), str(run / "code"), list(kept), most)
    return [path for path, _ in rows]


@pytest.mark.parametrize(
    "line",
    [
        "new best, saved {}",
        "[rank0]: Saving model checkpoint to '{}'.",
        "\x1b[32m2026-01-01 INFO wrote {}\x1b[0m (epoch=3)",
        "saved={}, loss=0.3",
        "Exported → {}",
        "checkpoint: {} in 3.2 s",
        "{} written",
    ],
)
@pytest.mark.parametrize("name", ["scratch/best.pkl", "scratch/my runs/epoch=3-step=9.ckpt"])
def test_a_save_elsewhere_is_found(run, tmp_path, line, name):
    path = put(tmp_path / name)
    if " " in name and ("," in line or " in 3.2" in line or "(" in line or line[0] == "{"):
        line = "saved {}"
    assert found(run, line.format(path)) == [str(path)]
    assert found(run, line.format(f"~/{name}")) == [str(path)]
    assert saved_elsewhere.find(str(run), "", [], 1 << 20) == [[str(path), 7]]


def test_a_relative_path_begins_in_the_folder_of_the_program(run, tmp_path):
    path = put(tmp_path / "runs/out/best.pkl")
    put(run / "code/own.pkl")
    assert found(run, "saved ../../out/best.pkl", "saved own.pkl") == [str(path)]


def test_a_folder_is_told_as_such_and_so_are_many_files_of_one(run, tmp_path):
    put(tmp_path / "scratch/checkpoint-500/model.pkl")
    some = [put(tmp_path / f"many/step-{at}.pkl") for at in range(6)]
    few = [put(tmp_path / f"best-{at}.pkl") for at in range(5)]  # the home is no place of saves
    lines = [f"saved {one}" for one in (*some, *few)]
    rows = found(run, f"Saving to {tmp_path}/scratch/checkpoint-500/", *lines)
    expected = [str(tmp_path / "many"), str(tmp_path / "scratch/checkpoint-500"), *map(str, few)]
    assert rows == sorted(expected)


def test_what_is_kept_old_gone_or_no_result_raises_no_alarm(run, tmp_path):
    other, durable = put(tmp_path / "also/best.pkl"), put(tmp_path / "durable/best.pkl")
    lines = [
        put(run / "code/out/best.pkl"),
        put(tmp_path / "before.pkl", age=7200),
        put(tmp_path / "of_a_later_run.pkl", age=-600),
        put(tmp_path / ".cache/torch/model.pkl"),
        put(tmp_path / "data/hf_cache/model.pkl"),
        put(tmp_path / "code/wandb/run-1/files/model.pkl"),
        put(tmp_path / "pip/wheel.whl"),
        tmp_path / "removed.pkl",
        tmp_path,
        run.parent,
        "/dev/null",
        "/etc/hosts",
        "s3://bucket/best.pkl",
        other,
        durable,
    ]
    kept = [str(other), "~/durable"]
    assert found(run, *(f"saved {line}" for line in lines), kept=kept) == []
    assert found(run, f"read {other}") == []
    assert found(run, f"saved {other}", "x" * 5000, most=4000) == [], "only the log's end is read"


def test_the_temporary_folder_is_no_place_of_results_unless_the_run_lies_there(run, monkeypatch):
    there = put(run.parent.parent / "tmp/best.pkl")
    monkeypatch.setattr(saved_elsewhere, "_TEMPORARY", (str(there.parent),))
    assert found(run, f"saved {there}") == []
    monkeypatch.setattr(saved_elsewhere, "_TEMPORARY", (str(run.parent.parent),))
    assert found(run, f"saved {there}") == [str(there)]


def test_the_logs_of_cells_are_read_too(run, tmp_path):
    path = put(tmp_path / "best.pkl")
    (run / "cells/a/log").mkdir(parents=True)
    (run / "cells/a/log/train.log.0003").write_text(f"saved {path}")
    assert found(run) == [str(path)]


def test_words_without_a_path_name_none():
    assert paths_in("saved the checkpoint of step 3") == []
    assert paths_in("saved to https://huggingface.co/me/model") == []
