"""LAM9: the box started after the log's last line only where it was restarted; tmux then knows no session."""

import datetime
import os
import shutil
import socket
import subprocess
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


@pytest.mark.parametrize("socket_left", [True, False])
def test_what_tmux_says_once_its_server_is_gone_names_the_entry(
    tmp_path, monkeypatch, says, socket_left
):
    if not shutil.which("tmux"):
        pytest.skip("apt-get install tmux")
    place = tmp_path / f"tmux-{os.getuid()}"
    place.mkdir(mode=0o700)
    if socket_left:
        monkeypatch.chdir(place)
        with socket.socket(socket.AF_UNIX) as ended:
            ended.bind("default")
    environment = {"PATH": os.environ["PATH"], "TMUX_TMPDIR": str(tmp_path)}
    run = subprocess.run(["tmux", "ls"], env=environment, capture_output=True, text=True)
    said = run.stderr.replace(str(place), "/tmp/tmux-1000")
    assert ("no server running on" in said) == socket_left
    says("LAM9", said)
