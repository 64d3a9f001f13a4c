"""The box after a run: ended by the job's own command when that is due, or said to be still on."""

import fcntl
import json
import os

import pytest
from remote_gpu_trainer.runner import ending, limited, notices, procs, spec
from remote_gpu_trainer.runner.context import Run

from tests.runner.clocks import Clock


class Bench:
    """A keeper's hand: steps once a second of its own clock, waits for the end command in between."""

    def __init__(self, tmp_path, told: list, code: int = 0, **fields):
        self.told, self.calls = told, tmp_path / "calls"
        (tmp_path / "code").write_text(str(code))
        line = (
            f'echo "$$ $RGT_BOX_ID" >>{self.calls}; echo what it said; exit $(cat {tmp_path}/code)'
        )
        usual = {
            "name": "toy", "run_dir": str(tmp_path / "run"), "end_do": "run", "end_command": line,
            "billed": True, "durable": "/durable", "box_id": "box 7",
        }  # fmt: skip
        self.run = Run(spec.of({**usual, **fields}), clock=Clock())
        self.run.folder.make()
        self.ending = ending.Ending(self.run)

    def mark(self, end: str, **fields) -> None:
        self.run.folder.mark(end, {"class": "", "reason": "", **fields})

    def go(
        self, seconds: int, end: str, passed: bool = False, whole: bool = True, late: float = 0.0
    ) -> bool:
        """Whether it said, within so many seconds, that nothing is left to do."""
        for _ in range(seconds):
            if self.ending.step(end, late if passed else -1.0, whole):
                return True
            if self.ending._child is not None:
                self.ending._child.wait(20)
            self.run.clock.nap(1)
        return False

    @property
    def called(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


@pytest.fixture
def bench(tmp_path, monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(notices, "notify", lambda run, text: told.append(text))
    return lambda **fields: Bench(tmp_path, told, **fields)


def test_a_box_is_ended_as_soon_as_the_run_is_done_and_verified(bench):
    one = bench()
    one.mark("done")
    assert not one.go(3, "done")
    assert one.called == 1 and not one.told
    assert one.calls.read_text().split(None, 1)[1] == "box 7\n"


def test_a_command_of_words_meets_no_shell(bench, tmp_path):
    file = tmp_path / "it's $(x)"
    one = bench(end_command=["touch", str(file)])
    one.mark("done")
    one.go(2, "done")
    assert file.exists()


CASES = [
    # end, what its marker says, the deadline passed, verified, cases of the job; is it called?
    ("done", {}, False, True, ["done"], True),
    ("done", {}, False, True, ["failed", "deadline"], False),
    ("done", {}, True, True, ["failed", "deadline"], True),
    ("done", {}, False, False, ["done", "failed", "deadline"], False),
    ("failed", {"class": "bug"}, False, True, ["failed"], True),
    ("failed", {"class": "bug"}, False, True, ["done", "deadline"], False),
    ("failed", {"class": "bug"}, False, False, ["failed"], False),
    # The copy is tried again until the deadline.
    ("failed", {"class": "bug"}, False, False, ["failed", "unsaved"], False),
    ("failed", {"class": "bug"}, True, False, ["failed", "unsaved"], True),
    ("failed", {"class": "preflight"}, False, True, ["done", "failed"], False),
    ("failed", {"class": "preflight"}, True, True, ["failed", "deadline"], True),
    ("preempted", {"class": "deadline"}, False, True, ["deadline"], True),
    ("preempted", {"class": "deadline"}, True, True, ["done", "failed"], False),
    ("preempted", {"class": "deadline"}, True, False, ["deadline"], False),
    ("preempted", {"class": "deadline"}, True, False, ["deadline", "unsaved"], True),
    ("preempted", {"class": "preempted", "reason": "notice from aws"}, False, True, ["deadline"], False),
    ("preempted", {"class": "preempted", "reason": "notice from aws"}, True, True, ["deadline"], True),
    ("unsaved", {"class": "unsaved"}, False, False, ["done", "failed", "deadline"], False),
    ("unsaved", {"class": "unsaved"}, True, False, ["done", "failed", "deadline"], False),
    ("unsaved", {"class": "unsaved"}, False, True, ["done"], True),
    ("unsaved", {"class": "unsaved"}, False, False, ["unsaved"], False),
    ("unsaved", {"class": "unsaved"}, True, False, ["unsaved"], True),
    ("", {}, True, True, ["deadline"], True),
    ("", {}, False, True, ["done", "failed", "deadline", "unsaved"], False),
]  # fmt: skip


@pytest.mark.parametrize(("end", "marker", "passed", "whole", "when", "is_called"), CASES)
def test_the_command_runs_in_the_cases_that_the_job_names(
    bench, end, marker, passed, whole, when, is_called
):
    one = bench(end_when=when)
    if end:
        one.mark(end, **marker)
    one.go(3, end, passed, whole)
    assert bool(one.called) == is_called


def test_nothing_runs_and_nothing_is_said_after_a_stop(bench):
    one = bench(end_when=["done", "failed", "deadline", "unsaved"])
    one.mark("preempted", **{"class": "preempted", "reason": "asked"})
    assert one.go(1, "preempted", passed=True, whole=False)
    assert not one.called and not one.told


def test_what_is_here_only_keeps_the_box_until_it_is_copied(bench):
    one = bench()
    one.mark("unsaved")
    assert not one.go(1300, "unsaved", whole=False)
    assert not one.called and len(one.told) == 3
    assert one.told[0].startswith(
        "the run trained to its end, but nothing proves that all it made is safe at /durable"
    )
    one.go(2, "unsaved", whole=True)
    assert one.called == 1


@pytest.mark.parametrize("last", [{"why": "no room there"}, {"notes": ["no room there", "b"]}])
def test_a_box_that_stays_on_says_why_its_copy_proves_nothing(bench, last):
    one = bench()
    one.run.folder.write("last-sync", json.dumps(last))
    one.mark("preempted", **{"class": "deadline"})
    one.go(1, "preempted", passed=True, whole=False)
    assert " is safe at /durable (no room there). The box stays on" in one.told[0]
    assert one.run.folder.json("end.json")["text"] == one.told[0], "every status says it"


def test_a_command_that_fails_is_told_at_once_and_tried_again_less_and_less_often(bench):
    one = bench(code=7)
    one.mark("preempted", **{"class": "deadline", "reason": "deadline"})
    one.go(10, "preempted", passed=True)
    assert one.called == 1 and len(one.told) == 1
    assert one.told[0].startswith("the deadline ended the run, but the box is still on and billed:")
    assert "exit status 7: what it said" in one.told[0]
    one.go(110, "preempted", passed=True)
    assert one.called == 4, "after 15, 30 and 60 s"
    one.go(3000, "preempted", passed=True)
    assert 8 <= one.called <= 11 and 4 <= len(one.told) <= 6
    (one.calls.parent / "code").write_text("0")
    before = one.called
    one.go(700, "preempted", passed=True)
    assert one.called > before


def test_a_box_that_is_still_on_after_its_command_was_accepted_is_told_and_ended_again(bench):
    one = bench()
    one.mark("done")
    one.go(100, "done")
    assert one.called == 1 and not one.told
    one.go(60, "done")
    assert one.called == 2 and "still on after its end command was accepted" in one.told[0]
    assert one.told[0].startswith("the run is done"), "true of this end"


def test_no_second_command_beside_one_that_runs(bench):
    one = bench()
    one.mark("done")
    lock = os.open(one.run.folder.at("end.lock"), os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    one.go(20, "done")
    assert not one.called
    os.close(lock)
    one.go(3, "done")
    assert one.called == 1


def test_a_command_holds_the_lock_when_its_keeper_is_gone_and_what_it_leaves_behind_does_not(bench):
    one = bench(end_command="sleep 10 & exec sleep 1")
    one.mark("done")
    one.ending.step("done", False, True)
    second = ending.Ending(one.run)
    second.step("done", False, True)
    assert one.ending._child is not None and second._child is None
    limited._started[-1].wait(20)
    one.run.clock.nap(5)
    second.step("done", False, True)
    assert second._child is not None, "the sleep that was left behind holds nothing"
    second._child.kill()


def test_a_folder_that_takes_no_lock_keeps_no_box_on(bench):
    one = bench()
    one.mark("done")
    os.mkdir(one.run.folder.at("end.lock"))
    one.go(2, "done")
    assert one.called == 1


def test_a_missing_credential_is_told_and_looked_for_again(bench, tmp_path):
    one = bench(end_needs=f"STOP_KEY={tmp_path}/stop-key")
    one.run.spec.end_command += "; printenv STOP_KEY"
    one.mark("done")
    one.go(5, "done")
    assert not one.called and "the credential" in one.told[0] and "is missing" in one.told[0]
    (tmp_path / "stop-key").write_text("the key\n")
    one.go(60, "done")
    assert one.called == 1


def test_a_credential_of_the_environment_reaches_the_command_and_no_message(bench, monkeypatch):
    monkeypatch.setenv("STOP_KEY", "the-very-key")
    one = bench(end_needs="STOP_KEY", end_command='echo "refused $STOP_KEY"; exit 3')
    one.mark("done")
    one.go(3, "done")
    assert "exit status 3" in one.told[0] and "the-very-key" not in one.told[0]


def test_the_variables_of_the_container_reach_the_command(bench, monkeypatch):
    monkeypatch.setattr(procs, "environ", lambda pid: {"POD": "x y", "PATH": "/none", "RGT_A": "1"})
    one = bench(end_command='[[ $POD == "x y" && $PATH != /none && ! -v RGT_A ]] || exit 9')
    one.mark("done")
    one.go(3, "done")
    assert not one.told


def test_a_command_that_cannot_be_found_is_told(bench):
    one = bench(end_command=["/no/such/tool", "stop"])
    one.mark("done")
    one.go(3, "done")
    assert "exit status 127: /no/such/tool: No such file or directory" in one.told[0]


def test_a_box_that_nobody_bills_is_left_in_silence(bench):
    for fields in ({"end_do": "keep"}, {"end_when": ["failed"]}):
        one = bench(billed=False, **fields)
        one.mark("done")
        assert one.go(1, "done", passed=True) and not one.told and not one.called


def test_a_billed_box_without_a_command_is_told_at_its_end_and_again_after_its_deadline(bench):
    one = bench(end_do="keep", notify=["cat"])
    one.mark("failed", **{"class": "bug", "reason": "exit status 1"})
    assert not one.go(2000, "failed")
    assert len(one.told) == 1 and one.told[0].startswith(
        "the run failed (exit status 1). The box is still on"
    )
    assert "at_end" in one.told[0]
    assert not one.go(1300, "failed", passed=True)
    assert len(one.told) == 4
    one.run.folder.touch("quiet")
    assert one.go(1, "failed", passed=True)


@pytest.mark.parametrize("passed", [False, True])
def test_where_nobody_would_hear_it_again_a_billed_box_is_told_once(bench, passed):
    one = bench(end_do="keep")
    one.mark("failed", **{"class": "bug", "reason": "exit status 1"})
    assert one.go(1, "failed", passed) and len(one.told) == 1
    assert "The box is still on and billed" in one.run.folder.read("log/runner.log")


@pytest.mark.parametrize(("fields", "stays"), [
    ({"end_do": "keep", "notify": ["cat"]}, False),
    ({"end_when": ["done", "failed"]}, False),
    ({"end_when": ["done", "deadline"]}, True),  # the box is billed until then
])  # fmt: skip
def test_after_a_refused_start_only_an_end_at_the_deadline_is_waited_for(bench, fields, stays):
    one = bench(**fields)
    one.mark("failed", **{"class": "disk", "reason": "preflight: no room"})
    one.run.folder.touch(".refused")
    assert one.go(5, "failed") is not stays and not one.called
    if stays:
        one.go(2, "failed", passed=True)
        assert one.called == 1


def test_a_billed_box_that_waits_for_its_deadline_says_so_once(bench):
    one = bench(end_when=["done", "deadline"])
    one.mark("failed", **{"class": "bug", "reason": "exit status 1"})
    assert not one.go(2000, "failed")
    assert len(one.told) == 1 and "until its deadline" in one.told[0]


def test_each_end_is_called_by_its_name(bench):
    ends = {
        ("done", ""): "the run is done",
        ("failed", "bug"): "the run failed (why)",
        ("unsaved", "unsaved"): "the run trained to its end",
        ("preempted", "deadline"): "the deadline ended the run",
        ("preempted", "preempted"): "preempted (why)",
    }
    for (end, failure), words in ends.items():
        one = bench(end_do="keep")
        one.mark(end, **{"class": failure, "reason": "why"})
        one.go(1, end, passed=True)
        assert one.told[-1].startswith(f"{words}. The box is still on and billed"), end
        assert ("deadline" in one.told[-1]) == (failure == "deadline")


def test_a_start_is_told_what_ends_the_box(bench):
    say = lambda **fields: ending.sentence(bench(**fields).run)  # noqa: E731
    assert say(end_command=["stop", "a b"], end_when=["done", "deadline"]) == (
        "once the run is done or at its deadline, and only when its newest complete checkpoint"
        " and its results are safe elsewhere, this box runs: stop 'a b'"
    )
    assert "whether or not the results are safe elsewhere" in say(end_when=["done", "unsaved"])
    assert "stays on and billed" in say(end_do="keep") and "at_end: {do: run" in say(end_do="keep")
    assert say(end_do="keep", billed=False) == ""
    assert "abcdefghijkl" not in say(end_command="curl -H 'Authorization: Bearer abcdefghijklmnop'")


def test_events_tell_each_try(bench):
    one = bench(code=1)
    one.mark("done")
    one.go(5, "done")
    events = [json.loads(line) for line in one.run.folder.read("events.jsonl").splitlines()]
    assert [(e["event"], e.get("case"), e.get("code")) for e in events] == [
        ("end-command", "done", None),
        ("end-command-ended", None, "1"),
    ]


@pytest.mark.parametrize(
    ("fields", "is_safe", "late", "do"),
    [
        ({}, True, -1, ending.RUN),
        ({}, False, -1, ending.STAY),
        ({}, False, 10**6, ending.STAY),
        ({"end_stop": "stop"}, False, 3599, ending.STAY),
        ({"end_stop": "stop"}, False, 3600, ending.STOP),
        ({"end_stop": "stop", "end_limit_seconds": 0}, False, -1, ending.STAY),
        ({"end_keeps_disk": True}, False, 3599, ending.STAY),
        ({"end_keeps_disk": True}, False, 3600, ending.RUN),
        ({"end_when": ["done", "unsaved"]}, False, -1, ending.STAY),
        ({"end_when": ["done", "unsaved"]}, False, 0, ending.RUN),
        ({"durable": ""}, False, 10**6, ending.STAY),
        ({"durable": "", "end_keeps_disk": True}, False, -1, ending.RUN),
        ({"durable": "", "end_when": ["done", "unsaved"]}, False, -1, ending.RUN),
    ],
)
def test_a_box_ends_by_proof_or_with_its_disk_kept(fields, is_safe, late, do):
    assert ending.judge(spec.of({"durable": "/durable", **fields}), is_safe, late) == do


def test_without_a_proof_the_platforms_stop_ends_the_box_after_the_limit(bench, tmp_path):
    one = bench(end_stop=f"touch {tmp_path}/stopped", end_limit_seconds=600.0)
    one.mark("failed", **{"class": "bug"})
    one.go(3, "failed", passed=True, whole=False, late=599)
    assert not (tmp_path / "stopped").exists() and one.told
    one.go(3, "failed", passed=True, whole=False, late=600)
    assert (tmp_path / "stopped").exists() and not one.called


def test_why_the_box_is_still_on_stays_in_the_run_folder(bench):
    one = bench(code=7)
    one.mark("done")
    one.go(3, "done")
    told = one.run.folder.json(ending.RECORD)
    assert told["kind"] == "failed" and "failed with exit status 7" in told["text"]
