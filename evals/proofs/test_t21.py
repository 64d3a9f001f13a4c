"""T21: looking into a program that must go on, and what stops the look or the program."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from check_code import span

# The first line lets any process of the same user look, as `ptrace_scope` 0 would.
STUCK = """
import ctypes, sys, time
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
{before}
def fetch_next_shard():
    print("up", flush=True)
    while True:
        time.sleep(0.05)
fetch_next_shard()
"""
FAULTHANDLER = (
    "import faulthandler, signal; faulthandler.register(signal.SIGUSR1, all_threads=True)"
)


@pytest.fixture
def stuck():
    """stuck(line) starts the program and waits until it is in its loop."""
    started = []

    def start(before=""):
        process = subprocess.Popen(
            [sys.executable, "-c", STUCK.format(before=before)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        assert process.stdout.readline() == b"up\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def spy():
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if not program or sys.platform != "linux":
        pytest.skip("needs py-spy on Linux: pip install py-spy")

    def run(*arguments, **options):
        return subprocess.run(
            [program, *map(str, arguments)], capture_output=True, text=True, timeout=15, **options
        )

    run.program = program
    return run


def test_a_dump_names_function_and_line_and_the_program_goes_on(stuck, spy):
    process = stuck()
    seen = spy("dump", "--pid", process.pid)
    assert (
        "fetch_next_shard (<string>:8)" in seen.stdout
        or "fetch_next_shard (<string>:9)" in seen.stdout
    ), seen.stdout
    assert process.poll() is None


def test_a_recording_leaves_out_a_thread_that_waits_unless_told_so(stuck, spy, tmp_path):
    process = stuck()

    def samples(*more):
        output = tmp_path / "stacks.raw"
        output.unlink(missing_ok=True)
        spy("record", "-d", 1, "-f", "raw", "-o", output, "--pid", process.pid, *more)
        lines = output.read_text().splitlines() if output.exists() else []
        return sum(int(line.rsplit(" ", 1)[1]) for line in lines if "fetch_next_shard" in line)

    # On a busy machine a look may take the thread for one that works.
    assert min(samples() for _ in range(3)) * 5 < samples("--idle")
    assert process.poll() is None


def test_the_number_of_a_shell_is_refused_in_other_words(spy):
    with subprocess.Popen(["sleep", "30"]) as other:
        refused = spy("dump", "--pid", other.pid)
        other.kill()
    assert (
        "Failed to find python version from target process" in refused.stderr and not refused.stdout
    )


def test_the_same_words_after_a_good_dump_mean_a_child_that_is_not_python(stuck, spy):
    process = stuck('import subprocess; child = subprocess.Popen(["sleep", "5"])')
    seen = spy("dump", "--subprocesses", "--pid", process.pid)
    assert (
        "fetch_next_shard" in seen.stdout
        and "Failed to find python version from target process" in seen.stderr
    )


def test_another_user_is_refused(spy, says):
    options = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        copy = shutil.copy(spy.program, folder)
        refused = subprocess.run(
            [copy, "dump", "--pid", "1"],
            capture_output=True,
            text=True,
            timeout=15,
            cwd="/",
            **options,
        )
    assert refused.returncode != 0
    says("T21", refused.stderr)


def test_a_signal_nobody_waits_for_ends_the_program(stuck):
    process = stuck()
    process.send_signal(signal.SIGUSR1)
    assert process.wait(10) == -signal.SIGUSR1


def test_with_faulthandler_the_same_signal_prints_the_stack_and_it_goes_on(stuck):
    process = stuck(FAULTHANDLER)
    process.send_signal(signal.SIGUSR1)
    lines = [process.stderr.readline() for _ in range(3)]
    assert any(b"fetch_next_shard" in line for line in lines)
    assert process.poll() is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_stopped_program_shows_t_and_goes_on_after_cont(stuck):
    process = stuck()

    def wait_for(states):
        for _ in range(100):
            state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0]
            if state in states:
                return state
            time.sleep(0.02)

    process.send_signal(signal.SIGSTOP)
    assert wait_for("T") == "T"
    process.send_signal(signal.SIGCONT)
    assert wait_for("SR") in "SR"


@pytest.mark.skipif(sys.platform != "linux", reason="needs ps and /proc")
def test_the_clock_of_the_check_tells_computing_from_sleeping(stuck):
    def seconds(process):
        command = span("T21", "ps -o stat=").replace("PID", str(process.pid))
        clock = subprocess.run(command.split(), capture_output=True, text=True).stdout.split()[-1]
        return int(clock[-2:])

    busy = stuck(
        "import threading; threading.Thread(target=lambda: sum(0 for _ in iter(int, 1)), daemon=True).start()"
    )
    idle = stuck()
    before = seconds(busy), seconds(idle)
    deadline = time.monotonic() + 12
    while seconds(busy) == before[0] and time.monotonic() < deadline:
        time.sleep(0.2)
    assert seconds(busy) > before[0] and seconds(idle) == before[1]
