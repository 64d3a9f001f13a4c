"""What `status` reads from a folder that a crash, a stranger or a terminal's tricks have been at."""

import json
import os

import pytest
from remote_gpu_trainer.runner import heartbeat, procs, runner, status, verbs
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.core import decide
from remote_gpu_trainer.runner.core.attempts import Tries
from remote_gpu_trainer.runner.core.model import as_json, of_json
from remote_gpu_trainer.runner.core.phases import CODES
from remote_gpu_trainer.runner.locks import Lease
from remote_gpu_trainer.runner.state import StateFile, core_of, forget_tries

from tests.runner.jobs import job_of

from .clocks import Clock


@pytest.fixture
def run(tmp_path) -> Run:
    made = Run(
        job_of({"rendered": {"run_dir": str(tmp_path / "run")}, "name": "toy"}), clock=Clock()
    )
    made.folder.make()
    return made


def test_a_run_that_ended_tells_what_it_saved_elsewhere_and_its_best_value(run, tmp_path):
    best = tmp_path / "scratch/best.pkl"
    best.parent.mkdir()
    best.write_bytes(b"weights")
    run.folder.write("log/train.log.0000", f"new best, saved {best}\n")
    run.folder.write("deadline", f"0 {int(os.stat(best).st_mtime) - 60}\thours:1\n")
    told = {"value": 0.9, "step": 200, "t": 1}
    run.folder.write("state.json", json.dumps({"reading": {"newest": {}, "best": told}}))
    assert status.look(run)["saved_elsewhere"] == [], "while it goes on, a status stays cheap"
    run.folder.write(".done", "{}")
    found = status.look(run)
    assert found["saved_elsewhere"] == [[str(best), 7]]
    assert found["numbers"]["best_val_loss"] == told


def test_an_empty_state_after_a_crash_is_made_again_from_the_events(run):
    run.event("phase", phase="preflight")
    run.event("start")
    run.event("attempt", attempt=3)
    run.event("phase", phase="running")
    run.folder.append("events.jsonl", '{"t": 5, "event": "ph')
    run.folder.write("state.json", "")
    told = status.look(run)
    assert (told["phase"], told["attempt"], told["alive"]) == ("running", 3, False)
    assert told["started"] > 0


@pytest.mark.parametrize(
    ("text", "is_older", "last"),
    [
        ("", False, "/c/7.pt"),
        ('{"phase": "running", "core": {"had_whole": true}}', True, "/c/9.pt"),
        ('{"phase": "running", "core": {"last_whole": ""}}', True, ""),
    ],
)
def test_a_run_that_had_a_complete_checkpoint_knows_it_whatever_was_lost(run, text, is_older, last):
    run.event("first-checkpoint", path="/c/5.pt")
    run.event("attempt", attempt=2, resume="/c/7.pt")
    run.event("attempt", attempt=3, resume="")
    run.folder.write("state.json", text)
    if is_older:
        run.folder.write("last-checkpoint", "/c/9.pt\n")
    assert of_json(decide.State, core_of(run.folder)).last_whole == last


def test_a_start_that_waits_for_the_lease_keeps_what_the_core_goes_by(run, monkeypatch):
    run.spec.deadline = "hours:1"
    core, before = decide.State("failed", last_whole="/c/5.pt", attempt=3), StateFile(run)
    before.core = as_json(core)
    before.write()

    def take(lease, beat):
        beat()
        return "another run trains there"

    monkeypatch.setattr(Lease, "take", take)
    assert runner.Runner(run).go() == CODES["preempted"]
    assert of_json(decide.State, core_of(run.folder)) == core


def test_a_done_run_is_done_though_a_full_disk_kept_the_older_state(run):
    run.folder.write("state.json", json.dumps({"phase": "syncing"}))
    run.folder.mark("done", {"exit": 0})
    assert status.look(run)["phase"] == "done"
    run.folder.mark("preempted", {})
    assert status.look(run)["phase"] == "syncing", "its last copy is still under way"


def test_what_the_core_goes_by_is_read_again_and_how_a_run_failed_is_forgotten_on_request(run):
    core, before = decide.State("running", tries=Tries(failed=2, last="killed 3 a")), StateFile(run)
    before.core = as_json(core)
    before.write()
    raised = StateFile(run)
    raised.read()
    assert of_json(decide.State, raised.core) == of_json(decide.State, core_of(run.folder)) == core
    assert raised.is_same_boot
    forget_tries(run.folder)
    assert of_json(decide.State, core_of(run.folder)) == core._replace(tries=Tries())
    assert run.folder.json("state.json")["name"] == "toy"


def test_a_folder_without_a_run_is_new(run):
    assert status.look(run)["phase"] == "new"


@pytest.mark.parametrize("closed", ["the folder", "its files"])
def test_who_may_not_read_a_run_is_told_so_by_status_and_stop(run, closed, capsys, monkeypatch):
    run.folder.write("state.json", json.dumps({"phase": "running"}))
    path = run.folder.path if closed == "the folder" else run.folder.at("state.json")
    monkeypatch.setattr(os, "access", lambda name, _: name != path)
    assert status.status(run, False) == 2
    assert verbs.stop(run) == 2
    said = capsys.readouterr()
    assert "can't read" in said.out and "can't read" in said.err
    assert not run.folder.has("asked")


def test_nothing_that_a_terminal_obeys_is_printed(run, capsys):
    with open(run.folder.at("log", "train.log.0000"), "w") as file:
        file.write("step 1 \x1b[2J\u009b2K \u202eevil\u2066 ok\n")
    status.status(run, False)
    said = capsys.readouterr().out
    assert "step 1 2K evil ok" in said and not set(said) & set("\x1b\u009b\u202e\u2066")


def test_a_marker_and_a_changed_phase_are_on_the_disk_before_they_have_their_name(run, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(number))
    run.folder.write("asked", "1")
    assert not synced
    run.folder.mark("done", {})
    assert len(synced) == 1
    one = runner.Runner(run)
    for phase in ("preflight", "staging", "running", "running"):
        was, one.core = one.core, one.core._replace(phase=phase)
        one._store(was, True)
    assert run.folder.json("state.json")["phase"] == "running"
    assert len(synced) == 4, "none where the phase is the same"


def test_the_free_room_is_that_of_now_and_the_least_of_the_runs_folders(run, monkeypatch):
    run.folder.write("state.json", json.dumps({"phase": "running", "disk_free_mb": 5}))
    run.checkpoints = run.folder.at("ckpt")
    df = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/a 9 9 9000 1% /a\n/dev/b 9 9 {} 100% /b\n"
    asked = []

    def said(run, limit, beat, words):
        asked.append(words)
        return 0 if df else None, df.format(3000)

    monkeypatch.setattr(status.child, "ask", said)
    assert status.look(run)["disk_free_mb"] == 2
    assert asked[0][-2:] == [run.folder.path, run.checkpoints]
    df = df.format(0)
    assert status.look(run)["disk_free_mb"] == 0
    df = ""
    assert status.look(run)["disk_free_mb"] == 5, "a mount that doesn't answer"


def test_a_beat_is_written_in_its_place_which_a_full_disk_takes(run):
    heartbeat.note_beat(run)
    lies_at = os.stat(run.folder.at("lock")).st_ino, len(run.folder.read("lock"))
    run.clock.nap(700)
    heartbeat.note_beat(run)
    assert procs.beat_of(run.folder) == run.now
    assert (os.stat(run.folder.at("lock")).st_ino, len(run.folder.read("lock"))) == lies_at
