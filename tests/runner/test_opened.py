"""What inotify tells of the files that a start was to go on from."""

import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import opened
from remote_gpu_trainer.runner.context import Run

from tests.runner.jobs import job_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify")


@pytest.fixture
def run(tmp_path) -> Run:
    folder = tmp_path / "ckpt"
    (folder / "step-20").mkdir(parents=True)
    for name in (
        "step-10.pt",
        "step-20/model.safetensors",
        "step-20/log.txt",
        "notes.json",
        "other.pt",
    ):
        (folder / name).write_bytes(b"1" * 100)
    fields = {
        "rendered": {"run_dir": str(tmp_path / "run")},
        "checkpoint": {"folder": str(folder), "pattern": "step-*"},
    }
    return Run(job_of({"name": "toy"}, fields))


def watched(run: Run) -> opened.Opened:
    watch = opened.Opened(run, f"{run.checkpoints}/step-20")
    weights = [f"{run.checkpoints}/{name}" for name in ("step-10.pt", "step-20/model.safetensors")]
    assert watch.newest == max(os.stat(path).st_mtime_ns for path in weights)
    assert watch.found() is False
    return watch


def append(path: str) -> None:
    with open(path, "a") as file:
        file.write("more")


def over(path: str) -> None:
    with open(path, "wb") as file:
        file.write(b"2")
    Path(path).read_bytes()  # the runner reads what was saved


def replaced(path: str) -> None:
    Path(path + ".new").write_bytes(b"2")
    os.replace(path + ".new", path)
    Path(path).read_bytes()


def other_process(path: str) -> None:
    subprocess.run(["cat", path], check=True, stdout=subprocess.DEVNULL)


def mapped(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    held.append(mmap.mmap(file, 0, prot=mmap.PROT_READ))
    os.close(file)


def over_and_other(path: str) -> None:
    over(path)
    Path(path).with_name("other.pt").read_bytes()


def over_and_log(path: str) -> None:
    """A program that notes its start beside what it loads."""
    append(str(Path(path).with_name("log.txt")))
    over(str(Path(path).parent.parent / "step-10.pt"))
    Path(path).read_bytes()


def linked(path: str) -> None:
    os.link(path, path + "-elsewhere")
    Path(path + "-elsewhere").read_bytes()


held: list[mmap.mmap] = []


@pytest.mark.parametrize(
    ("how", "name", "found"),
    [
        (lambda path: Path(path).read_bytes(), "step-10.pt", True),
        (lambda path: Path(path).read_bytes(), "step-20/model.safetensors", True),
        (lambda path: Path(path).read_bytes(), "other.pt", None),
        (lambda path: Path(path).read_bytes(), "notes.json", False),
        (other_process, "step-20/model.safetensors", True),
        (mapped, "step-20/model.safetensors", True),
        (linked, "step-10.pt", True),
        (os.stat, "step-10.pt", False),
        (lambda path: os.listdir(os.path.dirname(path)), "step-20/model.safetensors", False),
        (append, "step-10.pt", False),
        (over, "step-10.pt", False),
        (over_and_other, "step-10.pt", None),
        (over_and_log, "step-20/model.safetensors", True),
        (replaced, "step-10.pt", False),
        (os.remove, "step-10.pt", False),
    ],
)  # fmt: skip
def test_a_file_is_opened_by_whoever_reads_it_before_it_is_written_anew(run, how, name, found):
    watch = watched(run)
    how(f"{run.checkpoints}/{name}")
    assert watch.found() is found
    watch.close()
    while held:
        held.pop().close()


def test_what_was_read_and_then_written_anew_was_opened(run):
    watch = watched(run)
    path = f"{run.checkpoints}/step-10.pt"
    Path(path).read_bytes()
    over(path)
    assert watch.found() is True and watch.found() is True


def test_where_not_all_is_seen_nothing_is_told(run, monkeypatch):
    monkeypatch.setattr(opened, "MOST", 1)
    watch = opened.Opened(run, f"{run.checkpoints}/step-20")
    assert watch.found() is None
    Path(run.checkpoints, "step-20/model.safetensors").read_bytes()
    assert watch.found() is True


def test_a_folder_that_hangs_holds_no_start(run, monkeypatch):
    monkeypatch.setattr(opened, "LIMIT", 0.2)
    monkeypatch.setattr(opened, "_add_all", lambda *_: __import__("time").sleep(60))
    assert opened.Opened(run, f"{run.checkpoints}/step-20").found() is None


@pytest.mark.parametrize("how", ["no library", "none left"])
def test_without_inotify_nothing_is_told(run, monkeypatch, how):
    class Used:
        inotify_init1 = staticmethod(lambda _: -1)
        inotify_add_watch = staticmethod(lambda *_: -1)

    def library(*_, **__):
        if how == "no library":
            raise OSError("no libc")
        return Used

    monkeypatch.setattr(opened.ctypes, "CDLL", library)
    before = time.time_ns()
    watch = opened.Opened(run, f"{run.checkpoints}/step-20")
    assert watch.found() is None
    assert watch.newest < before if how == "none left" else watch.newest >= before
    watch.close()


def test_what_was_mapped_before_it_was_written_anew_was_opened(run):
    watch = watched(run)
    path = f"{run.checkpoints}/step-20/model.safetensors"
    mapped(path)
    assert watch.found() is True
    over(path)
    assert watch.found() is True
    held.pop().close()


@pytest.mark.parametrize("name", ["step-30.json", "step-30/state.json"])
def test_a_checkpoint_of_json_is_one_too(run, name):
    path = Path(run.checkpoints, name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("{}")
    watch = opened.Opened(run, f"{run.checkpoints}/{name.partition('/')[0]}")
    assert watch.found() is False
    path.read_text()
    assert watch.found() is True


def test_a_linked_folder_in_a_checkpoint_isnt_seen_into(run, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/a.pt").write_bytes(b"1")
    os.symlink(tmp_path / "elsewhere", f"{run.checkpoints}/step-20/part")
    assert opened.Opened(run, f"{run.checkpoints}/step-20").found() is None
