"""What is complete on the box alone is held before another attempt may write over it."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import status, sync
from remote_gpu_trainer.runner.copies import held
from remote_gpu_trainer.runner.why import WAITS

from tests.runner.box import Box
from tests.runner.copying import Copier, events, fill, kept_steps, make

pytest_plugins = ["tests.runner.box"]

# Saves in place, and goes on from nothing. Its first attempt dies behind a complete save, its second
# in the middle of the next one.
PROGRAM = """\
import io, os, sys, time, zipfile
attempt, path = int(os.environ["RGT_ATTEMPT"]), os.path.join(os.environ["RGT_CHECKPOINT_DIR"], "last.pt")
os.makedirs(os.path.dirname(path), exist_ok=True)
memory = io.BytesIO()
with zipfile.ZipFile(memory, "w") as archive:
    archive.writestr("data", f"attempt {attempt}")
    archive.writestr("ballast", bytes(5000))
if attempt == 1:
    open(path, "wb").write(memory.getvalue())
    os.kill(os.getpid(), 9)
if attempt == 2:
    open(path, "wb").write(memory.getvalue()[:2000])
    os.kill(os.getpid(), 9)
print(zipfile.ZipFile(path).read("data").decode() if os.path.exists(path) else "nothing", flush=True)
open(os.path.join(os.environ["RGT_RUN_DIR"], "final.bin"), "wb").write(b"the end")
"""


def in_place(box: Box, **fields) -> Box:
    program = box.folder / "in_place.py"
    program.write_text(PROGRAM)
    given = {"checkpoint": {"pattern": "*.pt"}, "retries": {"killed": 5}, **fields}
    return box.make(command=[sys.executable, str(program)], **given)


def saved_by(path: Path) -> str:
    return zipfile.ZipFile(path).read("data").decode()


def held_files(box: Box, home: str = "run/.held.generations") -> list[Path]:
    return sorted((box.folder / home).glob("gen-*/files/last.pt"))


def test_without_a_durable_place_it_is_held_on_the_box_and_brought_back(box: Box):
    in_place(box).start()
    assert box.wait()["phase"] == "done"
    assert [saved_by(path) for path in held_files(box)] == ["attempt 1"]
    assert b"attempt 1\n" in box.output()  # what the third attempt found
    assert saved_by(box.checkpoints / "last.pt") == "attempt 1"


def test_a_program_that_begins_anew_leaves_what_it_wrote_over(box: Box):
    in_place(box, resume="none").start()
    box.wait()
    assert "attempt 1" in [saved_by(path) for path in held_files(box)]


def test_it_is_copied_to_the_durable_place_before_the_next_attempt(box: Box):
    in_place(
        box,
        durable={
            "to": str(box.folder / "durable"),
            "what": [str(box.checkpoints)],
            "every_minutes": 60,
        },
    )
    box.start()
    assert box.wait()["phase"] == "done"
    there = held_files(box, "durable/ckpt.generations")
    assert "attempt 1" in [saved_by(path) for path in there]
    names = [event["event"] for event in box.events()]
    assert names.index("copied") < [n for n, e in enumerate(names) if e == "attempt"][1]
    assert "held" not in names


def test_where_the_place_fails_it_is_held_and_copied_once_the_place_is_back(box: Box):
    (box.folder / "durable").mkdir()
    way = box.folder / "durable/ckpt.generations"
    way.write_text("in the way")
    in_place(
        box,
        resume="none",
        durable={"to": str(box.folder / "durable"), "what": [str(box.checkpoints)]},
    )
    box.start()
    box.until(lambda: len(box.events("attempt")) > 1, what="the second attempt")
    assert [saved_by(path) for path in held_files(box)][:1] == ["attempt 1"]
    way.unlink()
    box.until(lambda: held_files(box, "durable/ckpt.generations") and not held_files(box))
    there = held_files(box, "durable/ckpt.generations")
    assert "attempt 1" in [saved_by(path) for path in there]


def attempted(folder: Path, **fields):
    run = make(folder, **{"timings": {"tick": 0.05}, **fields})
    run.folder.write("attempt.json", '{"attempt": 1}')
    return run


NO_PLACE = {"durable": {"to": ""}}


def test_what_no_attempt_wrote_is_not_held(tmp_path):
    fill(tmp_path, 10)
    run = make(tmp_path, **NO_PLACE)
    assert held.find_alone(run) == []
    run.folder.write("attempt.json", '{"attempt": 1}')
    assert [group.name for group in held.find_alone(run)] == ["step-10.pt"]


def test_a_result_is_held_under_its_own_name_and_goes_to_the_durable_place(tmp_path):
    fill(tmp_path, 10)
    run = attempted(tmp_path, results=["final.bin"])
    assert sync.worker(run, "quick") == 0 and held.find_alone(run) == []
    final = Path(run.inside("final.bin"))
    final.write_bytes(b"another end")
    assert [group.name for group in held.find_alone(run)] == ["final.bin"]
    assert (
        held.hold_groups(run) == []
        and held.find_alone(run) == []
        and held.names(run) == ["final.bin"]
    )
    final.write_bytes(b"corrupt")
    assert sync.worker(run, "quick") == 0 and held.names(run) == []
    paths = (tmp_path / "durable/ckpt.generations").glob("gen-*/files/final.bin")
    assert [path.read_bytes() for path in paths] == [b"another end"]
    assert kept_steps(tmp_path) == [10]


def test_of_what_is_held_without_a_durable_place_the_best_and_the_newest_stay(tmp_path):
    run = attempted(tmp_path, **NO_PLACE)
    for step in (10, 90, 20, 30):
        for path in (tmp_path / "ckpt").glob("*"):
            path.unlink()
        memory = io.BytesIO()
        with zipfile.ZipFile(memory, "w") as archive:
            archive.writestr("data", str(step))
        fill(tmp_path)
        (tmp_path / f"ckpt/step-{step}.pt").write_bytes(memory.getvalue())
        assert held.hold_groups(run) == []
    assert sorted(held.names(run)) == ["step-30.pt", "step-90.pt"]


def test_a_box_without_room_says_so_and_leaves_nothing_half_copied(tmp_path, monkeypatch):
    fill(tmp_path, 10)
    run = attempted(tmp_path, **NO_PLACE)
    monkeypatch.setattr(held.Local, "free", lambda *_: 1000)
    [fault] = held.hold_groups(run)
    assert "No space left" in fault and held.names(run) == []


@pytest.mark.parametrize("resume, begins", [("automatic", True), ("none", False)])
def test_without_room_only_a_program_that_resumes_begins(tmp_path, monkeypatch, resume, begins):
    fill(tmp_path, 10)
    timings = {"tick": 0.05, "room_wait": 3.0}
    run = attempted(tmp_path, resume=resume, timings=timings, **NO_PLACE)
    monkeypatch.setattr(held.Local, "free", lambda *_: 1000)
    verdict = Copier(run).hold()
    assert (verdict is None) == begins
    [message] = [event["message"] for event in events(run, "notify")]
    assert "step-10.pt lies here alone" in message and "No space left" in message
    if verdict:
        assert verdict.failure == "disk" and "no attempt writes over it" in verdict.reason


def test_status_says_meanwhile_what_the_run_waits_for(tmp_path, monkeypatch):
    fill(tmp_path, 10)
    run = attempted(tmp_path, resume="none", timings={"room_wait": 3.0}, **NO_PLACE)
    monkeypatch.setattr(held.Local, "free", lambda *_: 1000)
    one = Copier(run)
    one.hold()
    [note] = [action for action in one.noted if action.kind == "hold"]
    assert note.text == "for a copy of step-10.pt, which another attempt could write over"
    told: dict = {}
    run.folder.write(WAITS, note.text + "\n")
    status._add_wait(run, told, run.now)
    assert told == {"waits": note.text}


def test_who_asks_for_an_end_meanwhile_is_heard(tmp_path):
    fill(tmp_path, 10)
    verdict = Copier(attempted(tmp_path, **NO_PLACE)).hold(asked="asked")
    assert verdict is not None and verdict.failure == "preempted"


def test_a_manifest_of_what_is_held_tells_where_it_came_from(tmp_path):
    fill(tmp_path, 10)
    run = attempted(tmp_path, **NO_PLACE)
    assert held.hold_groups(run) == []
    [path] = (tmp_path / "run/.held.generations").glob("gen-*/manifest.json")
    told = json.loads(path.read_text())
    assert (told["source"], told["step"], told["role"]) == ("step-10.pt", 10, "")
