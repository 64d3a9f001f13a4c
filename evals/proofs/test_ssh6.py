"""SSH6: a box made anew shows another host key; ssh refuses it, with a terminal or without, until that one entry is removed."""

import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
SSHD, SSH, KEYGEN, KEYSCAN = (
    shutil.which(name, path=PATH) for name in ("sshd", "ssh", "ssh-keygen", "ssh-keyscan")
)
if not (SSHD and SSH and KEYGEN and KEYSCAN):
    pytest.skip(
        "no openssh here: apt-get install openssh-server openssh-client", allow_module_level=True
    )


def key(place: Path, name: str) -> Path:
    subprocess.run(
        [KEYGEN, "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(place / name)], check=True
    )
    return place / name


def fingerprint(of: str) -> str:
    return subprocess.run(
        [KEYGEN, "-lf", "-"], input=of, capture_output=True, text=True, check=True
    ).stdout.split()[1]


class Box:
    """One address; `made_anew` puts another sshd with another host key behind it."""

    def __init__(self, place: Path):
        self.place, self.known, self.process = place, place / "known_hosts", None
        self.id = key(place, "id")
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, parents=True, exist_ok=True)

    def made_anew(self, name: str) -> None:
        self.stop()
        host, config = key(self.place, name), self.place / f"{name}.conf"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {host}\nPidFile none\nAuthorizedKeysFile {self.id}.pub\n"
            "PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\n"
            "UseDNS no\nForceCommand echo reached\n"
        )
        self.process = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        end = time.monotonic() + 8
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        pytest.fail("sshd doesn't listen")

    def stop(self) -> None:
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(5)

    def ssh(self, *options: str) -> subprocess.CompletedProcess:
        shared = [
            "-F",
            "/dev/null",
            "-T",
            "-p",
            str(self.port),
            "-i",
            str(self.id),
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            "IdentityAgent=none",
            "-o",
            "BatchMode=yes",
        ]
        known = ["-o", f"UserKnownHostsFile={self.known}", "-o", "GlobalKnownHostsFile=/dev/null"]
        return subprocess.run(
            [SSH, *shared, *known, *options, f"{getpass.getuser()}@127.0.0.1"],
            capture_output=True,
            text=True,
            timeout=10,
            stdin=subprocess.DEVNULL,
        )

    def shown(self) -> str:
        """The fingerprint that the box shows now, by the command of the entry."""
        return fingerprint(
            subprocess.run(
                [KEYSCAN, "-p", str(self.port), "127.0.0.1"], capture_output=True, text=True
            ).stdout
        )


@pytest.fixture
def box(tmp_path):
    it = Box(tmp_path)
    it.made_anew("first")
    yield it
    it.stop()


def test_an_unknown_box_is_refused_where_nobody_can_answer_and_taken_once(box):
    refused = box.ssh()
    assert (
        refused.returncode == 255 and refused.stderr.strip() == "Host key verification failed."
    )  # launchers of several nodes print it too, so it's no signature
    assert box.ssh("-o", "StrictHostKeyChecking=accept-new").stdout == "reached\n"
    assert box.ssh().stdout == "reached\n"


def test_a_box_made_anew_is_refused_until_its_own_entry_is_gone(box, says):
    box.ssh("-o", "StrictHostKeyChecking=accept-new")
    box.known.write_text(
        box.known.read_text()
        + "other.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKQ0lilvKFauVaODSTdTWZQURPRNiJrds7zZOg/vHr4B\n"
    )
    box.made_anew("second")
    for option in (
        "BatchMode=yes",
        "StrictHostKeyChecking=accept-new",
    ):  # accept-new takes new boxes, not changed ones
        refused = box.ssh("-o", option)
        assert refused.returncode == 255 and not refused.stdout
        says("SSH6", refused.stderr)
        assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in refused.stderr
    on_the_box = fingerprint((box.place / "second.pub").read_text())
    assert on_the_box in refused.stderr and on_the_box == box.shown()

    without_port = subprocess.run(
        [KEYGEN, "-f", str(box.known), "-R", "127.0.0.1"], capture_output=True, text=True
    )
    assert "not found in" in without_port.stdout + without_port.stderr
    subprocess.run(
        [KEYGEN, "-f", str(box.known), "-R", f"[127.0.0.1]:{box.port}"],
        check=True,
        capture_output=True,
    )
    assert "other.example" in box.known.read_text()  # only that one
    assert box.ssh("-o", "StrictHostKeyChecking=accept-new").stdout == "reached\n"


def test_the_check_shows_two_fingerprints_for_a_box_made_anew_and_one_for_a_known_one(
    box, shell_of
):
    box.ssh("-o", "StrictHostKeyChecking=accept-new")
    host = {"HOST": "127.0.0.1", "PORT": str(box.port)}

    def shown(word):
        code = shell_of("SSH6", word).replace(
            "ssh-keygen -l -F", f"ssh-keygen -f {box.known} -l -F"
        )
        for name, value in host.items():
            code = code.replace(name, value)
        out = subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout
        return set(re.findall(r"SHA256:\S+", out))

    assert shown("-F '[HOST]") == shown("ssh-keyscan")
    box.made_anew("second")
    assert not shown("-F '[HOST]") & shown("ssh-keyscan")
    box.known.unlink()
    assert not shown("-F '[HOST]")


def test_at_port_22_the_bare_name_is_stored(tmp_path):
    known = tmp_path / "known"
    known.write_text(f"box.example {key(tmp_path, 'host').with_suffix('.pub').read_text()}")
    found = [
        subprocess.run([KEYGEN, "-f", known, "-l", "-F", name], capture_output=True).returncode
        for name in ("box.example", "[box.example]:22")
    ]
    assert found == [0, 1]
