"""RP10: an sshd that runs is listed, without pgrep, and the search doesn't find itself; the key is process 1's."""

import shutil
import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_running_sshd_is_listed_and_one_that_ended_is_not(provider, shell_of, tmp_path):
    program = shutil.copy(shutil.which("sleep"), tmp_path / "sshd")
    key = {"PUBLIC_KEY": "ssh-ed25519 AAAA"}
    with subprocess.Popen([program, "60"], env=key) as server:
        line = shell_of("RP10", "sshd").replace("/proc/1/", f"/proc/{server.pid}/")
        listed = provider.run(line).splitlines()
        server.kill()
    assert f"/proc/{server.pid}/comm" in listed and listed[-1] == "PUBLIC_KEY=ssh-ed25519 AAAA"
    assert f"/proc/{server.pid}/comm" not in provider.done(line).stdout.splitlines()
