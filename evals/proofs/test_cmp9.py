"""CMP9: a folder named triton beside the script takes the package's place, and torch's compiler can't be imported."""

import re
import subprocess
import sys

from check_code import span


def test_a_folder_of_that_name(tmp_path, says):
    runs = []
    for name in ("triton", "kernels_of_mine"):
        folder = tmp_path / name
        (folder / name).mkdir(parents=True)
        command = [sys.executable, "-c", "import torch._dynamo"]
        runs.append(subprocess.Popen(command, cwd=folder, text=True, stderr=subprocess.PIPE))
    hidden, renamed = [run.communicate(timeout=60)[1] for run in runs]
    says("CMP9", hidden)
    assert runs[0].returncode == 1
    assert runs[1].returncode == 0, renamed


def test_the_check_prints_a_path_outside_site_packages_only_for_the_hiding_folder(tmp_path):
    code = re.search(r'python -c "(.*)"', span("CMP9", "python -c"))[1]
    installed = tmp_path / "lib" / "site-packages"
    (installed / "triton").mkdir(parents=True)
    (installed / "triton" / "__init__.py").write_text("__version__ = '3.7.1'")
    project = tmp_path / "project"
    (project / "triton").mkdir(parents=True)
    told = {
        folder: subprocess.run(
            [sys.executable, "-c", code], cwd=folder, env={"PYTHONPATH": str(folder)}, text=True, capture_output=True, timeout=60,
        ).stdout
        for folder in (project, installed)
    }  # fmt: skip
    assert " None " in told[project] and "site-packages/triton" not in told[project]
    assert " 3.7.1 " in told[installed] and "site-packages/triton" in told[installed]
