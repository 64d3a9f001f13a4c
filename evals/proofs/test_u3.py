"""U3: a signal leaves nothing in the log; only the exit status, if somebody kept it, tells which one."""

import os
import signal
import subprocess
import sys
import time

import pytest
from check_code import span
from stub_box import Box

TRAIN = "import time; print('step 1', flush=True); time.sleep(30)"


def heeds_hangup():
    """Under nohup a hang-up is ignored, by all children too."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize(("name", "status"), [("SIGHUP", 129), ("SIGKILL", 137), ("SIGTERM", 143)])
def test_the_log_is_silent_and_the_status_names_the_signal(tmp_path, name, status):
    log, rc = tmp_path / "run.log", tmp_path / "rc"
    line = f'"{sys.executable}" -c "{TRAIN}" >> "{log}" 2>&1 & echo $! > "{tmp_path}/pid"; wait $!; echo "rc=$?" > "{rc}"'
    shell = subprocess.Popen(
        ["bash", "-c", line], stderr=subprocess.DEVNULL, preexec_fn=heeds_hangup
    )
    until = time.monotonic() + 10
    while not (log.exists() and log.read_text() and (tmp_path / "pid").read_text()):
        assert time.monotonic() < until
        time.sleep(0.02)
    os.kill(int((tmp_path / "pid").read_text()), getattr(signal, name))
    shell.wait(timeout=10)
    assert log.read_text() == "step 1\n"
    assert rc.read_text() == f"rc={status}\n"


OUT_OF_MEMORY = (
    "[Wed Nov 25 03:10:12 2026] Memory cgroup out of memory: Killed process 4100 (python) "
    "total-vm:51234567kB, anon-rss:31457280kB, file-rss:1024kB, shmem-rss:0kB, UID:0 pgtables:61440kB\n"
)
SEGFAULT = "[Wed Nov 25 03:10:12 2026] python[4100]: segfault at 0 ip 00007f1c sp 00007ffd error 4 in libc.so.6\n"
QUIET = "[Wed Nov 25 00:00:01 2026] Linux version 6.8.0\n[Wed Nov 25 00:00:02 2026] eth0: link up\n"


@pytest.mark.parametrize(("log", "killed", "lines"), [
    (QUIET + OUT_OF_MEMORY, 1, 1), (QUIET + SEGFAULT, 0, 1), (QUIET, 0, 0),
])  # fmt: skip
def test_the_check_shows_the_kernels_trace_and_the_groups_counter_and_nothing_else(
    tmp_path, log, killed, lines
):
    box = Box(tmp_path)
    box.prints("dmesg", log)
    box.prints("uptime", "2026-11-24 08:00:00\n")
    (tmp_path / "run.log").touch()
    (tmp_path / "memory.events").write_text(f"low 0\nhigh 0\nmax 9\noom 1\noom_kill {killed}\n")
    code = span("U3", "uptime -s").replace("/sys/fs/cgroup", str(tmp_path))
    told = box.said(code).splitlines()
    assert told[0] == "2026-11-24 08:00:00"
    assert f"oom_kill {killed}" in told
    assert len(told) == 3 + 5 + lines


def test_the_check_shows_what_systemd_oomd_killed_where_the_kernel_log_is_quiet(tmp_path):
    box = Box(tmp_path)
    box.prints("dmesg", QUIET)
    said = "Nov 25 03:10:12 gpu systemd-oomd[611]: Killed /user.slice/user-1000.slice/tmux.scope due to memory pressure"
    box.prints("journalctl", f"{said}\n")
    (tmp_path / "run.log").touch()
    assert box.said(span("U3", "uptime -s")).splitlines()[-1] == said


def test_where_the_kernel_log_is_closed_the_check_says_so(tmp_path):
    box = Box(tmp_path)
    closed = "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1"
    box.program("dmesg", closed)
    box.program("journalctl", "echo 'No journal files were found.' >&2; exit 1")
    (tmp_path / "run.log").touch()
    assert "Operation not permitted" in box.said(span("U3", "uptime -s"))
