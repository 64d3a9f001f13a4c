"""DP22: a killed worker of `map` ends it without a traceback of the function; without a pool the true error shows."""

import contextlib
import os
import subprocess
import sys

import pytest

datasets = pytest.importorskip("datasets")


def raises(row, index):
    if index == 3:
        raise KeyError("text")
    return row


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    datasets.disable_progress_bars()
    return datasets.Dataset.from_dict({"a": list(range(8))})


MAP = """
import os, signal, datasets

def dies(row, index):
    if index == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return row

table = datasets.Dataset.from_dict({"a": list(range(8))})
try:
    table.map(dies, with_indices=True, num_proc=2)
except RuntimeError as error:
    print(error, flush=True)
    os._exit(0)
"""


def test_a_killed_worker_ends_the_map_with_the_signature_alone(says, tmp_path):
    """In a process of its own: where the worker died with the pool's lock, the pool never ends."""
    env = {**os.environ, "HF_DATASETS_CACHE": str(tmp_path)}
    for _ in range(4):
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                [sys.executable, "-c", MAP], env=env, capture_output=True, text=True, timeout=30
            )
            break
    says("DP22", done.stdout)


# The words of Linux 6.x: `__oom_kill_process` in mm/oom_kill.c and `show_signal_msg` in arch/x86/mm/fault.c.
KILLED = "Memory cgroup out of memory: Killed process 4242 (python) total-vm:9912340kB, anon-rss:8123456kB, file-rss:1024kB, shmem-rss:0kB, UID:0 pgtables:17000kB oom_score_adj:0"
CRASHED = "python[4242]: segfault at 0 ip 00007f3a2c1b7f10 sp 00007ffd3b1c7f48 error 4 in libtokens.so[7f3a2c1a0000+1c000]"
QUIET = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05"


@pytest.mark.parametrize(
    "line, kills, shown",
    [(KILLED, 1, True), (CRASHED, 0, True), (QUIET, 0, False)],
    ids=["memory", "crash", "healthy"],
)
def test_the_lines_of_the_check_show_a_kill_and_a_crash_and_stay_empty_otherwise(
    tmp_path, shell_of, line, kills, shown
):
    (tmp_path / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (tmp_path / "dmesg").write_text(f'#!/bin/sh\n[ "$*" = -T ] && cat {tmp_path}/ring\n')
    (tmp_path / "ring").write_text(
        f"[Tue Nov 25 09:12:01 2025] eth0: link up\n[Tue Nov 25 10:40:07 2025] {line}\n"
    )
    events = f"low 0\nhigh 0\nmax {31 * kills}\noom {kills}\noom_kill {kills}\noom_group_kill 0\n"
    (tmp_path / "memory.events").write_text(events)
    for name in ("sudo", "dmesg"):
        (tmp_path / name).chmod(0o755)

    def told(word):
        code = shell_of("DP22", word).replace("/sys/fs/cgroup", str(tmp_path))
        code = f"PATH={tmp_path}:$PATH; {code}"
        return subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout

    assert told("dmesg") == (f"[Tue Nov 25 10:40:07 2025] {line}\n" if shown else "")
    assert told("oom_kill") == f"oom_kill {kills}\n"


def test_an_ordinary_exception_comes_through_and_needs_no_pool(says, table):
    with pytest.raises(KeyError) as error:
        table.map(raises, with_indices=True, num_proc=None)
    with pytest.raises(AssertionError):
        says("DP22", str(error.value))
