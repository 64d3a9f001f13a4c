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


# `__oom_kill_process` in Linux's mm/oom_kill.c, and `show_signal_msg` in its arch/x86/mm/fault.c.
KILLED = "Out of memory: Killed process 4242 (python) total-vm:99123400kB, anon-rss:61234560kB, file-rss:1024kB, shmem-rss:0kB, UID:0 pgtables:17000kB oom_score_adj:0"
CRASHED = "python[4242]: segfault at 0 ip 00007f3a2c1b7f10 sp 00007ffd3b1c7f48 error 4 in libc.so.6[7f3a2c1a0000+1c000]"


@pytest.mark.parametrize(
    "kills, line, found", [(3, KILLED, True), (2, CRASHED, False)], ids=["memory", "a crash"]
)
@pytest.mark.parametrize(
    "counter, lines",
    [
        ("memory.events", "low 0\nhigh 0\nmax 90\noom {0}\noom_kill {0}\noom_group_kill 0\n"),
        ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill {0}\n"),
    ],
    ids=["cgroup v2", "cgroup v1"],
)
def test_the_lines_of_the_check_show_one_kill_more_and_its_process(
    tmp_path, shell_of, kills, line, found, counter, lines
):
    (tmp_path / counter).parent.mkdir(exist_ok=True)
    dmesg = tmp_path / "dmesg"
    dmesg.write_text(f"#!/bin/sh\n[ \"$*\" = -T ] && echo '[Tue Nov 25 10:40:07 2025] {line}'\n")
    dmesg.chmod(0o755)

    def told(word):
        code = shell_of("M3", word).replace("/sys/fs/cgroup", str(tmp_path))
        code = f"PATH={tmp_path}:$PATH; {code}"
        return subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout

    counts = []
    for number in (2, kills):  # a kill of an earlier job is in the count before
        (tmp_path / counter).write_text(lines.format(number))
        counts.append(int(told("oom_kill").split()[1]))
    assert (counts[1] > counts[0]) == found == ("4242 (python)" in told("dmesg"))
