"""M3: a killed process leaves a number and no traceback; what a checkpoint takes of the host's memory, and mapped."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="needs the Linux /proc"
)
MIB = 2**20


def anonymous() -> int:
    """Bytes of this process that no file backs: only these can get it killed."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))


@pytest.fixture
def checkpoint(tmp_path):
    torch.save({"weight": torch.ones(64 * MIB // 4)}, tmp_path / "model.pt")
    return tmp_path / "model.pt"


def test_a_killed_process_prints_nothing_and_a_shell_calls_it_137():
    dies = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
    done = subprocess.run(dies, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
    shell = subprocess.run(["bash", "-c", '"$@"; exit $?', "-", *dies], capture_output=True)
    assert shell.returncode == 128 + signal.SIGKILL == 137


def test_each_process_that_loads_a_checkpoint_holds_a_copy_of_it(checkpoint):
    before = anonymous()
    state = torch.load(checkpoint, map_location="cpu")
    assert state["weight"].sum() > 0
    assert anonymous() - before > 60 * MIB


def test_a_mapped_checkpoint_is_read_without_a_copy(checkpoint):
    before = anonymous()
    state = torch.load(checkpoint, map_location="cpu", mmap=True)
    assert state["weight"].sum() > 0
    assert anonymous() - before < 8 * MIB


def test_memory_that_the_gpu_lacks_has_another_message(says):
    with pytest.raises(AssertionError):
        says("M3", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    says("M3", "    Reason:       OOMKilled")
    says("M3", "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=docker,task=python")
