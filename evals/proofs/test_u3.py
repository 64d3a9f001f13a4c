"""U3: a signal leaves nothing in the log; only the exit status, if somebody kept it, tells which one."""

import os
import signal
import subprocess
import sys
import time

import pytest

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
