"""A command of the job ends at its limit, and by nothing that it leaves behind."""

import os
import time

from remote_gpu_trainer.runner import limited


def test_a_command_is_killed_at_its_limit_with_what_it_started(tmp_path):
    left = f"sleep 60 & echo $! > {tmp_path}/pid; sleep 60"
    child = limited.start(["bash", "-c", left], 0.5, {"PATH": "/usr/bin:/bin"})
    assert child is not None and child.wait(20) == limited.TOO_LONG
    pid = (tmp_path / "pid").read_text().strip()
    until = time.monotonic() + 10
    while "State:\tZ" not in _status(pid):
        assert time.monotonic() < until
        time.sleep(0.02)


def _status(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/status") as file:
            return file.read()
    except OSError:
        return "State:\tZ"


def test_its_code_and_its_words_come_back(tmp_path):
    with open(tmp_path / "said", "w+") as file:
        child = limited.start(
            ["sh", "-c", 'cat; echo "$WORD" >&2; exit 5'],
            9,
            {"WORD": "b", "PATH": os.environ["PATH"]},
            text="a ",
            output=file.fileno(),
        )
        assert child is not None and child.wait(20) == 5
        assert (tmp_path / "said").read_text() == "a b\n"


def test_a_command_that_dies_of_a_signal_is_told_as_a_shell_tells_it():
    child = limited.start(["sh", "-c", "kill -9 $$"], 9, dict(os.environ))
    assert child is not None and child.wait(20) == 137


def test_it_returns_at_once_and_what_is_left_behind_keeps_nobody_waiting():
    begin = time.monotonic()
    child = limited.start(["sh", "-c", "sleep 10 & exit 0"], 9, dict(os.environ))
    assert child is not None and child.wait(20) == 0
    assert time.monotonic() - begin < 5
