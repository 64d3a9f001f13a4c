"""U4: pgrep -f and pkill -f see the command line of the shell that runs them."""

import subprocess
import uuid

import pytest


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
