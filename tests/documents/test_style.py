"""The linter, the formatter and the type checker of pyproject.toml are content, and exceptions get fewer."""

import json
import subprocess
import sys

import pytest
import tomlkit

from tests.conftest import ROOT, module

TOOLS = tomlkit.parse((ROOT / "pyproject.toml").read_text(encoding="utf-8")).unwrap()["tool"]
LINT = TOOLS["ruff"]["lint"]
COMPLEX = [path for path, codes in LINT["per-file-ignores"].items() if "C901" in codes]
MOST_COMPLEX = 0  # lower it with the list; it never grows


def ruff(*words: str) -> subprocess.CompletedProcess:
    module("ruff", "pip install -e '.[test]'")
    return subprocess.run(
        [sys.executable, "-m", "ruff", *words], cwd=ROOT, capture_output=True, text=True
    )


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff_finds_nothing(command):
    done = ruff(*command, "--no-cache", "--quiet", ".")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_no_function_may_be_too_complex_without_standing_in_the_list():
    assert "C901" in LINT["select"] and LINT["mccabe"]["max-complexity"] == 15
    assert all((ROOT / path).is_file() for path in COMPLEX)  # a file each, never a pattern
    assert len(COMPLEX) <= MOST_COMPLEX


def test_pyright_finds_nothing(tmp_path):
    module("pyright", "pip install -e '.[test]'")
    (tmp_path / "server").symlink_to(ROOT / "server")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(TOOLS["pyright"]), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([*command, "-p", tmp_path], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer["summary"]["filesAnalyzed"] > 50
    assert [
        f"{fault['file']}:{fault['range']['start']['line'] + 1}: {fault['message']}"
        for fault in answer["generalDiagnostics"]
        if fault["severity"] == "error"
    ] == []


def test_no_file_is_left_out_of_the_type_check():
    assert TOOLS["pyright"]["typeCheckingMode"] == "basic"
    assert not {"ignore", "exclude", "strict"} & TOOLS["pyright"].keys()
