"""What `release` prints and how it ends where no box is asked, and an installation whose output nobody reads."""

import io
import json
import os
import subprocess

import pytest
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.runs import ledger

from tests.clients.install_home import NAME, home, servers  # noqa: F401
from tests.clients.test_install import PYTHON

RUNPOD = ("gpu-7", "--profile", "runpod")


@pytest.fixture
def asked(monkeypatch, tmp_path, capsys):
    """Run `release`: asked(words, stdin) -> both exit codes, the text, the JSON."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def ask(words: tuple[str, ...], given: str = "") -> tuple[tuple, str, dict]:
        told = []
        for more in ((), ("--json",)):
            ledger.opened("198.51.100.1:22", "gpu-7")
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
            told.append((main(["release", *words, *more]), capsys.readouterr().out))
        return (told[0][0], told[1][0]), told[0][1], json.loads(told[1][1])

    return ask


@pytest.mark.parametrize(
    ("words", "given", "code", "says"),
    [
        (("local", "--profile", "local"), "", 0, "gone: nobody bills local: nothing to end\n"),
        (("local", "--profile", "runpod"), "", 2, "could not tell: "),
        (("gpu-7", "--profile", "local"), "", 2, "could not tell: "),
        ((*RUNPOD, "--id", "abc123", "--listing", "-"), '[{"id": "abc123"}]', 1, "still there: "),
        ((*RUNPOD, "--id", "abc123", "--listing", "-"), '[{"id": "zz9"}]', 2, "could not "),
        ((*RUNPOD, "--id", "abc123", "--listing", "-"), "429 Too Many Requests", 2, "could not "),
    ],
)
def test_whether_a_box_is_gone_is_said_in_a_word_and_a_code(asked, words, given, code, says):
    ended, text, told = asked((*words, "--confirm-gone"), given)
    assert ended == (code, code) and text.startswith(says) and text.endswith(f": {told['text']}\n")
    assert told["gone"] is {0: True, 1: False, 2: None}[code]
    if code == 1:  # a list that has shown it before
        ended, text, told = asked((*words, "--confirm-gone"), '[{"id": "zz9"}]')
        assert (ended[0], text[:6], told["gone"]) == (0, "gone: ", None)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("gpu-7", "--forget"), 0, "forgot gpu-7: you said that it is gone\n"),
        (("gpu-7", "--mine"), 0, "forgot gpu-7 and won't remind you again: "),
        (("198.51.100.1:22", "--forget"), 0, "forgot 198.51.100.1:22: "),
        (("gpu-8", "--forget"), 1, "gpu-8 isn't on the list of boxes that may be billed\n"),
    ],
)
def test_a_box_is_forgotten_when_the_user_says_so(asked, words, code, says):
    ended, text, told = asked(words)
    assert ended == (code, code) and text.startswith(says) and told["forgotten"] is (code == 0)


@pytest.mark.parametrize("lines", [1, 2000])  # 2000 are more than a buffer holds
def test_a_reader_that_goes_away_leaves_the_order_standing(home, lines, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    (home / ".claude.json").write_text(json.dumps({f"key {n}": "x" * 80 for n in range(lines)}))
    reader, writer = os.pipe()
    os.close(reader)
    command = [PYTHON, "-m", "remote_gpu_trainer", "install", "--client", "claude-code"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert NAME in servers(home, "claude-code")
