"""U59: Python looks beside the started script; -m and PYTHONPATH make it look in the root."""

import os
import subprocess
import sys

import pytest
from check_code import span
from stub_box import Box


@pytest.fixture
def root(tmp_path):
    (tmp_path / "utils.py").write_text("value = 1\n")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "train.py").write_text("import utils\nprint(utils.value)\n")
    (tmp_path / "tools" / "relative.py").write_text("from . import train\n")
    return tmp_path


def started(root, *command, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | variables
    return subprocess.run(
        [sys.executable, *command], cwd=root, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("script", ["tools/train.py", "tools/relative.py"])
def test_a_script_in_a_folder_fails_with_the_signature(says, root, script):
    run = started(root, script)
    assert run.returncode
    says("U59", run.stderr)


@pytest.mark.parametrize("module", ["tools.train", "tools.relative"])
def test_m_cures_both(root, module):
    assert started(root, "-m", module).stdout == "1\n"


def test_pythonpath_cures_the_plain_import(root):
    assert started(root, "tools/train.py", PYTHONPATH=".").stdout == "1\n"


@pytest.mark.parametrize(("script", "variables", "confirmed"), [
    ("tools/train.py", {}, True),
    ("tools/train.py", {"PYTHONPATH": "."}, False),
    ("train.py", {}, False),
])  # fmt: skip
def test_the_check_shows_whether_python_looks_where_the_module_is(
    root, script, variables, confirmed
):
    (root / "train.py").write_text("import utils\nprint(utils.value)\n")
    assert (started(root, script, **variables).returncode != 0) is confirmed
    box, code = Box(root), span("U59", "find . -maxdepth").replace("tools/train.py", script)
    found, listed = box.said(code, **{"PYTHONPATH": "", **variables}).splitlines()
    assert found == "./utils.py"
    assert (os.path.abspath(root) not in map(os.path.abspath, eval(listed))) is confirmed
