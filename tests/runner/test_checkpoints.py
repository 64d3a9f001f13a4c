"""Which checkpoint a program goes on from, and what is told of the others."""

import json
import os
import pickle
import shutil
import time
import zipfile
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import apart, checkpoints, fetch, notices, spec, why
from remote_gpu_trainer.runner.asking import Failed
from remote_gpu_trainer.runner.checkpoints import Checkpoint, Lost, SaveTimes
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.why import Verdict

AGE = 1_700_000_000


class Box:
    """A run with a folder of checkpoints, and what it told."""

    def __init__(self, folder: Path, monkeypatch, rank: int = 0, **fields):
        self.folder = folder / "ckpt"
        self.folder.mkdir(exist_ok=True)
        given = {
            "name": "toy",
            "run_dir": str(folder / "run"),
            "work_dir": str(folder),
            "checkpoint_folder": "ckpt",
            "checkpoint_pattern": "step-*",
            "step_pattern": "step [0-9]+",
            "timings": {"tick": 0.01, "copy_quiet": 30.0},
            **fields,
        }
        self.run = Run(spec.of(given), rank=rank)
        self.run.folder.make()
        self.told: list[str] = []
        monkeypatch.setattr(notices, "notify", lambda run, text: self.told.append(text))
        monkeypatch.setattr(why, "entry_of", _entry)

    def save(self, step: int, torn: bool = False, ending: str = "pt", when: float = 0) -> Path:
        path = self.folder / f"step-{step}.{ending}"
        if ending == "pt":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("data", os.urandom(100))
        else:
            path.write_bytes(pickle.dumps({"step": step}))
        if torn:
            path.write_bytes(path.read_bytes()[:-20])
        os.utime(path, (when or AGE + step,) * 2)
        return path

    def names(self) -> list[str]:
        found = [path for path in self.folder.rglob("*") if path.name != ".torn"]
        return sorted(str(path.relative_to(self.folder)) for path in found)

    def until(self, is_true) -> None:
        until = time.monotonic() + 20
        while not is_true():
            assert time.monotonic() < until
            time.sleep(0.01)

    def events(self, name: str) -> list[dict]:
        lines = map(json.loads, self.run.folder.read("events.jsonl").splitlines())
        return [line for line in lines if line["event"] == name]


def _entry(run: Run, kind: str) -> str:
    return {"torn": "C2", "lost": "C4"}[kind]


@pytest.fixture
def make(tmp_path, monkeypatch):
    return lambda **fields: Box(tmp_path, monkeypatch, **fields)


def test_the_newest_whole_one_is_found_with_its_step(make):
    box = make()
    assert checkpoints.newest(box.run) is None and checkpoints.begin_with(box.run) is None
    box.save(9)
    ten = box.save(10)
    found = checkpoints.newest(box.run)
    assert found and (found.path, found.step) == (str(ten), 10)
    assert checkpoints.begin_with(box.run) == found
    box.save(10, when=AGE + 100)
    again = checkpoints.newest(box.run)
    assert again and again.path == found.path and again.id != found.id


def test_a_job_without_checkpoints_starts_no_child(make, monkeypatch):
    box = make(checkpoint_pattern="")
    box.save(10)
    monkeypatch.setattr(os, "fork", lambda: 1 / 0)
    assert checkpoints.newest(box.run) is checkpoints.begin_with(box.run) is None
    assert checkpoints.glance(box.run) == ""


@pytest.mark.parametrize(
    ("resume", "name"), [("automatic", ".torn/step-15.pt"), ("flag", "step-15.pt")]
)
def test_a_torn_one_is_set_aside_where_the_program_would_load_it(make, resume, name):
    box = make(resume=resume)
    box.save(5)
    ten = box.save(10)
    box.save(15, torn=True)
    found = checkpoints.begin_with(box.run)
    assert found and found.path == str(ten)
    assert box.names() == sorted(["step-10.pt", name, "step-5.pt"])
    assert box.events("torn-checkpoint")[0]["entry"] == "C2"
    assert len(box.events("renamed")) == (resume == "automatic")
    told = checkpoints.skipped(box.run)
    assert told.startswith("step-15.pt is not whole (")
    assert told.endswith("), so this attempt began with step-10.pt")
    box.save(20)
    checkpoints.begin_with(box.run)
    assert not checkpoints.skipped(box.run)


def test_a_name_to_set_aside_is_one_that_is_free(make):
    box = make()
    box.save(5)
    (box.folder / ".torn").mkdir()
    for name in (".torn/step-10.pt", ".torn/step-10.pt.2"):
        (box.folder / name).touch()
    box.save(10, torn=True)
    checkpoints.begin_with(box.run)
    assert (box.folder / ".torn/step-10.pt.3").stat().st_size > 0 and not box.told


def test_a_folder_without_a_whole_one_is_never_begun_anew_in(make):
    box = make()
    box.save(5, torn=True)
    box.save(10, torn=True)
    with pytest.raises(
        Lost, match=r"none of the 2 checkpoints in .*ckpt is whole \(step-10.pt:"
    ) as lost:
        checkpoints.begin_with(box.run)
    assert lost.value.entry == "C2"
    assert box.names() == ["step-10.pt", "step-5.pt"], "or the next start would find nothing"
    box.run.spec.resume = "none"
    assert checkpoints.begin_with(box.run) is None


def test_a_run_that_died_in_its_first_save_begins_anew(make):
    box = make()
    box.save(5, torn=True)
    box.run.folder.write("attempt", "1\n")
    with pytest.raises(Lost):  # it lay there before the run
        checkpoints.begin_with(box.run)
    box.run.folder.write("attempt", "2\n")
    assert checkpoints.begin_with(box.run) is None
    assert box.names() == [".torn/step-5.pt"] and box.events("torn-checkpoint")
    box.save(5)
    checkpoints.begin_with(box.run)
    box.save(5, torn=True)
    with pytest.raises(Lost):  # and one that had a whole one doesn't
        checkpoints.begin_with(box.run)


def test_on_several_nodes_another_one_may_be_writing(make):
    for rank in (0, 1):
        box = make(nodes=2, rank=rank)
        box.save(10, torn=True, when=time.time())
        assert checkpoints.begin_with(box.run) is None and box.names() == ["step-10.pt"]
        box.save(10, torn=True)
        with pytest.raises(Lost):
            checkpoints.begin_with(box.run)
        box.save(5)
        found = checkpoints.begin_with(box.run)
        assert found and found.step == 5
        assert box.names() == [("step-10.pt", ".torn/step-10.pt")[rank == 0], "step-5.pt"]
        shutil.rmtree(box.folder)
        box.folder.mkdir()


def test_a_folder_that_does_not_answer_is_no_empty_one(make, monkeypatch):
    box = make(timings={"tick": 0.01, "copy_quiet": 0.1})
    box.save(5)
    checkpoints.newest(box.run)
    monkeypatch.setattr(checkpoints.content, "look", lambda *_: time.sleep(60))
    with pytest.raises(Lost, match="can't be looked at .no answer for 0.1 s.") as lost:
        checkpoints.begin_with(box.run)
    assert lost.value.entry == "C4"
    found = checkpoints.newest(box.run)
    assert found and found.step == 5, "as it was last"


def test_a_run_whose_checkpoints_are_gone_says_so(make):
    box = make()
    box.save(10)
    checkpoints.begin_with(box.run)
    (box.folder / "step-10.pt").unlink()
    assert checkpoints.begin_with(box.run) is None
    assert box.events("lost-checkpoints")[0]["last"].endswith("step-10.pt")
    assert "(C4)" in box.told[0] and "training starts from nothing" in box.told[0]


def test_what_is_gone_here_comes_from_the_durable_place(make, monkeypatch):
    box = make(durable="/durable")
    box.save(10)
    checkpoints.begin_with(box.run)
    (box.folder / "step-10.pt").unlink()

    def restore(run, beat):
        box.save(5)

    monkeypatch.setattr(fetch, "restore", restore)
    found = checkpoints.begin_with(box.run)
    assert found and found.step == 5 and not box.told
    (box.folder / "step-5.pt").unlink()
    monkeypatch.setattr(fetch, "restore", lambda *_: Verdict("network", "", "no answer"))
    with pytest.raises(Lost, match="no answer"):
        checkpoints.begin_with(box.run)


def test_a_glance_waits_for_nothing_and_finds_what_came(make, monkeypatch):
    box = make()
    assert checkpoints.glance(box.run) == ""
    box.save(10)
    box.until(lambda: checkpoints.glance(box.run))
    found = checkpoints.latest(box.run)
    assert found and found.step == 10
    assert box.run.folder.read("last-checkpoint") == f"{found.path}\n"
    monkeypatch.setattr(checkpoints.content, "look", lambda *_: time.sleep(60))
    begin = time.monotonic()
    for _ in range(3):
        assert checkpoints.glance(box.run) == found.path
    assert time.monotonic() - begin < 10
    assert checkpoints.newest(box.run, beat=lambda: True) == found


def crashed(box: Box, code: int | None = 1) -> why.Attempt:
    """An attempt that began with the newest and ended with this code."""
    found = checkpoints.newest(box.run)
    held = found.id if found else ""
    return why.Attempt(2, code, "", "", 0, None, None, 0, set(), held)


def doubted(box: Box, monkeypatch, failure: str = "bug", log: str = "", **more) -> bool:
    monkeypatch.setattr(why, "classify", lambda run, attempt: Verdict(failure, "", "it crashed"))
    box.run.folder.write("log/train.log.0000", log)
    return checkpoints.doubt(box.run, None, crashed(box, **more))


def test_a_crash_on_one_that_never_loaded_sets_it_aside_once(make, monkeypatch):
    box = make()
    box.save(10, ending="pkl")
    box.save(20, ending="pkl")
    assert doubted(box, monkeypatch)
    assert box.names() == [".torn/step-20.pkl", "step-10.pkl"]
    assert "no attempt has ever loaded it (C2)" in box.told[0]
    assert not doubted(box, monkeypatch), "the older one crashes too, so the program is to blame"
    assert box.names() == ["step-10.pkl", "step-20.pkl"]
    assert not doubted(box, monkeypatch), "and it isn't doubted again"


def test_a_later_crash_gives_no_old_name_back(make, monkeypatch):
    box = make()
    box.save(10, ending="pkl")
    box.save(20, ending="pkl")
    assert doubted(box, monkeypatch)
    box.save(30, ending="pkl")
    assert doubted(box, monkeypatch)
    assert box.names() == [".torn/step-20.pkl", ".torn/step-30.pkl", "step-10.pkl"]


@pytest.mark.parametrize(
    "given",
    [
        {"code": 0},
        {"code": None},
        {"failure": "host-oom"},
        {"log": "step 21\nstep 22\n"},
        {"fields": {"resume": "none"}},
        {"fields": {"nodes": 2}},
        {"steps": [20]},
    ],
    ids=str,
)
def test_one_that_is_not_to_blame_keeps_its_name(make, monkeypatch, given):
    box = make(**given.pop("fields", {}))
    steps = given.pop("steps", [10, 20])
    for step in steps:
        box.save(step, ending="pkl")
    assert not doubted(box, monkeypatch, **given)
    assert box.names() == [f"step-{step}.pkl" for step in steps]


def test_the_bars_of_a_program_that_loads_are_no_steps(make, monkeypatch):
    box = make(step_pattern="[0-9]+/[0-9]+")
    box.save(10, ending="pkl")
    box.save(20, ending="pkl")
    assert doubted(box, monkeypatch, log="Loading shards: 1/2\rLoading shards: 2/3\n")


def test_an_attempt_that_began_with_another_one_tells_nothing(make, monkeypatch):
    box = make()
    box.save(10, ending="pkl")
    attempt = crashed(box)
    box.save(20, ending="pkl")
    monkeypatch.setattr(why, "classify", lambda run, attempt: Verdict("bug", "", ""))
    assert not checkpoints.doubt(box.run, None, attempt)


@pytest.mark.parametrize(
    ("how", "name", "words", "variables"),
    [
        ("flag", "--from", ["--from", "/c/step-1"], {}),
        ("flag", "--from=", ["--from=/c/step-1"], {}),
        ("variable", "FROM", [], {"FROM": "/c/step-1"}),
        ("automatic", "", [], {}),
    ],
)
def test_a_program_is_told_as_its_job_says(make, how, name, words, variables):
    run = make(resume=how, resume_name=name).run
    one = Checkpoint("/c/step-1", 1, "")
    assert checkpoints.resume_words(run, one) == words
    assert checkpoints.resume_variables(run, one) == variables
    assert checkpoints.resume_words(run, None) == [] and not checkpoints.resume_variables(run, None)


def test_a_save_gets_the_time_that_one_took(make):
    times = SaveTimes(make(save_seconds=30.0).run)
    assert times.seconds() == 30
    times.note_save(100, 104)
    times.note_save(200, 202)
    assert times.seconds() == 7
    times.note_save(300, 380)
    assert times.seconds() == 30


def test_a_save_is_measured_by_its_files(make):
    box = make(save_seconds=30.0)
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


def test_a_child_that_reads_is_given_time_and_one_that_hangs_is_not(make, tmp_path):
    run = make(timings={"tick": 0.02, "copy_quiet": 0.3}).run

    def reads() -> str:
        for _ in range(30):
            time.sleep(0.02)
            (tmp_path / "run/run.sh").exists() or (tmp_path / "x").write_text("x")
        return "read"

    assert apart.call(run, reads) == "read"
    with pytest.raises(Failed, match="no answer for 0.3 s"):
        apart.call(run, time.sleep, 60)
