"""scripts/snapshot.py is what the modules in snapshot/ make, and runs alone under Python 3.8."""

import ast
import json
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.gpu_health.box_check.test_one_file import names_of, old_python

SCRIPT = ROOT / "scripts/snapshot.py"
PARTS = ROOT / "server/remote_gpu_trainer/snapshot"
SHARED = [PARTS.parent / f"text/{name}.py" for name in ("masking", "proc")]
MODULES = [*(path for path in sorted(PARTS.glob("*.py")) if path.stem != "__init__"), *SHARED]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_part_imports_its_neighbours_by_the_names_that_they_define(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= sys.stdlib_module_names
        elif isinstance(node, ast.ImportFrom) and node.level:
            home = PARTS if node.level == 1 else PARTS.parent
            source = home.joinpath(*node.module.split(".")).with_suffix(".py")
            defined = set(names_of(ast.parse(source.read_text(encoding="utf-8"))))
            assert source in MODULES and {alias.name for alias in node.names} <= defined
            assert [alias.asname for alias in node.names if alias.asname] == []


def test_the_one_file_answers_alone_and_within_its_limit(tmp_path):
    words = ["--limit", "4", "--to", str(tmp_path / "taken"), "--json", str(tmp_path)]
    with SCRIPT.open(encoding="utf-8") as text:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-", *words],
            stdin=text,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["ranks"] == [] and told["folder"] == str(tmp_path)
    assert {path.name for path in (tmp_path / "taken").iterdir()} == {
        "page.md",
        "snapshot.json",
        "stacks.log",
    }
    again = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True)
    assert again.returncode == 2 and "can't be written (File exists)" in again.stderr


def test_it_says_what_it_is_for_and_which_words_it_takes():
    done = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    options = ("--limit", "--json", "--to", "--why", "--abort", "RUN", "Exit codes")
    assert all(word in done.stdout for word in options)


def test_the_syntax_is_that_of_python_3_8():
    ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 8))
    if python := old_python():
        done = subprocess.run([python, SCRIPT, "--help"], capture_output=True, text=True)
        assert done.returncode == 0
