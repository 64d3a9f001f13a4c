"""U41: the limit lies in the control group's files, and `free` shows the server. The files are as the kernel writes them."""

import pytest
from check_code import span
from stub_box import Box

FREE = """\
               total        used        free      shared  buff/cache   available
Mem:            1007          88         310           2         608         912
"""
V2 = {
    "memory.max": "{}\n", "memory.current": "31457280000\n", "cpu.max": "600000 100000\n",
    "memory.events": "low 0\nhigh 0\nmax 812\noom 3\noom_kill 3\noom_group_kill 0\n",
}  # fmt: skip
V1 = {
    "memory/memory.limit_in_bytes": "{}\n", "memory/memory.usage_in_bytes": "31457280000\n",
    "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
}  # fmt: skip


@pytest.mark.parametrize(("files", "limit", "confirmed"), [
    (V2, "34359738368", True),
    (V2, "max", False),
    (V1, "34359738368", True),
    (V1, "9223372036854771712", False),
    ({}, "", False),  # a machine of its own: no such file at this level
])  # fmt: skip
def test_a_limit_far_below_what_free_calls_total_confirms_it(tmp_path, files, limit, confirmed):
    group = tmp_path / "cgroup"
    (group / "memory").mkdir(parents=True)
    for name, text in files.items():
        (group / name).write_text(text.format(limit))
    box = Box(tmp_path)
    box.prints("free", FREE)
    lines = box.said(span("U41", "free -g").replace("/sys/fs/cgroup", str(group))).splitlines()
    total = int(lines[-1].split()[1]) * 2**30
    told = {line.split(":")[0]: line.rpartition(":")[2] for line in lines[:-2]}
    bound = told.get("memory.max") or told.get("memory/memory.limit_in_bytes") or "max"
    assert (bound.isdigit() and int(bound) < total / 2) is confirmed
    assert any("oom_kill 3" in line for line in lines) is bool(files)
