"""Questions with a limit, in a child that may be given up."""

import os
import signal
import time
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import asking, spec
from remote_gpu_trainer.runner.context import Run


@pytest.fixture
def run(tmp_path) -> Run:
    return Run(spec.of({"run_dir": str(tmp_path), "timings": {"tick": 0.01}}))


def test_a_value_comes_back(run):
    assert asking.call(run, 5, None, lambda a, b: [a, {"b": b}], 1, "ü\udc80") == [
        1,
        {"b": "ü\udc80"},
    ]


def test_an_error_says_why(run):
    with pytest.raises(asking.Failed, match="No such file"):
        asking.call(run, 5, None, os.listdir, "/no/such")
    with pytest.raises(asking.Failed, match="ZeroDivisionError"):
        asking.call(run, 5, None, lambda: 1 / 0)
    with pytest.raises(asking.Failed, match="was killed"):
        asking.call(run, 5, None, lambda: os.kill(os.getpid(), signal.SIGKILL))


def _lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_what_hangs_is_given_up_and_leaves_no_process(run):
    job = asking.Job(time.sleep, 60)
    assert not job.poll(0.01)
    job.give_up()
    until = time.monotonic() + 10
    while _lives(job.pid):  # a busy machine takes its time to end it
        assert time.monotonic() < until
        time.sleep(0.01)
    with pytest.raises(asking.Failed, match="no answer within 0.05 s"):
        asking.call(run, 0.05, None, time.sleep, 60)


def test_the_beat_goes_on_and_may_end_the_wait(run):
    beats = []

    def beat():
        beats.append(1)
        run.asked = "stop" if len(beats) == 3 else ""
        return bool(run.asked)

    with pytest.raises(asking.Failed, match="stop"):
        asking.call(run, 60, beat, time.sleep, 60)
    assert len(beats) == 3
    assert asking.ask(run, 60, beat, ["sleep", "0.1"])[0] == 0


def test_a_child_holds_none_of_this_process_s_files(run, tmp_path):
    with open(tmp_path / "held", "w"):
        names = asking.call(
            run, 5, None, lambda: [os.readlink(entry) for entry in os.scandir("/proc/self/fd")]
        )
    assert not [name for name in names if "held" in name]


def test_a_command_tells_its_code_and_its_words(run):
    assert asking.ask(run, 5, None, ["sh", "-c", "echo out; echo err >&2; exit 3"]) == (
        3,
        "out\nerr\n",
    )
    assert asking.ask(run, 5, None, ["/no/such"])[0] == 127
    code, said = asking.ask(run, 0.2, None, ["sh", "-c", "echo first; sleep 60; echo second"])
    assert (code, said) == (None, "first\n")
