"""SSH8: no login comes up: wrong port, no sshd, something that hangs up, an unknown name; and the checks that tell them apart."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from check_code import span

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
SSHD, SSH, KEYGEN = (shutil.which(name, path=PATH) for name in ("sshd", "ssh", "ssh-keygen"))
if not (SSHD and SSH and KEYGEN):
    pytest.skip(
        "no openssh here: apt-get install openssh-server openssh-client", allow_module_level=True
    )


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Box:
    def __init__(self, place: Path):
        self.place, self.port, self.process = place, free_port(), None
        for name in ("id", "host"):
            subprocess.run(
                [KEYGEN, "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)], check=True
            )
        kind, text = (place / "host.pub").read_text().split()[:2]
        (place / "known_hosts").write_text(f"gpu {kind} {text}\n")
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, parents=True, exist_ok=True)
        self.write_alias(self.port)

    def write_alias(self, port: int) -> None:
        (self.place / "config").write_text(
            f"Host gpu\n  HostName 127.0.0.1\n  Port {port}\n  User {getpass.getuser()}\n  IdentityFile {self.place}/id\n  IdentitiesOnly yes\n"
            f"  IdentityAgent none\n  HostKeyAlias gpu\n  UserKnownHostsFile {self.place}/known_hosts\n  GlobalKnownHostsFile /dev/null\n  BatchMode yes\n  ConnectTimeout 5\n"
        )

    def start(self, more: str = "") -> None:
        config = self.place / "sshd_config"
        config.write_text(
            f"{more}Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.place}/host\nPidFile none\nAuthorizedKeysFile {self.place}/id.pub\n"
            "PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\nUseDNS no\nForceCommand echo reached\n"
        )
        self.process = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self) -> None:
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(5)
            self.process = None

    def ssh(self, *options: str, name: str = "gpu") -> subprocess.CompletedProcess:
        return subprocess.run(
            [SSH, "-F", str(self.place / "config"), "-T", *options, name],
            capture_output=True,
            text=True,
            timeout=10,
            stdin=subprocess.DEVNULL,
        )

    def check(self) -> str:
        """What the entry's Check prints, with this box's config in the place of ~/.ssh/config."""
        (self.place / "bin").mkdir(exist_ok=True)
        stand_in = self.place / "bin" / "ssh"
        stand_in.write_text(f'#!/bin/sh\nexec {SSH} -F {self.place}/config "$@"\n')
        stand_in.chmod(0o755)
        return subprocess.run(
            ["bash", "-c", span("SSH8", "ssh -v -S none -o BatchMode")],
            env={**os.environ, "PATH": f"{stand_in.parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=10,
            stdin=subprocess.DEVNULL,
        ).stdout

    def wait(self) -> subprocess.CompletedProcess:
        end = time.monotonic() + 8
        while (done := self.ssh()).returncode and time.monotonic() < end:
            time.sleep(0.05)
        return done


@pytest.fixture
def box(tmp_path):
    it = Box(tmp_path)
    yield it
    it.stop()


def test_still_booting_is_refused_and_waiting_helps(box):
    refused = box.ssh()
    assert (
        refused.returncode == 255 and "Connection refused" in refused.stderr
    )  # as platforms' own entries say, so it's no signature
    box.start()
    assert box.wait().stdout == "reached\n"


def test_the_port_of_yesterday_is_refused_and_shown_by_the_check(box):
    box.start()
    assert box.wait().stdout == "reached\n"
    old = free_port()
    box.write_alias(old)
    told = box.check()
    assert "Connection refused" in told and "Connection established" not in told
    assert f"port {old}" in next(line for line in told.splitlines() if "Connecting to" in line)
    shown = subprocess.run(
        [SSH, "-F", str(box.place / "config"), "-G", "gpu"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"port {old}\n" in shown
    box.write_alias(box.port)
    assert box.ssh().stdout == "reached\n"
    told = box.check()
    assert f"port {box.port}" in told and "Connection established" in told
    assert "refused" not in told and "banner" not in told and "exchange" not in told


def test_the_bare_address_does_not_use_the_port_of_the_alias(box):
    shown = subprocess.run(
        [SSH, "-F", str(box.place / "config"), "-G", "127.0.0.1"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "\nport 22\n" in shown


@pytest.mark.parametrize(
    "answer", [b"", b"Not allowed at this time\r\n"], ids=["nothing", "not allowed"]
)
def test_something_that_accepts_and_hangs_up(box, says, answer):
    with closing(socket.create_server(("127.0.0.1", box.port))) as gateway:

        def twice() -> None:
            for _ in range(2):
                one, _ = gateway.accept()
                one.recv(1000)
                one.sendall(answer)
                one.close()

        thread = threading.Thread(target=twice, daemon=True)
        thread.start()
        closed, told = box.ssh("-v"), box.check()
        thread.join(5)
    says("SSH8", closed.stderr)
    assert "Connection established" in told
    assert "exchange_identification: " in told
    assert ("banner line 0: Not allowed at this time" in told) is bool(answer)


def test_too_many_logins_under_way_are_dropped_until_they_end(box, says):
    box.start("MaxStartups 1:100:1\n")
    assert box.wait().stdout == "reached\n"
    with closing(socket.create_connection(("127.0.0.1", box.port), 5)) as other:
        other.recv(10)  # greeted, and never logs in
        dropped = box.ssh()
        assert dropped.returncode == 255
        says("SSH8", dropped.stderr)
    assert box.wait().stdout == "reached\n"


def test_an_alias_that_is_not_in_this_file(box):
    unknown = box.ssh(name="gpu-box.invalid")
    assert "Could not resolve hostname" in unknown.stderr
