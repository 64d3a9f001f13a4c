"""MN6: how many slots an elastic Horovod driver can still use. Horovod isn't needed for the count, only its log line."""

import re
import subprocess

import pytest
from remote_gpu_trainer.catalogue import bundle

HOSTS = "node1:4\nnode2:4\nnode10:4\nnode2:4\n"  # a host that is named twice counts once
LOST = "INFO:root:blacklist failing host: node1\n"
LOST_BEFORE_0_24 = LOST.replace("INFO", "WARNING")
WAITS = "INFO:root:wait for available slots: 8\n"
NEEDED = "Please check that you have enough resources to run at least 12 Horovod processes. Timeout after 600 seconds."
TIMED_OUT = [  # as 0.24 and as 0.28.1 print it
    f"horovod.runner.common.util.timeout.TimeoutException: Timed out waiting for {what}. {NEEDED}"
    for what in ("minimum number of slots to become available", "{activity}")
]


@pytest.mark.parametrize(
    "hosts, log, slots",
    [
        (HOSTS, WAITS, 12),
        (HOSTS, WAITS + LOST, 8),
        (HOSTS, LOST_BEFORE_0_24, 8),
        (HOSTS.replace("node10:4\n", ""), WAITS + LOST + LOST, 4),
        ("", WAITS, 0),
    ],
    ids=["all there", "one blacklisted", "in an old release", "and one gone", "none"],
)
def test_the_lines_of_the_check_count_the_slots_of_hosts_that_may_be_used(
    tmp_path, hosts, log, slots
):
    (tmp_path / "driver.log").write_text(log)
    script = tmp_path / "discover_hosts.sh"
    script.write_text(f"#!/bin/sh\nprintf '{hosts}'\n")
    script.chmod(0o755)
    code = re.search(r"```bash\n(.*?)```", bundle.load().get("MN6").check, re.S)[1]
    counted = subprocess.run(
        ["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert counted.stdout == f"{slots} slots\n"


def test_the_text_of_the_time_out(says):
    for text in TIMED_OUT:
        says("MN6", text)
