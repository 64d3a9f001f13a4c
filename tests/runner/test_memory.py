"""A kill for memory counts when it was in the run's own cgroup, or a process of its own."""

import io
import os

import pytest
from remote_gpu_trainer.runner import collectors, memory
from remote_gpu_trainer.runner.context import Run

from tests.runner.jobs import job_of

KILL = "Memory cgroup out of memory: Killed process {} (python3) total-vm:9kB"


class Box:
    """The files of a machine, and its kernel's log."""

    def __init__(self, folder):
        self.root, self.log, self.total, self.namespace = folder, [], 0, memory._FIRST_NAMESPACE
        self.run = Run(job_of({"rendered": {"cgroup": str(folder)}}))

    def put(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def box(tmp_path, monkeypatch) -> Box:
    made = Box(tmp_path)
    made.own = "0::/ours\n"

    def opened(path, *rest):
        if path == "/proc/self/cgroup":
            return io.StringIO(made.own)
        if path == "/proc/vmstat":
            return io.StringIO(f"nr_free_pages 7\noom_kill {made.total}\n")
        return open(path, *rest)

    monkeypatch.setattr(memory, "open", opened, raising=False)
    monkeypatch.setattr(memory.os, "readlink", lambda path: made.namespace)
    monkeypatch.setattr(collectors, "kernel_log", lambda: "\n".join(made.log))
    return made


@pytest.mark.parametrize(
    ("own", "name"),
    [
        ("0::/ours\n", "ours/memory.events"),
        ("0::/ours\n", "ours/memory.events.local"),
        ("0::/\n", "memory.events"),  # a container sees its own cgroup at the root
        ("0::/host/path\n", "memory.events"),
        ("4:memory:/ours\n0::/\n", "memory/ours/memory.oom_control"),
        ("4:memory:/docker/ours\n", "memory/memory.oom_control"),
    ],
)
def test_a_kill_in_the_own_cgroup_counts_whatever_its_version(box, own, name):
    box.own = own
    box.put(name, "low 0\noom_kill 3\n")
    mark = memory.note_kills(box.run)
    assert memory.killed(box.run, mark, set()) == ""
    box.put(name, "low 0\noom_kill 4\n")
    assert memory.killed(box.run, mark, set()) == "the kernel killed for want of host memory"


def test_a_kill_in_a_cgroup_below_or_beside_the_own_one_is_a_neighbours(box):
    for name in ("ours", "beside"):
        box.put(f"{name}/memory.events", "oom_kill 0\n")
    box.put("ours/memory.events.local", "oom_kill 0\n")
    mark = memory.note_kills(box.run)
    for name in ("ours", "beside"):
        box.put(f"{name}/memory.events", "oom_kill 1\n")
    box.total += 1
    assert memory.killed(box.run, mark, {42}) == ""
    assert not memory.is_likely(box.run, mark)


def test_the_root_cgroup_of_a_machine_counts_neighbours_and_is_left_out(box):
    box.own = "4:memory:/\n0::/\n"
    box.put("memory/release_agent", "")
    box.put("memory/memory.oom_control", "oom_kill 1\n")
    mark = memory.note_kills(box.run)
    box.put("memory/memory.oom_control", "oom_kill 2\n")
    assert memory.killed(box.run, mark, {42}) == ""


def test_the_kernels_line_counts_when_it_names_a_process_of_ours(box):
    box.log = [KILL.format(42)]
    mark = memory.note_kills(box.run)
    assert memory.killed(box.run, mark, {42}) == "", "an earlier process had that number"
    box.log = ["the buffer has turned over", KILL.format(4242), KILL.format(43)]
    assert memory.killed(box.run, mark, {42}) == ""
    assert "process 43" in memory.killed(box.run, mark, {42, 43})


def test_the_kernels_numbers_are_no_ones_in_a_container(box):
    mark = memory.note_kills(box.run)
    box.log, box.namespace = [KILL.format(42)], "pid:[4026532999]"
    assert memory.killed(box.run, mark, {42}) == ""


def test_memory_is_likely_where_nobody_can_say_whose_the_kill_was(box):
    mark = memory.note_kills(box.run)
    assert not memory.is_likely(box.run, mark), "nothing was killed for memory"
    box.total += 1
    assert memory.is_likely(box.run, mark)
    box.log = [KILL.format(7)]
    assert not memory.is_likely(box.run, mark), "the kernel says that it was another process"


def test_this_machine_is_read_without_an_error(tmp_path):
    run = Run(job_of({"rendered": {"run_dir": str(tmp_path)}}))
    assert memory.killed(run, memory.note_kills(run), {os.getpid()}) == ""
