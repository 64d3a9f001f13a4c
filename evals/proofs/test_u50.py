"""U50: a crash in compiled code prints no traceback; faulthandler names the line, in torchrun's ranks and in the loader."""

import os
import subprocess
import sys

import pytest

CRASH = "import ctypes, sys\n\n\ndef decode():\n    ctypes.string_at(0)\n\n\nif len(sys.argv) > 1:\n    decode()\nprint('trained')\n"

LOADER = """
import ctypes, sys
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        return i if sys.argv[1] == "good" else ctypes.string_at(i - 1)


if __name__ == "__main__":
    print(next(iter(DataLoader(Files(), num_workers=int(sys.argv[2])))))
"""


def run(*command: str, **variables: str) -> subprocess.CompletedProcess:
    names = {name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"}
    return subprocess.run(
        command, env={**names, **variables}, text=True, capture_output=True, timeout=60
    )


def test_the_bare_crash_and_the_stack(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(CRASH)
    silent = run(sys.executable, str(script), "crash")
    assert (silent.returncode, silent.stderr) == (-11, "")
    told = run(sys.executable, str(script), "crash", PYTHONFAULTHANDLER="1")
    assert "Fatal Python error: Segmentation fault" in told.stderr
    frames = [line for line in told.stderr.splitlines() if line.startswith("  File")]
    assert "ctypes" in frames[0] and frames[1].endswith('train.py", line 5 in decode')
    good = run(sys.executable, str(script), PYTHONFAULTHANDLER="1")
    assert (good.returncode, good.stdout, good.stderr) == (0, "trained\n", "")


def test_what_the_shell_says(tmp_path, says):
    script = tmp_path / "train.py"
    script.write_text(CRASH)
    shell = run("bash", "-c", f"{sys.executable} {script} crash; echo rc=$?")
    assert "rc=139" in shell.stdout
    says("U50", shell.stderr)


def test_torchrun_names_the_signal_and_faulthandler_the_line(tmp_path, says):
    script = tmp_path / "train.py"
    script.write_text(CRASH)
    command = (
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=1",
        str(script),
        "crash",
    )
    told = run(*command, PYTHONFAULTHANDLER="1")
    summary = told.stderr[told.stderr.index("Root Cause") :]
    says("U50", summary)
    assert "exitcode  : -11" in summary and "Signal 11 (SIGSEGV) received by PID" in summary
    assert "line 5 in decode" in told.stderr


@pytest.mark.parametrize("workers", ["0", "1"])
def test_the_loader(tmp_path, says, workers):
    """In a worker only the signal is told, even with faulthandler; without workers the dataset's line is."""
    script = tmp_path / "load.py"
    script.write_text(LOADER)
    told = run(sys.executable, str(script), "bad", workers, PYTHONFAULTHANDLER="1").stderr
    if workers == "1":
        says("U50", told)
    assert ("is killed by signal: Segmentation fault" in told) == (workers == "1")
    assert ("in __getitem__" in told) == (workers == "0")
    good = run(sys.executable, str(script), "good", workers)
    assert good.returncode == 0 and "tensor([0])" in good.stdout


@pytest.mark.parametrize(("more", "status"), [("crash", "139"), ("", "0")])
def test_the_check_prints_139_for_a_crash_and_0_for_a_run_that_ends(
    tmp_path, shell_of, more, status
):
    (tmp_path / "train.py").write_text(CRASH)
    code = shell_of("U50", "echo $?").replace(
        "python train.py", f"{sys.executable} train.py {more}"
    )
    shown = run("bash", "-c", f"cd {tmp_path}; {code}").stdout
    assert shown.split()[-1] == status
