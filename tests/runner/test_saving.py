"""A save that goes on: who writes what, and who waits for it."""

import os
import signal
import subprocess
import sys
import time

import pytest
from remote_gpu_trainer.runner import saving, stopping
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.core.model import Save
from remote_gpu_trainer.runner.core.stop import STILL

from tests.runner.jobs import job_of

from .clocks import Clock


@pytest.mark.parametrize(
    ("path", "pattern", "is_one"),
    [
        ("/r/out/ckpt.pt", "ckpt.pt", True),
        ("/r/out/ckpt.pt.tmp", "ckpt.pt", True),
        ("/r/out/step_5.json", "step_*.json", True),
        ("/r/out/checkpoint-5/trainer_state.json", "checkpoint-*", True),
        ("/r/out/train.log", "*", False),
        ("/r/out/events.out.tfevents.1", "*", False),
        ("/r/out/metrics.jsonl", "ckpt.pt", False),
        ("/elsewhere/model.safetensors", "ckpt.pt", True),
        ("/elsewhere/notes", "ckpt.pt", False),
        ("/r/res/final", "ckpt.pt", True),
    ],
)
def test_what_belongs_to_a_save(path, pattern, is_one):
    assert saving.is_of_save(path, "/r/out", pattern, ["/r/res/final"]) is is_one


WRITER = """
import signal, sys, time
if sys.argv[2] == "handles": signal.signal(signal.SIGTERM, lambda *_: None)
log = open(sys.argv[1] + "/train.log", "a")
time.sleep(0.5)
with open(sys.argv[1] + "/out/ckpt.pt", "wb") as file:
    file.write(b"x" * 100); file.flush(); print("saving", flush=True); time.sleep(3)
print("saved", flush=True)
time.sleep(30)
"""


@pytest.fixture
def writer(tmp_path):
    (tmp_path / "out").mkdir()
    made = []

    def start(how: str = "") -> subprocess.Popen:
        words = [sys.executable, "-c", WRITER, str(tmp_path), how]
        made.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        return made[-1]

    yield start
    for one in made:
        one.kill()
        one.wait()


def test_a_save_is_seen_from_its_beginning_to_its_end(tmp_path, writer):
    fields = {"checkpoint": {"folder": "out", "pattern": "ckpt.pt"}}
    run = Run(job_of({"rendered": {"run_dir": str(tmp_path)}}, fields), here=str(tmp_path))
    child = writer()
    assert child.stdout.readline() == "saving\n"
    watch, begin = saving.Watch(run), time.monotonic()
    path = str(tmp_path / "out/ckpt.pt")
    seen = []
    while not seen or seen[-1]:
        seen.append(watch.look([child.pid]).path)
        time.sleep(0.05)
        assert time.monotonic() < begin + 20
    assert path in seen and time.monotonic() - begin >= 2.5
    assert child.stdout.readline() == "saved\n"
    assert str(tmp_path / "train.log") in saving.open_for_writing([child.pid])


def test_what_a_killed_save_left_behind_is_no_save(tmp_path):
    fields = {"checkpoint": {"folder": "out", "pattern": "*.pt"}}
    run = Run(job_of({"rendered": {"run_dir": str(tmp_path)}}, fields), here=str(tmp_path))
    words = "import sys, time; file = open(sys.argv[1], 'wb'); print(file.write(b'x'), flush=True); time.sleep(60)"
    left = str(tmp_path / "out/ckpt.pt.tmp")
    (tmp_path / "out").mkdir()
    child = subprocess.Popen([sys.executable, "-c", words, left], stdout=subprocess.PIPE)
    child.stdout.readline()
    assert saving.Watch(run).look([child.pid]).path == left
    child.kill()
    child.wait()
    watch, begin = saving.Watch(run), time.monotonic()
    while watch.look([os.getpid()]).path:
        time.sleep(0.05)
        assert time.monotonic() < begin + STILL + 1
    assert not watch.has_seen


def test_who_handles_a_signal_is_read_from_the_kernel(writer):
    deaf, handler = writer(), writer("handles")
    assert handler.stdout.readline() and deaf.stdout.readline()
    assert saving.catches([handler.pid], signal.SIGTERM)
    assert not saving.catches([deaf.pid], signal.SIGTERM)
    assert not saving.ignores([deaf.pid], signal.SIGTERM)


def test_output_of_the_program_is_what_it_writes_in_its_folder(tmp_path, writer):
    run = Run(job_of({"rendered": {"run_dir": str(tmp_path)}}), here=str(tmp_path))
    child = writer()
    child.stdout.readline()
    before = saving.stamp_output(run, [child.pid])
    assert "train.log" in before
    with open(tmp_path / "train.log", "a") as file:
        file.write("more")
    assert saving.stamp_output(run, [child.pid]) != before
    assert saving.stamp_output(run, [os.getpid()]) == ""


@pytest.mark.parametrize(
    ("path", "saved", "step", "told"),
    [
        ("/a/ckpt_50", 50, 100, "it falls back to ckpt_50, 50 steps lost"),
        ("/a/ckpt_50", 50, 51, "it falls back to ckpt_50, 1 step lost"),
        ("/a/ckpt.pt", None, 100, "it falls back to ckpt.pt"),
        ("/a/epoch_3.pt", 3, None, "it falls back to epoch_3.pt"),
        ("", None, 100, "no complete checkpoint is here"),
    ],
)
def test_what_an_end_cost_is_told(path, saved, step, told):
    assert stopping.tell_cost(path, saved, step).endswith(told)


def test_a_save_into_the_same_file_is_one_in_place(tmp_path):
    path = tmp_path / "ckpt.pt"
    path.write_text("1")
    inode = saving.inode_of(str(path))
    path.write_text("2")
    assert saving.is_in_place(str(path), str(path), inode)
    (tmp_path / "new").write_text("3")
    os.replace(tmp_path / "new", path)
    assert not saving.is_in_place(str(path), str(path), inode)


@pytest.mark.parametrize(
    ("seconds", "has_seen", "waited"), [(0, True, 0), (5, True, 5), (5, False, 5), (500, True, 60)]
)
def test_an_end_waits_for_a_save_within_its_time_and_tells_of_it_once(
    tmp_path, monkeypatch, capsys, seconds, has_seen, waited
):
    run = Run(job_of({"rendered": {"run_dir": str(tmp_path)}, "name": "toy"}), clock=Clock())
    run.folder.make()
    begin, told = run.up, []

    class Saves:
        def __init__(self, _):
            self.has_seen = has_seen

        def look(self, pids):
            told.append(run.folder.has(saving.FILE))
            return Save("/r/ckpt.pt" if run.up - begin < seconds else "")

    monkeypatch.setattr(saving, "Watch", Saves)
    monkeypatch.setattr(stopping.procs, "of_program", lambda *_: {1})
    monkeypatch.setattr(saving, "catches", lambda *_: False)
    stopping.wait_for_save(run, "asked", save=30.0)
    assert run.up - begin == pytest.approx(waited, abs=0.2)
    assert not run.folder.has(saving.FILE), "nobody is told of it any more"
    is_told = has_seen and seconds > 0
    assert capsys.readouterr().out.count("waiting for the save of /r/ckpt.pt to end\n") == is_told
    assert any(told) == is_told


def test_what_a_stop_costs_is_told_by_the_run_s_rhythm_never_by_a_shortened_one():
    tell = stopping.tell_steps_between
    assert tell(6, 7, False, 0) == "up to 1 step (what it trains between two saves here)"
    for told in (tell(6, 7, True, 0), tell(None, 7, False, 0)):
        assert told.endswith("since its last save, which depends on how often the run saves")
    assert "up to 30 min, by the job's checkpoint.every_minutes" in tell(6, 7, True, 1800)
