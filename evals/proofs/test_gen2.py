"""GEN2: a run under setsid or in tmux has no terminal that closes; one started in the window has."""

import os
import pty
import shutil
import signal
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
        tty, ignored = lines[1].split()[3:5]
        return tty == "?" or f"/dev/{tty}" in lines[2:] or int(ignored[-1], 16) % 2 == 1

    yield check
    provider.done("tmux kill-server", **sockets)


def test_a_run_in_its_own_window_dies_with_it_and_the_others_live_on(provider, lives_on):
    mine, terminal = pty.openpty()
    started = subprocess.Popen(
        ["setsid", "--ctty", "sleep", "61"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # pytest under nohup
    )
    other, second = pty.openpty()
    ignoring = subprocess.Popen(
        ["setsid", "--ctty", "nohup", "sleep", "64"], stdin=second, stdout=second, stderr=second
    )
    detached = subprocess.Popen(["setsid", "sleep", "62"], stdin=subprocess.DEVNULL)
    try:
        provider.run("tmux new -d -s train 'exec sleep 63'", TMUX_TMPDIR=str(provider.place))
        inside = until(
            lambda: provider.done(
                "tmux list-panes -a -F '#{pane_pid}'", TMUX_TMPDIR=str(provider.place)
            ).stdout.split()
        )[0]
        for run in (started, ignoring):
            until(lambda pid=run.pid: open(f"/proc/{pid}/cmdline", "rb").read()[:5] == b"sleep")
        assert not lives_on(started.pid)
        assert lives_on(detached.pid) and lives_on(inside) and lives_on(ignoring.pid)
        for end in (terminal, mine, second, other):
            os.close(end)
        until(lambda: started.poll() is not None)
        assert detached.poll() is None and ignoring.poll() is None
    finally:
        for run in (started, detached, ignoring):
            run.kill()
            run.wait()
