"""run.d in a run's folder: what is kept of it, what is removed, and what two runs of a box share."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import compiling, parts, unpack
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runs.transfer import box_end

from tests.runner.jobs import job_of

ENTRY = "remote_gpu_trainer/runner/entry.py"


def put(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")
    return folder


@pytest.fixture
def run(tmp_path, monkeypatch) -> Run:
    """A run whose run.sh and run.d lie elsewhere."""
    given = tmp_path / "given"
    put(given / "run.d/runner-2", ENTRY, "probe.py")
    put(given / "run.d/job-2", "values.sh", "job.json")
    (given / "run.sh").write_text("the head\n\n# run.d/packed\nmuch\n# run.d/end\n")
    own = given / "run.d/runner-2"
    monkeypatch.setattr(parts, "folder", lambda *names: str(own.joinpath(*names)))
    made = Run(
        job_of({"run_dir": str(tmp_path / "run")}),
        str(given / "run.sh"),
        job_folder=str(given / "run.d/job-2"),
    )
    made.folder.make()
    return made


def test_the_text_and_the_parts_are_kept_without_what_was_packed(run):
    parts.keep(run)
    base = Path(run.base)
    assert (base / "run.sh").read_text() == "the head\n"
    assert (base / "run.d/runner-2" / ENTRY).is_file() and (
        base / "run.d/job-2/values.sh"
    ).is_file()


def test_an_older_part_goes_unless_a_living_process_uses_it(run):
    top = Path(run.base) / "run.d"
    put(top / "runner-0", ENTRY)
    put(top / "runner-1", ENTRY)
    put(top / "job-1", "job.json")
    with (top / "runner-1" / ENTRY).open() as used:
        fcntl.flock(used, fcntl.LOCK_SH)
        parts.keep(run)
        assert sorted(path.name for path in top.iterdir()) == ["job-2", "runner-1", "runner-2"]
    parts.keep(run)
    assert sorted(path.name for path in top.iterdir()) == ["job-2", "runner-2"]


def test_a_part_that_is_still_being_written_stays(run):
    top = Path(run.base) / "run.d"
    put(top / "runner-3", "probe.py")
    parts.keep(run)
    assert (top / "runner-3/probe.py").exists()


def test_modules_are_compiled_once_and_a_full_disk_leaves_none_cut(tmp_path, monkeypatch):
    put(tmp_path, ENTRY)
    compiling.compile_all(str(tmp_path))
    (found,) = (tmp_path / "remote_gpu_trainer/runner/__pycache__").iterdir()
    first = found.stat().st_mtime_ns
    compiling.compile_all(str(tmp_path))
    assert found.stat().st_mtime_ns == first

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    found.unlink()
    next(tmp_path.glob("compiled.*")).unlink()
    monkeypatch.setattr(compiling.os, "fsync", full)
    compiling.compile_all(str(tmp_path))
    assert not list(found.parent.iterdir()) and not list(tmp_path.glob("compiled.*"))


def test_a_run_shares_the_runner_of_another_one_beside_it(tmp_path):
    name = f"run.d/runner-2/{ENTRY}"
    put(tmp_path / "one", name)
    (tmp_path / "two").mkdir()
    box_end.share(str(tmp_path / "two"), [name, "run.d/job-1/job.json", "run.sh"])
    assert (tmp_path / "two" / name).samefile(tmp_path / "one" / name)
    box_end.share(str(tmp_path / "none/three"), [name])  # the first run of a box


def test_a_disk_that_fills_up_leaves_no_part_of_a_run_d(tmp_path, monkeypatch):
    names = {f"runner-a/{number}.py": "x" for number in range(3)}
    write = unpack._write

    def fill_up(path, text):
        if path.endswith("2.py"):
            raise OSError(28, "No space left on device")
        write(path, text)

    monkeypatch.setattr(unpack, "_write", fill_up)
    with pytest.raises(OSError, match="No space"):
        unpack.put(names, str(tmp_path / "run.d"))
    assert list((tmp_path / "run.d").iterdir()) == []
    monkeypatch.setattr(unpack, "_write", write)
    assert unpack.put(names, str(tmp_path / "run.d")) == str(tmp_path / "run.d")
    assert sorted(file.name for file in (tmp_path / "run.d/runner-a").iterdir()) == [
        "0.py",
        "1.py",
        "2.py",
    ]
