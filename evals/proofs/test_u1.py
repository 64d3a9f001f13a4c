"""U1: a kill that takes the login along ends ssh with 255, and by then it has worked."""

import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
SSHD, SSH, KEYGEN = (shutil.which(name, path=PATH) for name in ("sshd", "ssh", "ssh-keygen"))
if not (SSHD and SSH and KEYGEN):
    pytest.skip(
        "no openssh here: apt-get install openssh-server openssh-client", allow_module_level=True
    )


@pytest.fixture(scope="module")
def ssh(tmp_path_factory):
    """ssh(command): the command on a box of our own."""
    place = tmp_path_factory.mktemp("box")
    for name in ("id", "host"):
        subprocess.run([KEYGEN, "-qt", "ed25519", "-N", "", "-f", str(place / name)], check=True)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, parents=True, exist_ok=True)
    config = place / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {place}/host\nPidFile none\n"
        f"AuthorizedKeysFile {place}/id.pub\nPermitRootLogin prohibit-password\n"
        "PasswordAuthentication no\nUsePAM no\nStrictModes no\nUseDNS no\n"
    )
    server = subprocess.Popen(
        [SSHD, "-D", "-e", "-f", str(config)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def run(command: str) -> subprocess.CompletedProcess:
        options = ["-F", "none", "-i", place / "id", "-o", "StrictHostKeyChecking=accept-new",
                   "-o", f"UserKnownHostsFile={place}/known", "-o", "BatchMode=yes", "-p", port,
                   f"{getpass.getuser()}@127.0.0.1"]  # fmt: skip
        return subprocess.run(
            [SSH, *map(str, options), command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )

    for _ in range(50):
        if run("true").returncode == 0:
            break
        time.sleep(0.1)
    yield run
    server.terminate()
    server.wait()


@pytest.fixture
def training():
    """A process of its own, as a run in the background of the box."""
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("login", ["$$", "$PPID"])
def test_a_kill_that_hits_the_login_returns_255_although_it_worked(ssh, training, login):
    cut = ssh(f"kill -9 {training.pid} {login}; sleep 1; echo next part")
    assert cut.returncode == 255 and cut.stdout == ""
    assert training.wait(5) == -9


def test_a_kill_by_number_returns_0_and_the_rest_of_the_line_runs(ssh, training):
    whole = ssh(f"kill -TERM {training.pid}; echo next part")
    assert (whole.returncode, whole.stdout) == (0, "next part\n")
    assert training.wait(5) == -15


@pytest.mark.parametrize("killed", [True, False], ids=["the kill cut it", "the network did"])
def test_the_check_shows_the_login_itself_and_whether_the_run_is_still_there(ssh, shell_of, killed):
    name = f"train_{uuid.uuid4().hex}"  # others may run a training here
    code = shell_of("U1", "reached").removeprefix("ssh gpu '").removesuffix("'")
    code = code.replace("train\\.py", f"{name}\\.py")
    start = [sys.executable, "-c", "import time; time.sleep(60)", f"{name}.py"]
    run = subprocess.Popen(start, start_new_session=True)
    try:
        assert ssh(f"kill -9 {run.pid if killed else ''} $PPID").returncode == 255
        if killed:
            run.wait(5)
        reached, head, *rows = ssh(code).stdout.splitlines()
    finally:
        run.kill()
        run.wait()
    assert reached == "reached" and head.split() == ["PID", "USER", "COMMAND"]
    assert any("sshd" in row for row in rows[:2])
    assert [name in row for row in rows[2:]] == [True] * (not killed)
