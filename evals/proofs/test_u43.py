"""U43: where the lines of `print` are while a program runs into a file."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

SCRIPT = "import sys; print('epoch 1'); sys.stderr.write('warning\\n'); sys.stderr.flush(); sys.stdin.read()"
PLAIN = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}


@pytest.fixture
def while_it_runs(tmp_path):
    """(log while the program runs, log after the signal). Its line on stderr tells that it has printed."""

    def run(script=SCRIPT, flags=(), env=PLAIN, end=signal.SIGKILL, before=()):
        log = tmp_path / "run.log"
        with log.open("w") as out, subprocess.Popen([*before, sys.executable, *flags, "-c", script], stdin=subprocess.PIPE,
                                                    stdout=out, stderr=subprocess.PIPE, env=env) as process:  # fmt: skip
            assert process.stderr.readline() == b"warning\n"
            now = log.read_text()
            process.send_signal(end)
            process.wait(10)
            process.stdin.close()
            return now, log.read_text()

    return run


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_printed_line_is_not_in_the_file_and_a_kill_throws_it_away(while_it_runs, end):
    assert while_it_runs(end=end) == ("", "")


def test_the_switch_and_the_variable_write_at_once(while_it_runs):
    assert while_it_runs(flags=["-u"])[0] == "epoch 1\n"
    assert while_it_runs(env={**PLAIN, "PYTHONUNBUFFERED": "1"})[0] == "epoch 1\n"


@pytest.mark.parametrize("script", [
    SCRIPT.replace("'epoch 1'", "'epoch 1', flush=True"),
    SCRIPT.replace("import sys;", "import sys; sys.stdout.reconfigure(line_buffering=True);"),
])  # fmt: skip
def test_the_program_itself_can_flush(while_it_runs, script):
    assert while_it_runs(script)[0] == "epoch 1\n"


@pytest.mark.skipif(not shutil.which("stdbuf"), reason="needs stdbuf")
def test_stdbuf_changes_nothing_for_python(while_it_runs):
    assert while_it_runs(before=["stdbuf", "-oL"])[0] == ""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("flags", "variable", "held_back"), [
    ([], None, True), ([], "", True), ([], "1", False), (["-u"], None, False),
])  # fmt: skip
def test_the_check_tells_a_program_that_holds_its_lines_back(shell_of, flags, variable, held_back):
    env = PLAIN if variable is None else {**PLAIN, "PYTHONUNBUFFERED": variable}
    command = [sys.executable, *flags, "-c", SCRIPT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as it:  # fmt: skip
        assert it.stderr.readline() == b"warning\n"
        variables, arguments = (
            subprocess.run(["bash", "-c", shell_of("U43", word).replace("PID", str(it.pid))], capture_output=True, text=True).stdout
            for word in ("environ", "ps -o args=")
        )  # fmt: skip
        it.communicate(b"")
    assert (not variables and " -u " not in arguments) is held_back


def test_carriage_returns_of_a_progress_bar_become_lines():
    finished = subprocess.run(
        ["bash", "-c", r"printf '10%%\r50%%\r90%%' | tr '\r' '\n' | tail -1"],
        capture_output=True,
        text=True,
    )
    assert finished.stdout == "90%"
