"""U17: a pattern with a bare `|` on the other side of ssh. `ssh` here joins its words as the real one does."""

import subprocess
from pathlib import Path

import pytest
from check_code import span

SSH = 'ssh() { [ "$1" = -n ] && { shift; exec < /dev/null; }; shift; bash -c "$*"; }\n'


@pytest.fixture
def shell(tmp_path):
    """shell(line): a shell with an open input and a log in its folder; None if it doesn't come back."""
    (tmp_path / "run.log").write_text("Epoch 1 loss 2.1\nTraceback (most recent call last)\nbye\n")

    def run(line: str, seconds: float = 20):
        with subprocess.Popen(
            ["bash", "-c", SSH + line],
            cwd=tmp_path,
            stdin=subprocess.PIPE,  # stays open, as a terminal does
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as child:
            try:
                code = child.wait(seconds)
            except subprocess.TimeoutExpired:
                waiting = [Path(f"/proc/{p}/cmdline").read_bytes() for p in members(child.pid)]
                child.stdin.close()  # end of input: what waited for it ends
                child.wait(20)
                return None, waiting
            return code, child.stdout.read() + child.stderr.read()

    return run


def members(session: int) -> list[int]:
    """The processes of a session."""
    found = subprocess.run(["ps", "-o", "pid=", "-s", str(session)], capture_output=True, text=True)
    return [int(word) for word in found.stdout.split()]


def test_a_cut_pattern_leaves_a_grep_without_a_file_that_waits(shell):
    code, waiting = shell("ssh gpu grep -E 'Traceback|OOM|Epoch' run.log", 0.7)
    assert code is None
    assert b"grep\0-E\0Traceback\0" in waiting


def test_without_input_the_same_mistake_ends_at_once_and_says_so(shell):
    code, said = shell("ssh -n gpu grep -E 'Traceback|OOM|Epoch' run.log")
    assert code == 127 and "OOM: command not found" in said


@pytest.mark.parametrize(
    "line",
    [
        "ssh -n gpu \"grep -E 'Traceback|OOM|Epoch' run.log\"",
        "ssh gpu grep -e Traceback -e OOM -e Epoch run.log",
    ],
)
def test_a_quoted_line_or_no_pipe_at_all_reads_the_file(shell, line):
    assert shell(line) == (0, "Epoch 1 loss 2.1\nTraceback (most recent call last)\n")


@pytest.mark.parametrize(("pattern", "code"), [
    ("'Traceback|OOM'", 127), ("\"'Traceback|OOM'\"", 0), ("'Traceback'", 0),
])  # fmt: skip
def test_the_words_of_the_check_show_what_the_boxs_shell_makes_of_them(shell, pattern, code):
    check = span("U17", "printf")
    assert "'Traceback|OOM'" in check
    _, words = shell(check.replace("'Traceback|OOM'", pattern))
    line = " ".join(words.split("\n")[1:])  # without the host's name
    status, said = shell(f"({line}) < /dev/null")
    assert status == code
    assert ("command not found" in said) is (code == 127)
