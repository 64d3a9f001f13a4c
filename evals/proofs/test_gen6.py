"""GEN6: after a restart the box is younger than the log's last line; otherwise something else ended the run."""

import datetime
import os
import shutil
import signal
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
    first = datetime.datetime.strptime(lines[-2].strip(), "%a %b %d %H:%M:%S %Y")
    assert (first > last) == restarted  # process 1, which a container starts anew


def test_when_the_server_of_tmux_is_gone_so_is_the_run_and_the_message_names_the_entry(
    provider, says
):
    if not shutil.which("tmux"):
        pytest.skip("apt-get install tmux")
    (provider.place / "tmux").mkdir()
    here = {"TMUX_TMPDIR": str(provider.place / "tmux")}
    provider.run("tmux new -d -s train 'exec sleep 60'", **here)
    ask = "tmux list-panes -a -F '#{pane_pid} #{pid}'"
    run, server = (int(part) for part in provider.run(ask, **here).split())
    os.kill(server, signal.SIGKILL)
    end = time.monotonic() + 10
    while os.path.exists(f"/proc/{run}") and time.monotonic() < end:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{run}")
    says("GEN6", provider.done("tmux ls", **here).stderr.replace(here["TMUX_TMPDIR"], "/tmp"))
