"""GEN6: after a restart the box is younger than the log's last line; otherwise something else ended the run."""

import datetime
import os
import time

import pytest


@pytest.mark.parametrize("restarted", [True, False])
def test_the_start_of_the_box_lies_after_the_logs_end_only_after_a_restart(
    provider, shell_of, restarted
):
    log = provider.place / "run.log"
    log.write_text("step 41")
    up = float(open("/proc/uptime").read().split()[0])
    ended = time.time() - up - 3600 if restarted else time.time()
    os.utime(log, (ended, ended))
    lines = provider.run(shell_of("GEN6", "uptime -s")).splitlines()
    start, last = (datetime.datetime.fromisoformat(x[:19]) for x in (lines[0], lines[-1]))
    assert (start > last) == restarted
