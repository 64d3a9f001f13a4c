"""Every shell script that a user runs: linted, formatted, with help, and with entry ids that exist."""

import re
import subprocess

import pytest
from remote_gpu_trainer.catalogue import bundle

from tests.conftest import ROOT, engine

SHELL = sorted(
    path for pattern in ("*.sh", "*.template") for path in (ROOT / "scripts").glob(pattern)
)
OURS = [path for path in SHELL if not path.name.startswith("run_")]


@pytest.mark.parametrize("path", SHELL, ids=lambda path: path.name)
def test_shellcheck_warns_of_nothing(path):
    done = subprocess.run(
        [
            engine("shellcheck", "apt-get install -y shellcheck"),
            "-s",
            "bash",
            "-S",
            "warning",
            str(path),
        ],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("path", SHELL, ids=lambda path: path.name)
def test_shfmt_would_change_nothing(path):
    done = subprocess.run(
        [
            engine("shfmt", "apt-get install -y shfmt"),
            "-i",
            "2",
            "-ci",
            "-ln",
            "bash",
            "-d",
            str(path),
        ],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_help_is_the_comment_at_the_top_and_tells_exit_codes_and_an_example(path):
    done = subprocess.run(["bash", str(path), "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ")
    for text in ("exit", "example", "--help", path.name):
        assert text in done.stdout or (text == "--help" and path.name == "setup-china-mirrors.sh")


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_it_has_no_carriage_return(path):
    assert b"\r\n" not in path.read_bytes()


def test_entry_ids_in_the_scripts_are_in_the_catalogue():
    known = {entry.id for entry in bundle.read(ROOT).entries}
    families = "|".join(sorted({re.match("[A-Z]+", name)[0] for name in known}))
    for path in OURS:
        told = set(re.findall(rf"\b(?:{families})\d+\b", path.read_text()))
        assert not {name for name in told if name not in known and name not in ("V1", "V2")}, (
            path.name
        )
