"""The box after a run: ended by the job's own command when that is due, or said to be still on."""

import fcntl
import json
import os

import pytest
from remote_gpu_trainer.runner import child, ending, notices, procs
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.core.box import Box, End, end_box, plan_unheard

from tests.runner.clocks import Clock
from tests.runner.jobs import job_of, merged

KEEP = {"rendered": {"end": {"command": ""}}}


class Bench:
    """A supervisor's hand: steps once a second of its own clock, waits for the end command in between."""

    def __init__(self, tmp_path, told: list, code: int = 0, **fields):
        self.told, self.calls = told, tmp_path / "calls"
        (tmp_path / "code").write_text(str(code))
        line = (
            f'echo "$$ $RGT_BOX_ID" >>{self.calls}; echo what it said; exit $(cat {tmp_path}/code)'
        )
        usual = {"name": "toy", "rendered": {"run_dir": str(tmp_path / "run"), "billed": True, "end": {"command": line}}, "durable": {"to": "/durable"}, "at_end": {"box_id": "box 7"}}  # fmt: skip
        self.run = Run(job_of(usual, fields), clock=Clock())
        self.run.folder.make()
        self.ending, self.box = ending.Ending(self.run), Box()

    def mark(self, end: str, **fields) -> None:
        self.run.folder.mark(end, {"class": "", "reason": "", **fields})

    def go(
        self, seconds: int, end: str, passed: bool = False, whole: bool = True, late: float = 0.0
    ) -> bool:
        """Whether it said, within so many seconds, that nothing is left to do."""
        for _ in range(seconds):
            if self.look(end, late if passed else -1.0, whole):
                return True
            if self.ending._command is not None:
                self.ending._command.poll(20)
            self.run.clock.nap(1)
        return False

    def look(self, end: str, late: float, whole: bool) -> bool:
        """Whether nothing is left to do."""
        told, seen = ending.end_of(self.run, end), self.ending.look(self.box.next_at)
        self.box, actions, is_over = end_box(
            self.run.spec, self.box, told, late, whole, seen, self.run.up
        )
        for action in actions:
            self.ending.do(action, told)
        return is_over

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
    one = bench(rendered={"end": {"command": ["touch", str(file)]}})
    one.mark("done")
    one.go(2, "done")
    assert file.exists()


@pytest.mark.parametrize("last", [{"why": "no room there"}, {"notes": ["no room there", "b"]}])
def test_a_box_that_stays_on_says_why_its_copy_proves_nothing(bench, last):
    one = bench()
    one.run.folder.write("own/last-sync", json.dumps(last))
    one.mark("preempted", **{"class": "deadline"})
    one.go(1, "preempted", passed=True, whole=False)
    assert " is safe at /durable (no room there). The box stays on" in one.told[0]
    assert one.run.folder.json("own/end.json")["text"] == one.told[0], "every status says it"


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
    lock = os.open(one.run.folder.at("own/end.lock"), os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    one.go(20, "done")
    assert not one.called
    os.close(lock)
    one.go(3, "done")
    assert one.called == 1


def test_a_command_holds_the_lock_when_its_supervisor_is_gone_and_what_it_leaves_behind_does_not(
    bench,
):
    one = bench(rendered={"end": {"command": "sleep 10 & exec sleep 1"}})
    one.mark("done")
    one.look("done", -1.0, True)
    assert one.ending._command is not None
    one.ending, one.box = ending.Ending(one.run), Box()
    one.look("done", -1.0, True)
    assert one.ending._command is None
    child._unawaited[-1].poll(20)
    one.run.clock.nap(5)
    one.look("done", -1.0, True)
    assert one.ending._command is not None, "the sleep that was left behind holds nothing"
    one.ending._command.kill()


def test_a_folder_that_takes_no_lock_keeps_no_box_on(bench):
    one = bench()
    one.mark("done")
    os.mkdir(one.run.folder.at("own/end.lock"))
    one.go(2, "done")
    assert one.called == 1


def test_a_missing_credential_is_told_and_looked_for_again(bench, tmp_path):
    one = bench(rendered={"end": {"needs": f"STOP_KEY={tmp_path}/stop-key"}})
    one.run.spec.rendered.end.command += "; printenv STOP_KEY"
    one.mark("done")
    one.go(5, "done")
    assert not one.called and "the credential" in one.told[0] and "is missing" in one.told[0]
    (tmp_path / "stop-key").write_text("the key\n")
    one.go(60, "done")
    assert one.called == 1


def test_a_credential_of_the_environment_reaches_the_command_and_no_message(bench, monkeypatch):
    monkeypatch.setenv("STOP_KEY", "the-very-key")
    one = bench(
        rendered={"end": {"needs": "STOP_KEY", "command": 'echo "refused $STOP_KEY"; exit 3'}}
    )
    one.mark("done")
    one.go(3, "done")
    assert "exit status 3" in one.told[0] and "the-very-key" not in one.told[0]


def test_the_variables_of_the_container_reach_the_command(bench, monkeypatch):
    monkeypatch.setattr(procs, "environ", lambda pid: {"POD": "x y", "PATH": "/none", "RGT_A": "1"})
    one = bench(
        rendered={
            "end": {"command": '[[ $POD == "x y" && $PATH != /none && ! -v RGT_A ]] || exit 9'}
        }
    )
    one.mark("done")
    one.go(3, "done")
    assert not one.told


def test_a_command_that_cannot_be_found_is_told(bench):
    one = bench(rendered={"end": {"command": ["/no/such/tool", "stop"]}})
    one.mark("done")
    one.go(3, "done")
    assert "exit status 127: /no/such/tool: No such file or directory" in one.told[0]


def test_a_start_is_told_what_ends_the_box(bench):
    say = lambda **fields: ending.sentence(bench(**fields).run)  # noqa: E731
    assert say(
        rendered={"end": {"command": ["stop", "a b"]}}, at_end={"when": ["done", "deadline"]}
    ) == (
        "when the run is done and at the deadline, the box runs `stop 'a b'`, and again until it is "
        "off: only once the newest complete checkpoint and the results are safe elsewhere; it may "
        "delete the disk. Where they never are, it doesn't run"
    )
    stops = say(rendered={"stop": {"command": "stop"}}, at_end={"unproven_minutes": 30.0})
    assert "Where they never are, 30 min after the deadline the platform's own stop keeps" in stops
    keeps = say(rendered={"end": {"keeps_disk": True}}, at_end={"unproven_minutes": 30.0})
    assert "; its disk is kept. Where they never are, it runs 30 min after the deadline" in keeps
    assert "also while results are on this box only" in say(at_end={"when": ["done", "unsaved"]})
    assert "nothing is copied elsewhere, and it may delete the disk" in say(durable={"to": ""})
    kept = say(**KEEP)
    assert "stays on and billed" in kept and "at_end: {do: run" in kept
    assert say(**merged(KEEP, {"rendered": {"billed": False}})) == ""
    assert "abcdefghijkl" not in say(
        rendered={"end": {"command": "curl -H 'Authorization: Bearer abcdefghijklmnop'"}}
    )


def test_events_tell_each_try(bench):
    one = bench(code=1)
    one.mark("done")
    one.go(5, "done")
    events = [json.loads(line) for line in one.run.folder.read("events.jsonl").splitlines()]
    assert [(e["event"], e.get("case"), e.get("code")) for e in events] == [
        ("end-command", "done", None),
        ("end-command-ended", None, "1"),
    ]


def test_without_a_proof_the_platforms_stop_ends_the_box_after_the_limit(bench, tmp_path):
    one = bench(
        rendered={"stop": {"command": f"touch {tmp_path}/stopped"}},
        at_end={"unproven_minutes": 10.0},
    )
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


DESTROYS, STOPS = {"end": {"command": "rm -r /"}}, {"stop": {"command": "stop"}}
KEEPS = {"end": {"command": "halt", "keeps_disk": True}}
DURABLE, BILLED = {"durable": {"to": "/mnt/keep"}}, {"rendered": {"billed": True}}


@pytest.mark.parametrize(
    ("fields", "end", "is_safe", "is_off", "planned"),
    [
        # What it destroys is safe, or its user agreed.
        ({"rendered": DESTROYS, **DURABLE}, "done", True, False, ("run", 0)),
        (
            {"rendered": DESTROYS, "at_end": {"when": ["deadline", "unsaved"]}},
            "unsaved",
            False,
            False,
            ("run", 0),
        ),
        ({"rendered": KEEPS}, "", False, False, ("run", 0)),
        # Nothing is proven: after the limit of the job by what keeps the disk.
        ({"rendered": {**KEEPS}, **DURABLE}, "", False, False, ("run", 3600)),
        ({"rendered": {**DESTROYS, **STOPS}, **DURABLE}, "", False, False, ("stop", 3600)),
        ({"rendered": DESTROYS, **DURABLE}, "", False, False, ("stay", 0)),
        ({"rendered": DESTROYS}, "", False, False, ("stay", 0)),
        # Its user stopped it, or nothing was started.
        ({"rendered": DESTROYS, **DURABLE}, "", True, True, ("leave", 0)),
        ({"rendered": DESTROYS, **DURABLE}, "stopped", True, False, ("leave", 0)),
        ({"rendered": KEEPS}, "refused", False, False, ("leave", 0)),
        # Nothing is to end it at the deadline.
        ({"rendered": KEEPS, "at_end": {"when": ["done"]}}, "", False, False, ("leave", 0)),
        (BILLED, "", False, False, ("stay", 0)),
        ({}, "", False, False, ("leave", 0)),
    ],
)
def test_what_a_shell_does_about_the_box_at_the_deadline_is_decided_before(
    fields, end, is_safe, is_off, planned
):
    ends = {
        "stopped": End("preempted", "preempted", "asked"),
        "refused": End("failed", "preflight", "", True),
    }
    job = job_of(fields)
    assert plan_unheard(job, ends.get(end, End(end)), is_safe, is_off) == planned
