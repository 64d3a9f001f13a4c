"""Cells over the slots of a box: which run, beside what, with which share, and what they came to."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest
from remote_gpu_trainer.runner import cells, procs, queue, roster, spec
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.core import decide
from remote_gpu_trainer.runner.core.model import Seen, Signal, Start, Verdict
from remote_gpu_trainer.runner.state import StateFile
from remote_gpu_trainer.runs.cells import read_queue

from tests.runner.clocks import Clock
from tests.runner.copying import Copier
from tests.runner.jobs import job_of


class Child:
    """A cell's runner that ends after some looks, as its arguments say: an end, or a class."""

    def __init__(self, bench: Bench, env: dict[str, str]):
        self.bench, self.env, self.name = bench, env, env["RGT_CELL"]
        self.share = json.loads(env["RGT_SHARE"])
        self.left = bench.looks
        told = bench.cell(self.name).arguments
        self.end = told[bench.started.count(self.name) - 1 :][:1] or told[-1:] or ["done"]

    code = 0

    def poll(self) -> bool:
        self.left -= 1
        if self.left > 0:
            return False
        if self.left == 0:
            self.finish(self.end[0])
        return True

    def finish(self, end: str) -> None:
        folder = self.bench.cell(self.name).folder
        self.bench.log.append(f"-{self.name}")
        if end == "killed":
            return
        kind = end if end in ("done", "unsaved", "preempted") else "failed"
        failure = "" if kind == "done" else end
        folder.mark(kind, {"class": failure, "entry": "U6" if end == "disk" else "", "reason": end})


class Bench:
    """A queue of these cells. `looks`: how often a cell is looked at until it has ended."""

    def __init__(self, tmp_path, monkeypatch, roster: dict[str, list[str]], **fields):
        self.looks, self.log = 2, []
        self.asked_at: dict[str, str] = {}
        named = [{"name": name, "arguments": words} for name, words in roster.items()]
        self.job = job_of(
            {
                "name": "sweep",
                "rendered": {"run_dir": str(tmp_path / "run")},
                "command": ["python", "train.py"],
                "queue": {"cells": named},
            },
            fields,
        )
        self.clock = Clock()
        self.run = Run(cells.shape(self.job, "run", {}), "/script", clock=self.clock)
        self.run.folder.make()
        self.children: list[Child] = []
        monkeypatch.setattr(queue.child, "Command", self.start)
        for name in (cells.PART, cells.CELL, "CUDA_VISIBLE_DEVICES"):
            monkeypatch.delenv(name, raising=False)

    def start(self, words, env, **_):
        assert words[-1] == "run" and "RGT_PART" not in env
        self.log.append(f"+{env['RGT_CELL']}")
        self.children.append(Child(self, env))
        return self.children[-1]

    @property
    def started(self) -> list[str]:
        return [line[1:] for line in self.log if line[0] == "+"]

    def cell(self, name: str) -> cells.Cell:
        return next(cell for cell in cells.cells_of(self.run) if cell.name == name)

    def go(self, asked_after: int = -1, reason: str = "signal TERM"):
        """Run the queue once; ask it to end after so many beats."""
        told, beats = StateFile(self.run), iter(range(10**6))
        self.run.asked = ""
        cells = self.queue = queue.Cells(SimpleNamespace(run=self.run, state=told))
        core = decide.State("staging")
        while core.phase in ("staging", "running", "saving"):
            assert (count := next(beats)) < 5000, self.log
            if count == asked_after:
                self.run.asked = reason
            seen = Seen(attempt=cells.number, staged=Verdict())
            seen = cells.see(core, seen) if core.is_open else cells.see_wait(seen, True)
            seen = seen._replace(asked=self.run.asked)
            core, actions, _ = decide.decide(self.run.spec, core, seen, self.run.up)
            for action in actions:
                if isinstance(action, Start):
                    cells.start(action)
                elif isinstance(action, Signal):
                    cells.signal(action.why)
            self.run.clock.nap(queue.NAP)
        self.core = core
        return core.verdict

    def states(self) -> dict[str, str]:
        return {name: told.state for name, told in roster.look_at_all(self.run).items()}


@pytest.fixture
def bench(tmp_path, monkeypatch):
    return lambda roster, **fields: Bench(tmp_path, monkeypatch, roster, **fields)


def test_a_failing_cell_does_not_stop_the_queue_and_nothing_runs_twice(bench):
    one = bench({"a": [], "b": ["bug"], "c": [], "d": []}, queue={"slots": 2})
    verdict = one.go()
    assert (verdict.failure, verdict.reason) == (
        "unknown",
        "4 cells: 3 done, 1 failed, 0 running, 0 unsaved, 0 left",
    )
    assert one.states() == {"a": "done", "b": "failed", "c": "done", "d": "done"}
    told = one.run.folder.json("queue.json")
    assert (told["done"], told["failed"], told["cells"]["b"]["class"]) == (3, 1, "bug")
    one.go()
    assert one.started == ["a", "b", "c", "d"]


def test_no_more_cells_run_at_once_than_there_are_slots(bench):
    one = bench({name: [] for name in "abcdefg"}, queue={"slots": 3})
    assert one.go().failure == ""
    running = most = 0
    for line in one.log:
        running += 1 if line[0] == "+" else -1
        most = max(most, running)
    assert most == 3 and one.started == list("abcdefg")


@pytest.mark.parametrize(
    ("slots", "gpus", "given", "shares", "shared"),
    [
        (2, 4, "", ["0,1", "2,3"], False),
        (2, 4, "4,5,6,7", ["4,5", "6,7"], False),
        (2, 2, "GPU-a,GPU-b", ["GPU-a", "GPU-b"], False),
        (3, 2, "", ["0", "1", "0"], True),
        (2, 3, "", ["0", "1"], False),
        (1, 8, "", ["0,1,2,3,4,5,6,7"], False),
    ],
)
def test_cards_are_shared_out(bench, monkeypatch, slots, gpus, given, shares, shared):
    one = bench(
        {name: [] for name in "abc"[:slots]}, queue={"slots": slots}, gpus=gpus, processes=gpus
    )
    if given:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    one.go()
    assert [child.env["CUDA_VISIBLE_DEVICES"] for child in one.children] == shares
    for child in one.children:
        each = child.env["CUDA_VISIBLE_DEVICES"].count(",") + 1
        job = cells.shape(one.job, "run", child.env)
        assert (job.gpus, job.processes, job.gpus_shared) == (each, each, shared)


def test_a_cell_is_a_run_of_its_own(bench):
    one = bench(
        {"a": ["--lr", "it's $(x)"], "b": []},
        checkpoint={"folder": "~/ckpt"},
        durable={"to": "s3://bucket/x/", "what": ["~/ckpt/", "out-{cell}.txt"]},
        results=["out-{cell}.txt"],
        notify=["mail"],
        rendered={"install": ["pip"], "billed": True},
        setup=["module load x"],
        variables={"SEED": "1"},
    )
    job = cells.shape(
        one.job, "run", {"RGT_CELL": "a", "RGT_SHARE": '{"slot": 3, "deadline": "at:9"}'}
    )
    run = Run(job)
    assert run.base == one.run.base + "/cells/a" and run.work == one.run.work
    assert job.command == ["python", "train.py", "--lr", "it's $(x)"]
    assert run.checkpoints == os.path.expanduser("~/ckpt/a") and job.durable.to == "s3://bucket/x/a"
    assert [run.inside(item) for item in job.durable.what] == [
        run.checkpoints,
        f"{run.work}/out-a.txt",
    ]
    assert job.results == ["out-a.txt"] and job.variables == {"SEED": "1", "RGT_CELL": "a"}
    assert job.deadline == "at:9"
    assert job.notify == job.rendered.install == job.queue.cells == []
    assert job.rendered.end.command == "" and not job.rendered.billed
    assert job.setup == ["module load x"]


def test_the_arguments_of_a_shell_line_reach_it_as_words(bench):
    one = bench({"a": ["x y", "$z"]}, command="python train.py")
    job = cells.shape(one.job, "run", {"RGT_CELL": "a"})
    assert job.command == ["bash", "-c", 'python train.py "$@"', "bash", "x y", "$z"]


def test_the_queue_itself_has_no_checkpoints_and_a_rehearsal_takes_the_first_cell(bench):
    one = bench(
        {"a": ["1"], "b": ["2"]}, checkpoint={"folder": "c"}, results=["r"], durable={"what": ["c"]}
    )
    whole = one.run.spec
    assert (whole.checkpoint.folder, whole.results, whole.durable.what) == ("", [], [])
    first = cells.shape(one.job, "rehearse", {})
    assert first.command[-1] == "1" and not first.queue.cells and first.checkpoint.folder == "c"
    assert one.job.checkpoint.folder == "c", "the job itself stays as it is"


@pytest.mark.parametrize("names", [["a/b"], ["a", "a"], ["../x"], [""], ["-a"], ["a\n"]])
def test_names_that_are_no_folder_names_are_refused(names):
    job = job_of({"queue": {"cells": [{"name": name, "arguments": []} for name in names]}})
    with pytest.raises(spec.SpecError, match="each name once"):
        cells.shape(job, "run", {})


def test_a_cell_that_is_not_there_is_refused(bench):
    one = bench({"a": []})
    with pytest.raises(spec.SpecError, match="name a cell"):
        cells.shape(one.job, "run", {"RGT_CELL": "b"})


def test_a_full_disk_ends_the_queue_of_this_box_and_the_cell_runs_again_at_the_next_start(bench):
    one = bench({"a": ["disk", "done"], "b": [], "c": []})
    verdict = one.go()
    assert (verdict.failure, verdict.entry) == ("disk", "U6") and "cell a" in verdict.reason
    assert one.states() == {"a": "left", "b": "left", "c": "left"} and one.started == ["a"]
    assert roster.look(one.run, one.cell("a")).marker["class"] == "disk"
    assert one.go().failure == ""
    assert one.states() == dict.fromkeys("abc", "done")


def test_windows_line_ends_fail_their_own_cell_alone(bench, monkeypatch):
    one = bench({"a": [], "b": []})
    monkeypatch.setattr(
        Child,
        "finish",
        lambda self, end: self.bench.cell(self.name).folder.mark(
            "failed", {"class": "preflight", "entry": "GEN4", "reason": "crlf"}
        ),
    )
    assert one.go().failure == "unknown"
    assert one.states() == {"a": "failed", "b": "failed"}


def test_a_request_is_passed_on_and_the_cells_are_left(bench):
    one = bench({name: [] for name in "abc"}, queue={"slots": 2})
    one.looks = 10**6
    asked: list = []

    def end(found, reason):
        asked.append(([cell.name for cell in found], reason))
        for child in one.children:
            child.left, child.end = 3, ["preempted"]

    one.queue_ask, queue_ask = end, queue.ask
    queue.ask = end
    try:
        verdict = one.go(asked_after=4)
    finally:
        queue.ask = queue_ask
    assert asked == [(["a", "b"], "signal TERM")]
    assert verdict.failure == "preempted" and verdict.reason.startswith("signal TERM; 3 cells")
    assert one.states() == dict.fromkeys("abc", "left") and one.core.phase == "preempted"
    one.looks = 2
    assert one.go().failure == ""


def test_at_the_deadline_each_cell_saves_by_its_own_clock(bench, monkeypatch):
    one = bench({"a": ["preempted"]})
    one.looks = 8
    one.run.folder.write("deadline", "1800000900\n")
    monkeypatch.setattr(queue, "ask", lambda *_: pytest.fail("the cell knows the deadline"))
    assert one.go(asked_after=2, reason="deadline").failure == "deadline"
    assert one.children[0].share["deadline"] == "at:1800000900"


def test_a_request_in_the_last_moment_undoes_no_end(bench):
    one = bench({"a": []})
    assert one.go(asked_after=2).failure == ""


def test_a_cell_without_an_end_is_tried_three_times_with_a_wait(bench):
    one = bench({"a": ["killed"], "b": ["killed", "done"]})
    begin = one.clock.time
    assert one.go().failure == "unknown"
    assert one.states() == {"a": "failed", "b": "done"}
    assert one.started.count("a") == 3 and one.started.count("b") == 2
    assert one.clock.time - begin > 2 * queue.WAIT
    assert "left no end" in roster.look(one.run, one.cell("a")).marker["reason"]


def test_a_queue_that_comes_back_waits_for_the_cells_that_go_on(bench):
    one = bench({"a": [], "b": [], "c": []}, queue={"slots": 2})
    folder = one.cell("b").folder
    folder.make()
    folder.write("cell", '{"arguments": [], "slot": 1}')
    procs.note_pid(folder, "supervisor", os.getpid())
    looks = iter(range(10**6))

    def see(run, cell, real=roster.look):
        if cell.name == "b" and next(looks) == 9:
            folder.mark("done", {"class": ""})
        return real(run, cell)

    queue.look, real = see, queue.look
    try:
        assert one.go().failure == ""
    finally:
        queue.look = real
    assert one.started == ["a", "c"] and {child.share["slot"] for child in one.children} == {0}
    assert '"adopted", "cell": "b", "slot": "1"' in one.run.folder.read("events.jsonl")


def test_a_cell_with_other_arguments_runs_again(bench):
    one = bench({"a": [], "b": []})
    one.go()
    one.run.spec.queue.cells[0]["arguments"] = ["done"]
    one.go()
    assert one.started == ["a", "b", "a"]


def test_parts_divide_the_cells_and_have_a_state_each(bench, monkeypatch):
    one = bench({name: [] for name in "abcde"})
    monkeypatch.setenv("RGT_PART", "2/2")
    cells.take_part(one.run)
    assert one.run.folder.path.endswith("/run/parts/2-of-2")
    one.run.folder.make()
    assert one.go().reason.startswith("2 cells") and one.started == ["b", "d"]
    assert one.cell("b").folder.path == one.run.base + "/cells/b"
    StateFile(one.run).write()
    monkeypatch.delenv("RGT_PART")
    whole = Run(one.run.spec)
    cells.take_newest_part(whole)
    assert whole.folder.path.endswith("2-of-2")


@pytest.mark.parametrize("part", ["0/2", "3/2", "2", "a/b", "1/2/3", "-1/2"])
def test_a_part_that_is_none_is_refused(bench, monkeypatch, part):
    one = bench({"a": []})
    monkeypatch.setenv("RGT_PART", part)
    with pytest.raises(spec.SpecError, match="write K/N"):
        queue.run(one.run, "reconcile", [])


def test_resume_gives_failed_cells_another_chance_and_start_does_not(bench):
    one = bench({"a": ["bug", "done"], "b": []})
    one.go()
    one.run.folder.mark("failed", {})
    one.go()
    assert one.started == ["a", "b"]
    assert queue.run(one.run, "resume", []) is None
    assert one.go().failure == "" and one.started == ["a", "b", "a"]


def test_a_queue_whose_cells_are_all_there_stays_done_until_it_grows(bench, monkeypatch):
    monkeypatch.setattr(queue.QueueRunner, "go", lambda self: 0)
    one = bench({"a": []})
    one.go()
    one.run.folder.mark("done", {})
    queue.run(one.run, "queue", [])
    assert one.run.folder.has(".done")
    one.run.spec.queue.cells.append({"name": "b", "arguments": []})
    queue.run(one.run, "queue", [])
    assert not one.run.folder.has(".done")


HOSTILE = ["", " ", "it's", "$(touch pwned)", "a\nb", "*", "--", "\\", "Grüße 你好", "\t", "a\r"]


def test_the_rest_can_be_read_as_a_queue_file(bench, capsys):
    one = bench({"a": [], "b": ["x"], "c": HOSTILE, "d": ["unsaved"], "e": ["bug"]})
    assert roster.reconcile(one.run, False) == 1
    rest = [{"name": name, "arguments": one.cell(name).arguments} for name in "abcde"]
    with open(one.run.folder.at("queue.rest"), newline="") as file:
        assert read_queue(file.read())[0] == rest
    one.run.spec.queue.cells[1:3] = []
    one.go()
    capsys.readouterr()
    assert roster.reconcile(one.run, True) == 1
    told = json.loads(capsys.readouterr().out)
    assert {row["name"]: row["state"] for row in told["cells"]} == {
        "a": "done",
        "d": "unsaved",
        "e": "failed",
    }
    assert one.run.folder.read("queue.rest") == "e bug\n"


def test_a_table_for_people_ends_with_a_sum(bench, capsys):
    one = bench({"a": [], "b": ["bug"]})
    one.go()
    capsys.readouterr()
    roster.reconcile(one.run, False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("\t") == ["cell", "state", "class", "entry", "reason"]
    assert lines[2] == "b\tfailed\tbug\t\tbug"
    assert lines[-1] == "# 2 cells: 1 done, 1 failed, 0 running, 0 unsaved, 0 left"


def test_status_names_what_is_neither_done_nor_left_and_stays_short(bench):
    one = bench({"a": [], "b": ["bug"]})
    one.go()
    told = roster.for_status(roster.look_at_all(one.run))
    assert told["done"] == 1 and list(told["now"]) == ["b"]
    many = {str(n): roster.Seen("failed", {"reason": "x" * 50}) for n in range(100)}
    assert roster.for_status(many)["now"] == {} and roster.for_status(many)["failed"] == 100


def test_a_queue_is_whole_when_every_cell_that_ran_is(bench, monkeypatch):
    one = bench({"a": [], "b": [], "c": []}, durable={"to": "/durable"})
    copies = queue.Copies(one.run)
    assert copies.is_whole()
    for name in "ab":
        one.cell(name).folder.make()
        one.cell(name).folder.write("attempt.json", '{"attempt": 1}')
    one.cell("a").folder.touch("own/final-sync")
    assert not copies.is_whole() and [cell.name for cell in copies.owed()] == ["b"]

    def copy(run, cell, verb):
        assert (cell.name, verb) == ("b", "sync")
        cell.folder.touch("own/final-sync")
        return SimpleNamespace(poll=lambda: True, kill=lambda: None)

    monkeypatch.setattr(queue, "start_verb", copy)
    assert Copier(one.run, copies).last(True, one.run.now + 100, lambda: False)
    assert copies.is_whole()


def test_a_copy_that_hangs_ends_at_its_limit(bench, monkeypatch):
    one = bench({"a": []}, durable={"to": "/durable"})
    one.cell("a").folder.make()
    one.cell("a").folder.write("attempt.json", '{"attempt": 1}')
    killed: list[int] = []
    child = SimpleNamespace(poll=lambda: False, kill=lambda: killed.append(1))
    monkeypatch.setattr(queue, "start_verb", lambda *_: child)
    copies = queue.Copies(one.run)
    assert not Copier(one.run, copies).last(True, one.run.now + 30, lambda: False)
    assert killed
