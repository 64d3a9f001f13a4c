"""M19: a snapshot read by line. Recording itself needs a GPU."""

import inspect
import pickle
import re
import subprocess
import sys

import pytest
import torch
from remote_gpu_trainer.catalogue import bundle


def frame(filename, line):
    return {"filename": filename, "line": line, "name": "forward"}


def block(size, frames, state="active_allocated"):
    return {"size": size, "requested_size": size, "address": 0, "state": state, "frames": frames}


LIBRARY = frame("/opt/venv/lib/python3.11/site-packages/torch/nn/functional.py", 1734)
OF_DEBIAN = frame("/usr/local/lib/python3.12/dist-packages/torch/nn/modules/module.py", 1776)
SEGMENT = {
    "device": 0, "address": 0, "total_size": 10 << 30, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
    "allocated_size": 9 << 30, "active_size": 9 << 30, "requested_size": 9 << 30, "frames": [],
    "blocks": [
        block(3 << 30, [LIBRARY, frame("/home/me/loss.py", 41), frame("/home/me/train.py", 7)]),
        block(4 << 30, [OF_DEBIAN, frame("/home/me/loss.py", 41), frame("/home/me/train.py", 7)]),
        block(2 << 30, [frame("/home/me/heads.py", 12)]),
        block(1 << 30, [], state="inactive"),
    ],
}  # fmt: skip


@pytest.fixture
def snapshot(tmp_path):
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(
        pickle.dumps({"segments": [SEGMENT], "device_traces": [[]], "allocator_settings": {}})
    )
    return path


def test_the_lines_of_the_entry_add_up_what_lives_by_the_users_own_line(snapshot):
    [code] = [
        c
        for c in re.findall(r"```python\n(.*?)```", bundle.load().get("M19").fix, re.S)
        if "most_common" in c
    ]
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=snapshot.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["7.00", "GiB", "/home/me/loss.py:41"],
        ["2.00", "GiB", "/home/me/heads.py:12"],
    ], done.stderr


def test_the_plot_is_a_file(snapshot):
    out = snapshot.with_name("memory.html")
    done = subprocess.run(
        [sys.executable, "-m", "torch.cuda._memory_viz", "trace_plot", str(snapshot), "-d", "0", "-o", str(out)],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert out.exists() and "MemoryViz.js" in out.read_text(), done.stderr


def test_the_arguments_of_recording_exist():
    named = inspect.signature(torch.cuda.memory._record_memory_history).parameters
    assert {"enabled", "context", "stacks", "max_entries"} <= set(named)
