"""CMP9: a folder named triton beside the script takes the package's place, and torch's compiler can't be imported."""

import subprocess
import sys


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
