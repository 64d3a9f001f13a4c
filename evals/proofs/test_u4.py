"""U4: pgrep -f and pkill -f see the command line of the shell that runs them."""

import re
import subprocess
import sys
import uuid

import pytest
from check_code import span
from remote_gpu_trainer.catalogue import bundle


@pytest.fixture
def name():
    """What no other process of this machine is called."""
    return f"train_{uuid.uuid4().hex}"


def remote(line: str, *, stdin: str | None = None) -> subprocess.CompletedProcess:
    """As sshd does it: the user's shell gets the whole line with -c, or a script on standard input."""
    command = ["bash", "-s"] if stdin else ["bash", "-c", line]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, timeout=10
    )


def test_the_restart_behind_pkill_is_never_reached(name):
    done = remote(f"pkill -f {name}; echo restarted")
    assert (done.returncode, done.stdout) == (-15, "")


def test_brackets_don_t_help_while_the_name_stands_elsewhere_in_the_line(name):
    bracketed = f"[{name[0]}]{name[1:]}"
    assert remote(f"pkill -f '{bracketed}'; echo python {name}").returncode == -15
    assert remote(f"pkill -f '{bracketed}'; echo done").stdout == "done\n"


def test_a_script_on_standard_input_reaches_its_end(name):
    assert remote("", stdin=f"pkill -f {name}; echo restarted\n").stdout == "restarted\n"


def test_the_count_is_one_with_nothing_running(name):
    assert remote(f"pgrep -fc {name}; true").stdout == "1\n"
    assert remote(f"pgrep -fc '[{name[0]}]{name[1:]}'; true").stdout == "0\n"


@pytest.mark.parametrize(
    "pattern, line, hit",
    [
        ("NAME", "pkill -f NAME; echo restarted", True),
        ("[t]NAME", "pkill -f '[t]NAME'; echo restarted", False),
        ("[t]NAME", "pkill -f '[t]NAME'; echo python tNAME", True),
    ],
)
def test_the_check_holds_the_pattern_against_the_line(name, pattern, line, hit):
    pattern, line = pattern.replace("NAME", name), line.replace("NAME", name)
    found = subprocess.run(
        ["grep", "-cE", pattern], input=line, capture_output=True, text=True, check=False
    )
    assert found.stdout.strip() == str(int(hit))
    assert (remote(line).returncode == -15) == hit


@pytest.mark.parametrize(("start", "hit"), [
    ([sys.executable, "-c", "input()", "NAME.py"], True),
    (["tmux", "-c", "input()", "new", "-d", "-s", "train", "python -u NAME.py >> run.log"], False),
])  # fmt: skip
def test_the_patterns_find_the_run_and_not_the_tmux_server_that_was_started_with_its_line(
    name, start, hit
):
    fix = re.search(r"^name='([^']+)'", bundle.load().get("U4").fix, re.M)[1]
    found = "pgrep -f '{}'; true".format(fix.replace("train\\.py", f"{name}\\.py"))
    check = span("U4", "pgrep -u").replace("train\\.py", f"{name}\\.py")
    start = [part.replace("NAME", name) for part in start]
    with subprocess.Popen(start, executable=sys.executable, stdin=subprocess.PIPE) as process:
        told = [remote(found).stdout.split(), remote(f"{check}; true").stdout.split()[:1]]
        process.communicate(b"\n")
    assert told == [[str(process.pid)] * hit] * 2
