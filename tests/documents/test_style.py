"""The linter and the formatter of pyproject.toml are content."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT, module


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff_finds_nothing(command):
    module("ruff", "pip install -e '.[test]'")
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "--no-cache", "--quiet", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
