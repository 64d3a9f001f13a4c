"""LAM9: the box started after the log's last line only where it was restarted."""

import datetime
import os
import time

import pytest


@pytest.mark.parametrize("restarted", [True, False])
def test_the_start_lies_after_the_logs_end_only_after_a_restart(provider, shell_of, restarted):
    log = provider.place / "run.log"
    log.write_text("step 41")
    up = float(open("/proc/uptime").read().split()[0])
    ended = time.time() - up - 3600 if restarted else time.time()
    os.utime(log, (ended, ended))
    stat = shell_of("LAM9", "stat").replace("/lambda/nfs/NAME/run.log", str(log))
    start, last = (
        datetime.datetime.fromisoformat(provider.run(line)[:19])
        for line in (shell_of("LAM9", "uptime"), stat)
    )
    assert (start > last) == restarted
