"""D40: how many GPUs of a Ray cluster are free. Lines of `ray status` of Ray 2.60.0 on a cluster of 8, beside what Ray's available_resources gave."""

import os
import subprocess

import pytest
from check_code import span

STATUS = """\
======== Autoscaler status: 2026-11-25 13:12:56.591565 ========
Node status
---------------------------------------------------------------
Active:
 1 node_e8aab85136330fc6e84c12679b4eb18e9aeca3a572a760dcc14b8aad
Pending:
 (no pending nodes)
Recent failures:
 (no failures)

Resources
---------------------------------------------------------------
Total Usage:
 1.0/2.0 CPU
 {gpus}
 0B/19.29GiB memory
 0B/76.29MiB object_store_memory

From request_resources:
 (none)
Pending Demands:
 {{'CPU': 1.0, 'GPU': 1.0}}: 1+ pending tasks/actors
"""


@pytest.mark.parametrize(
    "gpus, free",
    [
        ("0.0/8.0 GPU", 8),
        ("4.0/8.0 GPU", 4),
        ("0.0/8.0 GPU (0.0 used of 6.0 reserved in placement groups)", 2),
        ("1.0/8.0 GPU (1.0 used of 6.0 reserved in placement groups)", 2),
        ("0.0/1.0 licence", 0),
    ],
    ids=["idle", "an actor holds 4", "6 are reserved", "6 are reserved, one is used", "no card"],
)
def test_the_command_of_the_check_prints_how_many_are_free(tmp_path, says, gpus, free):
    (tmp_path / "status").write_text(STATUS.format(gpus=gpus))
    (tmp_path / "ray").write_text(f'#!/bin/sh\n[ "$*" = status ] && cat {tmp_path}/status\n')
    (tmp_path / "ray").chmod(0o755)
    printed = subprocess.run(
        ["bash", "-c", span("D40", "ray status |")],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed == f"{free} of {8 if 'GPU' in gpus else 0} GPUs free\n"
    if free < 8:  # verl compares the same number, and stops
        says("D40", f"ValueError: Total available GPUs {free}.0 is less than total desired GPUs 8")
