"""Messages to the user go out by the job's command, within its limit, without secrets."""

import json
import sys
import time

import pytest
from remote_gpu_trainer.runner import child, notices
from remote_gpu_trainer.runner.context import Run

from tests.runner.clocks import Clock
from tests.runner.jobs import job_of, secrets_of

KEEPS = "import os, sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '+ ' + os.environ['RGT_MESSAGE'])"


@pytest.fixture
def run(tmp_path) -> Run:
    (tmp_path / "key").write_text("a-secret-value\n")
    command = [sys.executable, "-c", KEEPS, str(tmp_path / "told")]
    fields = {"name": "toy", "rendered": {"run_dir": str(tmp_path / "run")}, "notify": command}
    made = Run(
        job_of(fields, {"secrets": secrets_of({"KEY": str(tmp_path / "key")})}), clock=Clock()
    )
    made.folder.make()
    return made


def run_message(run) -> str:
    return json.loads(run.folder.read("events.jsonl"))["message"] + "\n"


def finish() -> None:
    for guard in child._unawaited:
        guard.poll(20)


def test_a_message_is_told_by_the_jobs_command_and_as_an_event(run, tmp_path):
    notices.notify(run, "it's $(touch pwned) done")
    finish()
    first, second = (tmp_path / "told").read_text().split("\n")
    assert first.startswith("toy on ") and first.endswith(": it's $(touch pwned) done")
    assert second == "+ " + first
    assert json.loads(run.folder.read("events.jsonl"))["message"] == first


def test_no_message_holds_a_secret(run, tmp_path):
    notices.notify(run, "failed: a-secret-value and hf_abcdefghijklmnop refused")
    finish()
    for text in ((tmp_path / "told").read_text(), run.folder.read("events.jsonl")):
        assert "a-secret-value" not in text and "abcdefghijkl" not in text and "refused" in text


def test_a_command_that_fails_gets_the_message_again(run, tmp_path, monkeypatch):
    monkeypatch.setattr(notices, "PAUSES", (0.0, 0.1, 60.0))
    tries = f'cat >>{tmp_path}/told; echo "$RGT_MESSAGE" >>{tmp_path}/said; test $(wc -l <{tmp_path}/said) -ge 3'
    run.spec.notify = ["sh", "-c", tries]
    notices.notify(run, "done")
    finish()
    assert child._unawaited[-1].code == 0
    for name in ("told", "said"):
        assert (tmp_path / name).read_text() == run_message(run) * 3


def test_the_command_is_not_waited_for(run):
    run.spec.notify = ["sleep", "20"]
    begin = time.monotonic()
    notices.notify(run, "done")
    assert time.monotonic() - begin < 5
    child._unawaited[-1].kill()


def test_a_command_that_isnt_there_costs_nothing(run):
    run.spec.notify = ["/no/such/program"]
    notices.notify(run, "done")
    finish()
    assert child._unawaited[-1].code == 127
