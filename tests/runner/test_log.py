"""The program's log: cut into files, capped, and never a trouble for the program."""

import json
import os
import resource
import shutil
from types import SimpleNamespace

import pytest
from remote_gpu_trainer.readings import course
from remote_gpu_trainer.runner import heartbeat, log
from remote_gpu_trainer.runner.context import Run

from tests.runner.clocks import Clock
from tests.runner.jobs import job_of


@pytest.fixture
def run(tmp_path) -> Run:
    timings = {"log_bytes": 100, "log_cap": 100_000}
    fields = {
        "rendered": {"run_dir": str(tmp_path / "run")},
        "timings": timings,
        "step_pattern": "step [0-9]+",
    }
    made = Run(job_of(fields), clock=Clock())
    made.folder.make()
    return made


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def written(run: Run) -> bytes:
    return log.tail(run, 0, 10**9)


def test_files_are_cut_at_their_limit_and_lose_nothing(run):
    writer = log.Writer(run, 0)
    text = b"".join(b"line %d\n" % n for n in range(200))
    for start in range(0, len(text), 37):
        writer.write(text[start : start + 37])
    writer.close()
    sizes = [len(read(path)) for path in log.files(run)]
    assert set(sizes[:-1]) == {100} and written(run) == text
    assert log.next_number(run) == len(sizes)


def test_a_full_disk_costs_lines_that_are_counted(run):
    full = run.folder.at("log", "train.log.0000")
    os.symlink("/dev/full", full)
    writer = log.Writer(run, 0)
    writer.write(b"a" * 30)
    writer.write(b"b" * 12)
    os.unlink(full)
    run.clock.nap(2)
    writer.write(b"there again\n")
    writer.close()
    assert written(run) == b"\n[42 bytes of this log were lost: its disk was full]\nthere again\n"
    assert '"log-lost"' in run.folder.read("events.jsonl")


def test_a_limit_on_the_size_of_files_loses_nothing(run):
    run.spec.timings.log_bytes = 10_000
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = log.Writer(run, 0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    try:
        writer.write(b"x" * 200)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    writer.close()
    assert written(run) == b"x" * 200 and len(log.files(run)) == 4


def test_the_cap_takes_the_oldest_files_but_the_first(run):
    run.spec.timings.log_cap = 500
    writer = log.Writer(run, 0)
    for n in range(20):
        writer.write(b"%02d" % n + b"." * 98)
    writer.close()
    kept = [read(path)[:2] for path in log.files(run)]
    assert kept == [b"00", b"16", b"17", b"18", b"19"]
    assert run.folder.read("events.jsonl").count("log-cut") == 1


def test_a_removed_folder_gets_a_new_file(run):
    writer = log.Writer(run, 0)
    writer.write(b"one\n")
    shutil.rmtree(run.folder.path)
    run.clock.nap(2)
    writer.write(b"two\n")
    assert written(run) == b""
    run.folder.make()
    writer.write(b"three\n")
    assert written(run).endswith(b"lost: No such file or directory]\nthree\n")


def test_the_tail_begins_at_a_file_of_this_attempt(run):
    for number, text in enumerate((b"old", b"first ", b"second")):
        with open(log.path(run, number), "wb") as file:
            file.write(text)
    assert log.tail(run, 1, 100) == b"first second"
    assert log.tail(run, 1, 8) == b"t second"
    assert log.tail(run, 3, 8) == b"" and log.next_number(run) == 3


BAR = b"\r 12%%|#    | %d/%d [00:10<01:20, 11.2it/s]"


@pytest.mark.parametrize(("pattern", "text", "step"), [
    ("step [0-9]+", b"step 4\nstep 5 of 10\nloss 3\n", 5),
    ("step [0-9]+", b" 1/9 step 1\r 2/9 step 2\r", 2),
    ("[0-9]+/100", b"7/100\n12/100", 100),
    (r"\bit\s*\d+", b"hit 9\nit  3\n", 3),
    ("[[:digit:]]+/100", b"7/100", None),  # Python takes it for something else
    ("step [0-9]+", b"nothing", None),
    ("(step", b"step 4", None),
    ("", b"step 4\nstep 5/10 loss 2\nevery 7 steps", 5),
    ("", b"Loading: 50%|##  | 2/4 [00:01<00:01,  1.2it/s]", None),
    ("step [0-9]+", b"step " + b"9" * 40, None),
    ("step [0-9]+", b"x" * 100_000 + b"step 8", 8),
    ("", BAR % (4468, 6000) + b"{'loss': 2.5, 'epoch': 1.2}\n" + BAR % (0, 4), 4468),
    ("", BAR % (4468, 6000) + BAR % (0, 4) + BAR % (4, 4), 4468),  # before its first loss
    ("", b"step 7 loss 2\n" + BAR % (3, 40), 7),
])  # fmt: skip
def test_the_step_is_the_last_that_the_pattern_finds(run, pattern, text, step):
    run.spec.step_pattern = pattern
    assert log.find_step(run, text) == step


def test_a_piece_that_shows_an_evaluation_alone_tells_no_step(run):
    run.spec.step_pattern, text = "", BAR % (0, 4) + BAR % (1, 4)
    run.folder.write("state.json", json.dumps({"reading": {"bar": 6000}}))
    assert log.find_step(run, text) is None
    assert log.find_step(run, BAR % (4468, 6000) + text) == 4468
    run.folder.write("state.json", json.dumps({"reading": {"bar": course.NO_BAR}}))
    assert log.find_step(run, text) is None and log.find_step(run, b"step 9\n" + text) == 9


def test_on_a_full_disk_a_file_is_written_over_in_its_own_bytes(run, monkeypatch):
    run.folder.write("rc", " " * 40)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    assert run.folder.overwrite("rc", '{"code": 3}') and run.folder.json("rc") == {"code": 3}
    assert not run.folder.overwrite("rc", "x" * 41) and run.folder.json("rc") == {"code": 3}


def test_a_moment_has_the_step_that_the_log_had_then(run):
    for number, first in ((0, 0), (7, 7)):
        writer = log.Writer(run, number)
        for step in range(first, first + 3):
            writer.write(b"step %d of many\n" % step)
            run.clock.nap(10.0)
        writer.close()
    begun = run.now - 60
    found = [log.step_at(run, 0, begun + seconds) for seconds in (-1, 1, 9, 11, 25, 31, 999)]
    assert found == [None, 0, 0, 1, 2, 7, 9]
    assert [log.step_at(run, 7, begun + seconds) for seconds in (25, 31, 45)] == [None, 7, 8]


def test_a_save_has_the_step_of_the_run_where_lines_count_those_of_an_epoch(run):
    run.spec.step_pattern = ""
    writer = log.Writer(run, 0)
    for step in (98, 99, 1, 2, 3):
        writer.write(b"step %d/100\n" % step)
        run.clock.nap(10.0)

    def step_of(seconds: float, course: int | None) -> int | None:
        reader = SimpleNamespace(run=run, first=0, series=SimpleNamespace())
        reader.series.course = SimpleNamespace(step=course, printed=3)
        return heartbeat.Heartbeat._step_at(reader, int((run.now - seconds) * 1e9))

    assert [step_of(15, None), step_of(15, 3), step_of(15, 2)] == [2, 2, 2]
    assert [step_of(15, 203), step_of(45, 203), step_of(99, 203)] == [202, None, None]
