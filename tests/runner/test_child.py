"""Functions and commands with a limit, in a child that may be given up."""

import os
import signal
import sys
import time

import pytest
from remote_gpu_trainer.runner import child, procs
from remote_gpu_trainer.runner.context import Run

from tests.runner.jobs import job_of


@pytest.fixture
def run(tmp_path) -> Run:
    return Run(
        job_of(
            {"rendered": {"run_dir": str(tmp_path)}, "timings": {"tick": 0.01, "copy_quiet": 0.3}}
        )
    )


def wait_until_gone(*pids: int) -> None:
    until = time.monotonic() + 10
    while any(procs.stat(pid) for pid in pids):  # a busy machine takes its time to end it
        assert time.monotonic() < until
        time.sleep(0.01)


def pid_in(path) -> int:
    """Return the pid that a child writes into a file, once it is there."""
    until = time.monotonic() + 10
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < until
        time.sleep(0.01)
    return int(path.read_text())


def test_a_value_comes_back(run):
    assert child.call(run, lambda a, b: [a, {"b": b}], 1, "ü\udc80", limit=5) == [
        1,
        {"b": "ü\udc80"},
    ]


def test_an_error_says_why(run):
    with pytest.raises(child.Failed, match="No such file"):
        child.call(run, os.listdir, "/no/such", limit=5)
    with pytest.raises(child.Failed, match="ZeroDivisionError"):
        child.call(run, lambda: 1 / 0, limit=5)
    with pytest.raises(child.Failed, match="was killed"):
        child.call(run, lambda: os.kill(os.getpid(), signal.SIGKILL), limit=5)


def test_what_hangs_is_given_up_and_leaves_no_process(run):
    job = child.Function(time.sleep, 60)
    assert not job.poll(0.01) and job.is_open
    job.kill()
    wait_until_gone(job.pid)
    assert not job.is_open
    with pytest.raises(child.Failed, match="no answer within 0.05 s"):
        child.call(run, time.sleep, 60, limit=0.05)


def test_a_function_is_killed_with_all_that_it_started(tmp_path):
    def starts():
        child.Command(["bash", "-c", f"echo $$ >{tmp_path}/own; sleep 60"])
        words = f"echo $$ >{tmp_path}/kept; sleep 60"
        child.Command(["bash", "-c", words], is_leader=False)
        time.sleep(60)

    job = child.Function(starts)
    pids = pid_in(tmp_path / "own"), pid_in(tmp_path / "kept")
    job.kill()
    wait_until_gone(job.pid, *pids)


def test_a_command_is_killed_with_all_that_it_started(tmp_path):
    inner = (
        f"setsid sleep 60 & echo $! >{tmp_path}/setsid; sleep 60 & echo $! >{tmp_path}/left; wait"
    )
    command = child.Command(["bash", "-c", inner])
    pids = pid_in(tmp_path / "setsid"), pid_in(tmp_path / "left")
    assert not command.finish(0.01)
    wait_until_gone(command.pid, *pids)
    assert command.code == 137


def test_what_has_ended_leaves_what_it_put_into_the_background(tmp_path):
    command = child.Command(["bash", "-c", f"sleep 60 & echo $! >{tmp_path}/left"])
    assert command.finish(10) and command.code == 0
    left = pid_in(tmp_path / "left")
    command.kill()
    assert procs.stat(left)
    os.kill(left, signal.SIGKILL)


def test_the_beat_goes_on_and_may_end_the_wait(run):
    beats = []

    def beat():
        beats.append(1)
        run.asked = "stop" if len(beats) == 3 else ""
        return bool(run.asked)

    with pytest.raises(child.Asked, match="stop"):
        child.call(run, time.sleep, 60, limit=60, beat=beat)
    assert len(beats) == 3
    assert child.ask(run, 60, beat, ["sleep", "0.1"])[0] == 0


def test_a_beat_that_fails_leaves_no_child(run):
    job = child.Function(time.sleep, 60)
    with pytest.raises(KeyError):
        child.wait(run, job, beat=lambda: {}["no"])
    wait_until_gone(job.pid)


def test_a_child_that_makes_progress_is_given_time_and_one_that_hangs_is_not(run, tmp_path):
    def reads() -> str:
        for _ in range(12):
            with open(__file__, "rb") as file:
                file.read()
            time.sleep(0.05)
        return "read"

    assert child.call(run, reads) == "read"
    began = time.monotonic()
    with pytest.raises(child.Failed, match="no progress for 0.3 s"):
        child.call(run, time.sleep, 60)
    assert time.monotonic() - began < 5


def test_the_progress_of_what_it_started_counts(run):
    words = (
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do cat /proc/self/stat >/dev/null; sleep 0.05; done"
    )
    command = child.Command(["bash", "-c", words])
    child.wait(run, command)
    assert command.code == 0


def test_a_child_holds_none_of_this_process_s_files(run, tmp_path):
    with open(tmp_path / "held", "w"):
        names = child.call(
            run, lambda: [os.readlink(entry) for entry in os.scandir("/proc/self/fd")], limit=5
        )
    assert not [name for name in names if "held" in name]


def test_no_child_leaves_an_open_file_here(run):
    before = len(os.listdir("/proc/self/fd"))
    jobs = [child.Function(time.sleep, 60), child.Function(int)]
    commands = [child.Command(["sleep", "60"]), child.Command(["true"]), child.Command(["echo"])]
    for one in [*jobs, *commands]:
        one.finish(0.05)
    with pytest.raises(OSError):
        child.Command(["/no/such"])
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_command_tells_its_code_and_its_words(run):
    assert child.ask(run, 5, None, ["sh", "-c", "echo out; echo err >&2; exit 3"]) == (
        3,
        "out\nerr\n",
    )
    assert child.ask(run, 5, None, ["/no/such"])[0] == 127
    code, said = child.ask(run, 0.2, None, ["sh", "-c", "echo first; sleep 60; echo second"])
    assert (code, said) == (None, "first\n")


def test_what_a_command_prints_is_bounded(monkeypatch):
    monkeypatch.setattr(child, "MOST_OUTPUT", 1000)
    command = child.Command(["yes"])
    until = time.monotonic() + 10
    while not command.poll():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert command.code == 137 and len(command.output) == 1000


def test_what_a_function_returns_is_bounded(run, monkeypatch):
    monkeypatch.setattr(child, "MOST_OUTPUT", 1000)
    with pytest.raises(child.Failed, match="was killed"):
        child.call(run, lambda: "x" * 10_000_000, limit=10)


def test_an_answer_is_what_a_command_prints_and_none_where_it_hangs():
    assert child.answer(["sh", "-c", "echo $LC_ALL; echo bad >&2; exit 1"], 10) == "C\n"
    assert child.answer(["sleep", "60"], 0.05) is None
    assert child.answer(["/no/such"], 1) is None


def test_a_process_of_somebody_else_is_known_by_its_start(tmp_path):
    command = child.Command(["sleep", "60"])
    told = procs.stat(command.pid)
    assert told and child.Found(command.pid, told.start).is_open
    other = child.Found(command.pid, told.start + 1)
    assert not other.is_open
    other.kill()
    assert command.is_open, "its pid is another one's by now"
    child.Found(command.pid, told.start).kill(5)
    assert not command.is_open


def test_a_guarded_command_is_killed_at_its_limit_with_what_it_started(tmp_path):
    left = f"sleep 60 & echo $! > {tmp_path}/pid; sleep 60"
    guard = child.start_guarded(["bash", "-c", left], 0.5, {"PATH": "/usr/bin:/bin"})
    assert guard is not None and guard.poll(20) and guard.code == child.TOO_LONG
    wait_until_gone(pid_in(tmp_path / "pid"))


def test_a_guarded_command_ends_at_its_limit_when_who_started_it_is_gone(tmp_path):
    inner = f"echo $$ >{tmp_path}/pid; sleep 60"
    start = f"child.start_guarded(['bash', '-c', {inner!r}], 0.5, dict(os.environ))"
    code = f"import os\nfrom remote_gpu_trainer.runner import child\n{start}\nos._exit(0)"
    assert child.Command([sys.executable, "-c", code]).finish(20)
    wait_until_gone(pid_in(tmp_path / "pid"))


def test_the_code_and_the_words_of_a_guarded_command_come_back(tmp_path):
    with open(tmp_path / "said", "w+") as file:
        guard = child.start_guarded(
            ["sh", "-c", 'cat; echo "$WORD" >&2; exit 5'],
            9,
            {"WORD": "b", "PATH": os.environ["PATH"]},
            text="a ",
            output=file.fileno(),
        )
        assert guard is not None and guard.poll(20) and guard.code == 5
        assert (tmp_path / "said").read_text() == "a b\n"


def test_a_guarded_command_that_dies_of_a_signal_is_told_as_a_shell_tells_it():
    guard = child.start_guarded(["sh", "-c", "kill -9 $$"], 9, dict(os.environ))
    assert guard is not None and guard.poll(20) and guard.code == 137


def test_a_guard_returns_at_once_and_what_is_left_behind_keeps_nobody_waiting():
    begin = time.monotonic()
    guard = child.start_guarded(["sh", "-c", "sleep 10 & exit 0"], 9, dict(os.environ))
    assert guard is not None and guard.poll(20) and guard.code == 0
    assert time.monotonic() - begin < 5
