"""CMP9: a folder named triton beside the script takes the package's place, and torch's compiler can't be imported."""

import importlib.util
import re
import subprocess
import sys

import pytest
from check_code import span


def imported(folder) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", "import torch._dynamo"]
    return subprocess.run(command, cwd=folder, text=True, stderr=subprocess.PIPE, timeout=60)


@pytest.mark.parametrize("is_package", [True, False])
def test_a_folder_of_that_name(tmp_path, says, is_package):
    folder = tmp_path / "triton"
    folder.mkdir()
    if is_package:
        (folder / "__init__.py").touch()
    done = imported(tmp_path)
    if is_package or importlib.util.find_spec("triton") is None:
        assert done.returncode == 1
        says("CMP9", done.stderr)
    else:
        assert done.returncode == 0, done.stderr
    folder.rename(tmp_path / "kernels_of_mine")
    assert imported(tmp_path).returncode == 0


def test_the_check_prints_a_path_outside_site_packages_only_for_the_hiding_folder(tmp_path):
    code = re.search(r'python -c "(.*)"', span("CMP9", "python -c"))[1]
    installed = tmp_path / "lib" / "site-packages"
    (installed / "triton").mkdir(parents=True)
    (installed / "triton" / "__init__.py").write_text("__version__ = '3.7.1'")
    project = tmp_path / "project"
    (project / "triton").mkdir(parents=True)
    (project / "triton" / "__init__.py").touch()
    told = {
        folder: subprocess.run(
            [sys.executable, "-c", code], cwd=folder, env={"PYTHONPATH": str(folder)}, text=True, capture_output=True, timeout=60,
        ).stdout
        for folder in (project, installed)
    }  # fmt: skip
    assert " None " in told[project] and "site-packages/triton" not in told[project]
    assert " 3.7.1 " in told[installed] and "site-packages/triton" in told[installed]
