"""The results that a job names: of this run, of an earlier one, or not there."""

import json
import os
import zipfile
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import content, results
from remote_gpu_trainer.runner.checkpoints import Checkpoint
from remote_gpu_trainer.runner.context import Run

from tests.runner.jobs import job_of


def run_of(tmp_path: Path, *names: str, rank: int = 0) -> Run:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    given = {
        "rendered": {"run_dir": str(tmp_path / "run"), "work_dir": str(work)},
        "results": list(names),
        "checkpoint": {"folder": "ckpt"},
        "timings": {"tick": 0.01},
    }
    run = Run(job_of(given), rank=rank)
    run.folder.make()
    return run


def write(path: Path, text: str = "the end", when: float = 1_700_000_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (when, when))


def test_a_result_has_content_and_an_empty_folder_has_none(tmp_path):
    run = run_of(tmp_path, "final.bin", "empty.bin", "adapter/", "nothing/")
    results.note_before(run)
    write(tmp_path / "work/final.bin")
    write(tmp_path / "work/empty.bin", "")
    write(tmp_path / "work/adapter/weights.bin")
    (tmp_path / "work/nothing").mkdir()
    assert results.look(run) == (["empty.bin", "nothing/"], [])
    assert results.look(run_of(tmp_path, "final.bin", "none.bin", rank=1)) == ([], [])


def test_a_result_from_before_the_run_is_missing_until_it_is_written_again(tmp_path):
    run = run_of(tmp_path, "final.bin", "out")
    write(tmp_path / "work/final.bin")
    write(tmp_path / "work/out/a.bin")
    results.note_before(run)
    assert results.look(run) == (["final.bin", "out"], ["final.bin", "out"])
    write(tmp_path / "work/final.bin", when=1_700_000_001)  # of the same size
    write(tmp_path / "work/out/a.bin", when=1_600_000_000)  # by a clock that was set back
    assert results.look(run) == ([], [])


def test_what_an_earlier_attempt_wrote_counts(tmp_path):
    run = run_of(tmp_path, "final.bin")
    results.note_before(run)
    run.folder.write("attempt.json", '{"attempt": 1}')
    write(tmp_path / "work/final.bin")
    results.note_before(run)
    assert results.look(run) == ([], [])


@pytest.mark.parametrize(("when", "missing"), [(1_700_000_100, []), (1_699_999_900, ["final.bin"])])
def test_a_result_later_than_the_checkpoint_came_along_with_it(tmp_path, when, missing):
    run = run_of(tmp_path, "final.bin")
    write(tmp_path / "work/final.bin", when=when)
    write(tmp_path / "work/ckpt/step-40.pt", when=1_700_000_000)
    results.note_before(run)
    item = content.stamp(str(tmp_path / "work/ckpt/step-40.pt"))
    results.trust_later(run, Checkpoint(item.path, 40, f"{item.path} {item.weights}"))
    assert results.look(run).missing == missing
    results.trust_later(run, None)
    assert results.look(run).missing == missing


def test_what_the_save_itself_writes_shows_no_end(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work/link").symlink_to("ckpt")
    run = run_of(tmp_path, "final.bin", "ckpt/last.pt", "link/best.pt", "there.bin")
    results.note_before(run)
    write(tmp_path / "work/there.bin")
    assert results.owed(run) == ["final.bin"]


def test_half_a_file_of_weights_is_no_whole_result(tmp_path):
    run = run_of(tmp_path, "model.pt", "half.pt", "notes.txt", "absent.pt")
    for name in ("model.pt", "half.pt"):
        with zipfile.ZipFile(tmp_path / f"work/{name}", "w") as archive:
            archive.writestr("data", b"1" * 1000)
    half = tmp_path / "work/half.pt"
    half.write_bytes(half.read_bytes()[:600])
    write(tmp_path / "work/notes.txt")
    assert results.find_corrupt(run) == ["half.pt: File is not a zip file"]


def test_an_index_of_weights_names_the_files_that_it_lists_and_none_elsewhere(tmp_path):
    index = tmp_path / "merged/model.safetensors.index.json"
    write(
        index,
        json.dumps({"weight_map": {"a": "m-1.safetensors", "b": "../etc", "c": "m-1.safetensors"}}),
    )
    assert results.expand(str(index)) == [str(index), str(index.parent / "m-1.safetensors")]
    assert results.expand(str(tmp_path / "*/*.index.json"))[1:] == [
        str(index.parent / "m-1.safetensors")
    ]
    write(index, "[1]")
    assert results.expand(str(index)) == [str(index)]
