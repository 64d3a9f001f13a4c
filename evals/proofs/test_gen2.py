"""GEN2: a run under setsid or in tmux has no terminal that closes; one started in the window has."""

import os
import pty
import shutil
import subprocess
import time

import pytest


def until(what, seconds=10):
    end = time.monotonic() + seconds
    while not (found := what()) and time.monotonic() < end:
        time.sleep(0.05)
    assert found
    return found


@pytest.fixture
def lives_on(provider, shell_of):
    """lives_on(pid): what the entry's check says of a run."""
    if not shutil.which("tmux"):
        pytest.skip("apt-get install tmux")
    line = shell_of("GEN2", "list-panes")
    sockets = {"TMUX_TMPDIR": str(provider.place)}

    def check(pid):
        lines = provider.run(line.replace("-p PID", f"-p {pid}"), **sockets).splitlines()
        tty = lines[1].split()[2]
        return tty == "?" or f"/dev/{tty}" in lines[2:]

    yield check
    provider.done("tmux kill-server", **sockets)


def test_a_run_in_its_own_window_dies_with_it_and_the_others_live_on(provider, lives_on):
    mine, terminal = pty.openpty()
    started = subprocess.Popen(
        ["setsid", "--ctty", "sleep", "61"], stdin=terminal, stdout=terminal, stderr=terminal
    )
    detached = subprocess.Popen(["setsid", "sleep", "62"], stdin=subprocess.DEVNULL)
    try:
        provider.run("tmux new -d -s train 'exec sleep 63'", TMUX_TMPDIR=str(provider.place))
        inside = until(
            lambda: provider.done(
                "tmux list-panes -a -F '#{pane_pid}'", TMUX_TMPDIR=str(provider.place)
            ).stdout.split()
        )[0]
        until(lambda: b"sleep" in open(f"/proc/{started.pid}/cmdline", "rb").read()[:5])
        assert not lives_on(started.pid)
        assert lives_on(detached.pid) and lives_on(inside)
        os.close(terminal)
        os.close(mine)
        until(lambda: started.poll() is not None)
        assert detached.poll() is None
    finally:
        for run in (started, detached):
            run.kill()
            run.wait()
