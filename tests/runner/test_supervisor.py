"""The supervisor's decisions by a clock of the test's own: whom it raises, when it asks, when it gives up."""

import json
import os
import shutil
import subprocess

import pytest
from remote_gpu_trainer.runner import procs, safe, supervisor
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.core import copying, supervise

from tests.runner.jobs import job_of

from .clocks import Clock


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A supervisor of a run that has an hour; `started` are the runners that it wanted to start, and whether one before it is gone."""
    clock = Clock()
    run = Run(job_of({"rendered": {"run_dir": str(tmp_path)}, "deadline": "hours:1"}), clock=clock)
    run.folder.make()
    run.folder.write("deadline", f"{int(clock.now()) + 3600} {int(clock.now())}\thours:1\n")
    made = supervisor.Supervisor(run, lambda _: 0)
    made.started, made.told = [], []
    monkeypatch.setattr(made, "_start_runner", lambda is_raised: made.started.append(is_raised))
    monkeypatch.setattr(supervisor, "start_detached", lambda *_, **__: None)
    monkeypatch.setattr(procs, "of_program", lambda *_: set())
    monkeypatch.setattr(supervisor.notices, "notify", lambda _, text: made.told.append(text))
    return made


def pass_seconds(kept, seconds: int) -> None:
    for _ in range(seconds):
        kept.run.clock.nap(1)
        kept.look()


def test_a_runner_that_lives_is_left_alone(kept):
    procs.note_pid(kept.run.folder, "runner", os.getpid())
    pass_seconds(kept, 60)
    assert kept.started == []


def test_a_runner_that_is_gone_is_raised_after_a_moment(kept):
    pass_seconds(kept, 2)
    assert kept.started == []
    pass_seconds(kept, 3)
    assert kept.started == [True]


def test_a_runner_that_comes_no_further_is_given_up_and_told(kept):
    pass_seconds(kept, 400)
    assert len(kept.started) == supervise.MOST_RAISES
    marker = kept.run.folder.json(".failed")
    assert "ended 5 times" in marker["reason"]


def test_a_newer_checkpoint_gives_all_raises_back(kept):
    for number in range(12):
        kept.run.folder.write("state.json", json.dumps({"checkpoint": f"step-{number}.pt"}))
        pass_seconds(kept, 32)
    assert len(kept.started) >= 11 and not kept.run.folder.ended()


@pytest.mark.parametrize("text", ["99999999999\n", "99999999999 1\thours:7\n", "", "x"])
def test_a_damaged_file_gives_the_run_no_other_deadline(kept, text):
    end = int(kept.run.now) + 3600
    kept.run.folder.write("state.json", json.dumps({"deadline": end}))
    kept.run.folder.write("deadline", text)
    assert supervisor._deadline(kept.run) == end


def test_the_bash_of_an_older_version_makes_way(kept):
    for name in ("supervisor.pid", "deadman.pid"):
        kept.run.folder.write(name, "1 1\n")
    assert kept._take_charge()
    assert not any(map(kept.run.folder.has, ("supervisor.pid", "deadman.pid")))
    assert procs.alive(kept.run.folder, "supervisor") == os.getpid()


def test_the_save_is_asked_for_as_late_as_was_measured(kept, monkeypatch):
    procs.note_pid(kept.run.folder, "runner", os.getpid())
    asked = []
    monkeypatch.setattr(
        supervisor.Supervisor, "_ask", lambda self, why, _: asked.append((self.run.now, why))
    )
    begin = kept.run.now
    kept.run.folder.write("state.json", '{"save_seconds": 2.0}')
    pass_seconds(kept, 3599)
    assert [reason for _, reason in asked] == ["deadline"]
    assert 3594 <= asked[0][0] - begin <= 3597


def test_the_save_of_a_program_that_lives_is_looked_at_once_it_was_asked_for(kept):
    asked = []
    procs.note_pid(kept.run.folder, "runner", os.getpid())
    with subprocess.Popen(["sleep", "600"]) as program:
        procs.note_program(kept.run.folder, program.pid)
        kept._ask = lambda why, _: asked.append(why)
        try:
            kept.run.folder.write("state.json", '{"save_seconds": 2.0}')
            pass_seconds(kept, 3599)
        finally:
            program.kill()
    assert asked[:1] == ["deadline"]


def test_after_an_end_nothing_is_raised(kept):
    kept.run.folder.mark("done", {})
    pass_seconds(kept, 60)
    assert kept.started == []


class Copying:
    """A copy that has not come to its end."""

    pid = 4_194_000

    def poll(self):
        return False

    def kill(self):
        pass


def note_box(monkeypatch) -> list:
    """Return what the box is judged by from now on: the end, the seconds behind the deadline, and
    whether all is safe."""
    told = []

    def end_box(_, box, end, late, is_safe, *__):
        told.append((end.name, late, is_safe))
        return box, [], False

    monkeypatch.setattr(supervise, "end_box", end_box)
    return told


def test_a_first_copy_after_the_end_is_awaited_before_anybody_is_told(kept, monkeypatch):
    kept.run.durable = kept.run.spec.durable.to = "/mnt/keep"
    told = note_box(monkeypatch)
    monkeypatch.setattr(supervisor, "start_detached", lambda *_, **more: Copying())
    kept.run.folder.mark("done", {})
    pass_seconds(kept, int(copying.FIRST_TRY))
    assert told == []
    pass_seconds(kept, 3)
    assert told and told[0] == ("done", -1.0, False)
    kept.run.folder.write("own/final-sync", '{"t": 1}')
    pass_seconds(kept, int(supervisor.SAFE_EVERY) + 1)
    assert told[-1] == ("done", -1.0, True)


def test_what_was_seen_before_a_copy_is_told_to_nobody_after_it(kept, monkeypatch):
    kept.run.durable = kept.run.spec.durable.to = "/mnt/keep"
    copy = Copying()
    told = note_box(monkeypatch)
    monkeypatch.setattr(supervisor, "start_detached", lambda *_, **more: copy)
    kept.run.folder.mark("done", {})
    pass_seconds(kept, 1)
    kept.run.folder.write("own/final-sync", '{"t": 1}')
    monkeypatch.setattr(copy, "poll", lambda: True, raising=False)
    pass_seconds(kept, 1)
    assert told == [("done", -1.0, True)]


@pytest.mark.parametrize("has_proof", [True, False])
def test_a_failed_run_of_which_nothing_is_proven_needs_its_last_copy(kept, monkeypatch, has_proof):
    verified = "/mnt/keep/gen-1-5-a" if has_proof else ""
    now = safe.Safe("", verified, [], "", True, True)
    kept.run.durable = kept.run.spec.durable.to = "/mnt/keep"
    monkeypatch.setattr(supervisor, "start_detached", lambda *_, **more: Copying())
    monkeypatch.setattr(supervisor.safe, "look_safe", lambda _: now)
    told = note_box(monkeypatch)
    kept.run.folder.mark("failed", {})
    pass_seconds(kept, int(copying.FIRST_TRY) + 3)
    assert told[-1][2] is has_proof
    kept.run.folder.write("own/final-sync", '{"t": 1}')
    pass_seconds(kept, int(supervisor.SAFE_EVERY) + 1)
    assert told[-1][2] is True


def test_a_result_that_a_pattern_names_is_seen_here(kept, monkeypatch):
    kept.run.durable = kept.run.spec.durable.to = "/mnt/keep"
    kept.run.spec.results = ["out/final-*.pt"]
    now = safe.Safe("", "/a", ["out/final-*.pt"], "", True, False)
    monkeypatch.setattr(supervisor.safe, "look_safe", lambda _: now)
    assert not kept._look_at_kept("failed").has_left
    path = kept.run.inside("out/final-1.pt")
    os.makedirs(os.path.dirname(path))
    open(path, "w").close()
    kept.run.clock.nap(supervisor.SAFE_EVERY + 1)
    assert kept._look_at_kept("failed").has_left


def test_a_run_that_is_done_but_not_copied_at_its_deadline_is_unsaved(kept):
    kept.run.folder.write("state.json", json.dumps({"phase": "syncing", "outcome": "done"}))
    kept.run.clock.nap(3598)
    pass_seconds(kept, 10)
    told = kept.run.folder.json(".unsaved")
    assert told["class"] == "unsaved" and "ended by the deadline" in told["reason"]
    assert not kept.run.folder.has(".done")


@pytest.mark.parametrize(("step", "where"), [(145, " at step 145"), (None, "")])
def test_the_end_by_a_deadline_is_told(kept, step, where):
    kept.run.folder.write("state.json", json.dumps({"phase": "running", "step": step}))
    kept.run.clock.nap(3598)
    pass_seconds(kept, 10)
    assert kept.told == [
        f"ended by its deadline{where}; with a later deadline it goes on from there"
    ]


def test_the_deadline_holds_though_its_folder_was_removed(kept, monkeypatch):
    procs.note_pid(kept.run.folder, "runner", os.getpid())
    ended = []
    monkeypatch.setattr(procs, "send", lambda *_: None)
    monkeypatch.setattr(supervisor.Supervisor, "_kill", lambda self, _: ended.append(self.run.now))
    begin = kept.run.now
    pass_seconds(kept, 60)
    shutil.rmtree(kept.run.folder.path)
    pass_seconds(kept, 3600)
    assert [at - begin for at in ended] == [3600]


def test_an_end_whose_runner_died_before_it_told_is_told_once(kept):
    told = {"class": "bug", "entry": "", "reason": "ValueError"}
    kept.run.folder.mark("failed", told)
    pass_seconds(kept, 3)
    assert len([text for text in kept.told if text.startswith("failed: ValueError")]) == 1
    assert kept.run.folder.json(".failed") == {**told, "told": True}
    another = supervisor.Supervisor(kept.run, lambda _: 0)
    before = list(kept.told)
    another.look()
    assert kept.told == before, "another supervisor reads that it was told"


def test_a_program_that_outlives_the_end_of_its_run_is_killed(kept, monkeypatch):
    killed = []
    monkeypatch.setattr(procs, "of_program", lambda *_: {1})
    monkeypatch.setattr(supervisor.killing, "kill_program", lambda _: killed.append(1) or True)
    kept.run.folder.mark("preempted", {"class": "deadline", "reason": "deadline"})
    pass_seconds(kept, 6)
    assert len(killed) == 2 and not kept.look()
