"""Which checkpoint a program goes on from, and what is told of the others."""

import json
import os
import pickle
import shutil
import time
import zipfile
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import checkpoints, fetch, log, notices, resuming
from remote_gpu_trainer.runner.checkpoints import Checkpoint, SaveTimes
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.core import resume
from remote_gpu_trainer.runner.core.model import Verdict
from remote_gpu_trainer.runner.resuming import Lost

from tests.runner.jobs import job_of

AGE = 1_700_000_000


class Box:
    """A run with a folder of checkpoints, and what it told."""

    def __init__(self, folder: Path, monkeypatch, rank: int = 0, **fields):
        self.folder = folder / "ckpt"
        self.folder.mkdir(exist_ok=True)
        given = {
            "name": "toy",
            "rendered": {"run_dir": str(folder / "run"), "work_dir": str(folder)},
            "checkpoint": {"folder": "ckpt", "pattern": "step-*"},
            "step_pattern": "step [0-9]+",
            "timings": {"tick": 0.01, "copy_quiet": 30.0},
        }
        self.run = Run(job_of(given, fields), rank=rank)
        self.run.folder.make()
        self.told: list[str] = []
        monkeypatch.setattr(notices, "notify", lambda run, text: self.told.append(text))

    def save(self, step: int, corrupt: bool = False, ending: str = "pt", when: float = 0) -> Path:
        path = self.folder / f"step-{step}.{ending}"
        if ending == "pt":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("data", os.urandom(100))
        else:
            path.write_bytes(pickle.dumps({"step": step}))
        if corrupt:
            path.write_bytes(path.read_bytes()[:-20])
        os.utime(path, (when or AGE + step,) * 2)
        return path

    def names(self) -> list[str]:
        found = [path for path in self.folder.rglob("*") if path.name != ".corrupt"]
        return sorted(str(path.relative_to(self.folder)) for path in found)

    def until(self, is_true) -> None:
        until = time.monotonic() + 20
        while not is_true():
            assert time.monotonic() < until
            time.sleep(0.01)

    def events(self, name: str) -> list[dict]:
        lines = map(json.loads, self.run.folder.read("events.jsonl").splitlines())
        return [line for line in lines if line["event"] == name]


@pytest.fixture
def make(tmp_path, monkeypatch):
    return lambda **fields: Box(tmp_path, monkeypatch, **fields)


def test_the_newest_whole_one_is_found_with_its_step(make):
    box = make()
    assert checkpoints.newest(box.run) is None and resuming.choose_checkpoint(box.run) is None
    box.save(9)
    ten = box.save(10)
    found = checkpoints.newest(box.run)
    assert found and (found.path, found.step) == (str(ten), 10)
    assert resuming.choose_checkpoint(box.run) == found
    box.save(10, when=AGE + 100)
    again = checkpoints.newest(box.run)
    assert again and again.path == found.path and again.id != found.id


def test_a_job_without_checkpoints_starts_no_child(make, monkeypatch):
    box = make(checkpoint={"pattern": ""})
    box.save(10)
    monkeypatch.setattr(os, "fork", lambda: 1 / 0)
    assert checkpoints.newest(box.run) is resuming.choose_checkpoint(box.run) is None
    assert checkpoints.glance(box.run) == ""


@pytest.mark.parametrize(
    ("resume", "name"), [("automatic", ".corrupt/step-15.pt"), ("flag", "step-15.pt")]
)
def test_a_corrupt_one_is_set_aside_where_the_program_would_load_it(make, resume, name):
    box = make(resume=resume)
    box.save(5)
    ten = box.save(10)
    box.save(15, corrupt=True)
    found = resuming.choose_checkpoint(box.run)
    assert found and found.path == str(ten)
    assert box.names() == sorted(["step-10.pt", name, "step-5.pt"])
    assert box.events("corrupt-checkpoint")[0]["entry"] == "C2"
    assert len(box.events("renamed")) == (resume == "automatic")


def test_a_name_to_set_aside_is_one_that_is_free(make):
    box = make()
    box.save(5)
    (box.folder / ".corrupt").mkdir()
    for name in (".corrupt/step-10.pt", ".corrupt/step-10.pt.2"):
        (box.folder / name).touch()
    box.save(10, corrupt=True)
    resuming.choose_checkpoint(box.run)
    assert (box.folder / ".corrupt/step-10.pt.3").stat().st_size > 0 and not box.told


def test_a_folder_without_a_whole_one_is_never_begun_anew_in(make):
    box = make()
    box.save(5, corrupt=True)
    box.save(10, corrupt=True)
    with pytest.raises(
        Lost, match=r"none of the 2 checkpoints in .*ckpt is whole \(step-10.pt:"
    ) as lost:
        resuming.choose_checkpoint(box.run)
    assert lost.value.verdict[:2] == ("bug", "C2")
    assert box.names() == ["step-10.pt", "step-5.pt"], "or the next start would find nothing"
    box.run.spec.resume = "none"
    assert resuming.choose_checkpoint(box.run) is None


def test_a_run_that_died_in_its_first_save_begins_anew(make):
    box = make()
    box.save(5, corrupt=True)
    box.run.folder.write("attempt.json", '{"attempt": 1}')
    with pytest.raises(Lost):  # it lay there before the run
        resuming.choose_checkpoint(box.run)
    box.run.folder.write("attempt.json", '{"attempt": 2}')
    assert resuming.choose_checkpoint(box.run) is None
    assert box.names() == [".corrupt/step-5.pt"] and box.events("corrupt-checkpoint")
    box.save(5)
    resuming.choose_checkpoint(box.run)
    box.save(5, corrupt=True)
    with pytest.raises(Lost):  # and one that had a whole one doesn't
        resuming.choose_checkpoint(box.run)


def test_on_several_nodes_another_one_may_be_writing(make):
    for rank in (0, 1):
        box = make(nodes=2, rank=rank)
        box.save(10, corrupt=True, when=time.time())
        assert resuming.choose_checkpoint(box.run) is None and box.names() == ["step-10.pt"]
        box.save(10, corrupt=True)
        with pytest.raises(Lost):
            resuming.choose_checkpoint(box.run)
        box.save(5)
        found = resuming.choose_checkpoint(box.run)
        assert found and found.step == 5
        assert box.names() == [("step-10.pt", ".corrupt/step-10.pt")[rank == 0], "step-5.pt"]
        shutil.rmtree(box.folder)
        box.folder.mkdir()


def test_a_folder_that_does_not_answer_is_no_empty_one(make, monkeypatch):
    box = make(timings={"tick": 0.01, "copy_quiet": 0.1})
    box.save(5)
    checkpoints.newest(box.run)
    monkeypatch.setattr(checkpoints.content, "look", lambda *_: time.sleep(60))
    with pytest.raises(Lost, match="can't be looked at .no progress for 0.1 s.") as lost:
        resuming.choose_checkpoint(box.run)
    assert lost.value.verdict[:2] == ("bug", "C4")
    found = checkpoints.newest(box.run)
    assert found and found.step == 5, "as it was last"


def test_a_run_whose_checkpoints_are_gone_says_so(make):
    box = make()
    box.save(10)
    resuming.choose_checkpoint(box.run)
    (box.folder / "step-10.pt").unlink()
    assert resuming.choose_checkpoint(box.run) is None
    assert box.events("lost-checkpoints")[0]["last"].endswith("step-10.pt")
    assert "(C4)" in box.told[0] and "training starts from nothing" in box.told[0]


def test_what_is_gone_here_comes_from_the_durable_place(make, monkeypatch):
    box = make(durable={"to": "/durable"})
    box.save(10)
    resuming.choose_checkpoint(box.run)
    (box.folder / "step-10.pt").unlink()

    def restore(run, beat):
        box.save(5)

    monkeypatch.setattr(fetch, "restore", restore)
    found = resuming.choose_checkpoint(box.run)
    assert found and found.step == 5 and not box.told
    (box.folder / "step-5.pt").unlink()
    monkeypatch.setattr(fetch, "restore", lambda *_: Verdict("network", "", "no answer"))
    with pytest.raises(Lost, match="no answer") as lost:
        resuming.choose_checkpoint(box.run)
    assert lost.value.verdict[:2] == ("network", "C4")


def test_a_glance_waits_for_nothing_and_finds_what_came(make, monkeypatch):
    box = make()
    assert checkpoints.glance(box.run) == ""
    box.save(10)
    box.until(lambda: checkpoints.glance(box.run))
    found = checkpoints.latest(box.run)
    assert found and found.step == 10
    assert checkpoints.last_seen(box.run) == found.path
    monkeypatch.setattr(checkpoints.content, "look", lambda *_: time.sleep(60))
    begin = time.monotonic()
    for _ in range(3):
        assert checkpoints.glance(box.run) == found.path
    assert time.monotonic() - begin < 10
    assert checkpoints.newest(box.run, beat=lambda: True) == found


def test_one_that_crashed_is_set_aside_and_told_and_gets_its_name_back(make):
    box = make()
    box.save(10, ending="pkl")
    assert checkpoints.find_older(box.run, checkpoints.newest(box.run).id) == "", "it is the only"
    box.save(20, ending="pkl")
    newest = checkpoints.newest(box.run)
    older = checkpoints.find_older(box.run, newest.id)
    assert resume.path_of(older) == str(box.folder / "step-10.pkl")
    for number in (1, 2):
        resuming.set_aside(box.run, newest.path, older)
        assert box.names() == [".corrupt/step-20.pkl", "step-10.pkl"]
        assert "no attempt has ever loaded it (C2)" in box.told[number - 1]
        resuming.restore(box.run, newest.path)
        assert box.names() == ["step-10.pkl", "step-20.pkl"]
    assert len(box.events("renamed")) == 4


def test_one_in_two_files_that_crashed_is_set_aside_and_given_back_as_both(make):
    box = make(checkpoint={"pattern": "*.pkl"})
    for step in (10, 20):
        box.save(step, ending="pkl")
        shutil.copy(box.folder / f"step-{step}.pkl", box.folder / f"D_step-{step}.pkl")
    newest = checkpoints.newest(box.run)
    older = checkpoints.find_older(box.run, newest.id)
    assert resume.path_of(older).endswith("step-10.pkl"), "not the other half of the newest"
    resuming.set_aside(box.run, newest.path, older)
    both = [".corrupt/D_step-20.pkl", ".corrupt/step-20.pkl"]
    assert box.names() == [*both, "D_step-10.pkl", "step-10.pkl"]
    resuming.restore(box.run, newest.path)
    assert len(box.names()) == 4 and not (box.folder / ".corrupt").exists()


def test_no_name_is_given_back_that_another_one_has_since(make):
    box = make()
    box.save(20, ending="pkl")
    resuming.set_aside(box.run, str(box.folder / "step-20.pkl"), "")
    box.save(20, ending="pkl")
    resuming.restore(box.run, str(box.folder / "step-20.pkl"))
    assert box.names() == [".corrupt/step-20.pkl", "step-20.pkl"]
    resuming.set_aside(box.run, str(box.folder / "step-20.pkl"), "")
    resuming.restore(box.run, str(box.folder / "step-20.pkl"))
    assert box.names() == [".corrupt/step-20.pkl", "step-20.pkl"], "the one that was moved last"


def test_the_bars_of_a_program_that_loads_are_no_steps(make):
    run = make(step_pattern="[0-9]+/[0-9]+").run
    run.folder.write("log/train.log.0000", "Loading shards: 1/2\rLoading shards: 2/3\n")
    assert not log.has_stepped(run, 0)
    run.folder.write("log/train.log.0000", "1/9\n2/8\n")
    assert log.has_stepped(run, 0)


@pytest.mark.parametrize(
    ("how", "name", "words", "variables"),
    [
        ("flag", "--from", ["--from", "/c/step-1"], {}),
        ("flag", "--from=", ["--from=/c/step-1"], {}),
        ("variable", "FROM", [], {"FROM": "/c/step-1"}),
        ("switch", "--init_from=resume", ["--init_from=resume"], {}),
        ("automatic", "", [], {}),
    ],
)
def test_a_program_is_told_as_its_job_says(make, how, name, words, variables):
    run = make(resume={"flag": None, "variable": None, how: name} if name else how).run
    one = Checkpoint("/c/step-1", 1, "")
    assert resuming.arguments(run, one) == words
    assert resuming.variables(run, one) == variables
    assert resuming.arguments(run, None) == [] and not resuming.variables(run, None)


def test_a_save_gets_the_time_that_one_took(make):
    times = SaveTimes(make(checkpoint={"save_seconds": 30.0}).run)
    assert times.seconds() == 30
    times.note_save(100, 104)
    times.note_save(200, 202)
    assert times.seconds() == 7
    times.note_save(300, 380)
    assert times.seconds() == 30


def test_a_save_is_measured_by_its_files(make):
    box = make(checkpoint={"save_seconds": 30.0})
    times = SaveTimes(box.run)

    def glanced(name: str) -> None:
        box.until(lambda: checkpoints.glance(box.run).endswith(name))

    folder = box.folder / "step-10"
    folder.mkdir()
    (folder / "a.bin").write_bytes(b"1")
    time.sleep(0.2)
    (folder / "b.bin").write_bytes(b"2")
    glanced("step-10")
    assert 1.25 < times.seconds() < 15
    before = times.seconds()
    (box.folder / "step-20").mkdir()
    for name in ("a.bin", "b.bin"):
        (box.folder / "step-20" / name).write_bytes(b"1")
        os.utime(box.folder / "step-20" / name, (AGE, AGE))  # as of a copy
    glanced("step-20")
    assert times.seconds() == before
