"""SSH7: the box is reached and no key opens it: which key, as whom, and whether its file is read."""

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
from check_code import span

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
SSHD, SSH, KEYGEN, AGENT, ADD = (
    shutil.which(name, path=PATH) for name in ("sshd", "ssh", "ssh-keygen", "ssh-agent", "ssh-add")
)
if not (SSHD and SSH and KEYGEN and AGENT and ADD):
    pytest.skip(
        "no openssh here: apt-get install openssh-server openssh-client", allow_module_level=True
    )

ME = getpass.getuser()


def key(place: Path, name: str) -> Path:
    subprocess.run(
        [KEYGEN, "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(place / name)], check=True
    )
    return place / name


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    """A box that knows the key `id`. ssh(...) logs in, with the agent's keys where `agent` is given."""
    place = tmp_path_factory.mktemp("box")
    mine, host, config = key(place, "id"), key(place, "host"), place / "sshd_config"
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, parents=True, exist_ok=True)
    (place / "authorized_keys").write_text(Path(f"{mine}.pub").read_text())
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {host}\nPidFile none\nAuthorizedKeysFile {place}/authorized_keys\n"
        "PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\nUseDNS no\n"
        "MaxStartups 100\nForceCommand echo reached\n"
    )
    process = subprocess.Popen(
        [SSHD, "-D", "-e", "-f", str(config)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + 8
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            assert time.monotonic() < end, "sshd doesn't listen"
            time.sleep(0.02)
    kind, text = Path(f"{host}.pub").read_text().split()[:2]
    (place / "known_hosts").write_text(f"[127.0.0.1]:{port} {kind} {text}\n")

    def ssh(
        file: Path | str, *options: str, user: str = ME, agent: str = "none", only: str = "yes"
    ) -> subprocess.CompletedProcess:
        shared = [
            "-F",
            "/dev/null",
            "-T",
            "-p",
            str(port),
            "-i",
            str(file),
            "-o",
            f"IdentitiesOnly={only}",
            "-o",
            f"IdentityAgent={agent}",
            "-o",
            "BatchMode=yes",
        ]
        known = [
            "-o",
            f"UserKnownHostsFile={place}/known_hosts",
            "-o",
            "GlobalKnownHostsFile=/dev/null",
        ]
        return subprocess.run(
            [SSH, *shared, *known, *options, f"{user}@127.0.0.1"],
            capture_output=True,
            text=True,
            timeout=10,
            stdin=subprocess.DEVNULL,
        )

    ssh.place, ssh.id = place, mine
    yield ssh
    process.send_signal(signal.SIGTERM)
    process.wait(5)


def test_the_right_key_is_accepted_another_is_only_offered(box, says):
    good = box(box.id, "-v")
    assert good.stdout == "reached\n" and "Server accepts key" in good.stderr
    other = box(key(box.place, "other"), "-v")
    assert "Offering public key" in other.stderr and "Server accepts key" not in other.stderr
    says("SSH7", other.stderr)


def test_a_key_that_is_added_on_the_box_opens_it(box):
    late = key(box.place, "late")
    assert box(late).returncode == 255
    with (box.place / "authorized_keys").open("a") as file:
        file.write(Path(f"{late}.pub").read_text())
    assert box(late).stdout == "reached\n"


def test_a_user_who_does_not_exist_looks_the_same(box, says):
    wrong = box(box.id, "-v", user="nobody-here")
    assert "Offering public key" in wrong.stderr and "Server accepts key" not in wrong.stderr
    says("SSH7", wrong.stderr)


@pytest.mark.parametrize(
    "spoil",
    [lambda t: t.replace(b"\n", b"\r\n"), lambda t: t.rstrip(b"\n")],
    ids=["CRLF", "no newline at the end"],
)
def test_a_key_pasted_wrong_does_not_load(box, says, spoil):
    pasted = box.place / "pasted"
    pasted.unlink(missing_ok=True)
    pasted.write_bytes(spoil(box.id.read_bytes()))
    pasted.chmod(0o600)
    bad = box(pasted)
    assert re.search(r'Load key ".*": (error in libcrypto|invalid format)', bad.stderr)
    says("SSH7", bad.stderr)
    says("SSH7", bad.stderr.splitlines()[0])
    subprocess.run(
        f"umask 077; (tr -d '\\r' < '{pasted}'; echo) > '{pasted}2'", shell=True, check=True
    )  # as the entry has it
    assert subprocess.run([KEYGEN, "-y", "-f", f"{pasted}2"], capture_output=True).returncode == 0
    assert box(f"{pasted}2").stdout == "reached\n"


def test_the_public_half_in_the_place_of_the_private_does_not_load(box, says):
    half = box.place / "half"
    half.write_text(Path(f"{box.id}.pub").read_text())
    half.chmod(0o600)
    bad = box(half)
    assert "Load key" in bad.stderr and not bad.stdout
    says("SSH7", bad.stderr)


def test_a_key_that_others_may_read_is_ignored(box, says):
    open_key = box.place / "open"
    shutil.copy(box.id, open_key)
    open_key.chmod(0o644)
    bad = box(open_key)
    assert "UNPROTECTED PRIVATE KEY FILE" in bad.stderr and not bad.stdout
    says("SSH7", bad.stderr)
    open_key.chmod(0o600)
    assert box(open_key).stdout == "reached\n"


def test_six_keys_of_the_agent_use_up_the_tries(box, says):
    agent = subprocess.Popen(
        [AGENT, "-D", "-a", str(box.place / "a")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + 5
        while not (box.place / "a").exists() and time.monotonic() < end:
            time.sleep(0.02)
        keys = [str(key(box.place, f"k{n}")) for n in range(6)]
        subprocess.run(
            [ADD, "-q", *keys],
            check=True,
            env={**os.environ, "SSH_AUTH_SOCK": str(box.place / "a")},
            capture_output=True,
        )
        full = box(box.id, agent=str(box.place / "a"), only="no")
        assert "Too many authentication failures" in full.stderr and not full.stdout
        says("SSH7", full.stderr)
        assert box(box.id, agent=str(box.place / "a")).stdout == "reached\n"  # IdentitiesOnly=yes
    finally:
        agent.terminate()
        agent.wait(5)


def test_the_commands_of_the_check_find_the_key_in_both_places_or_miss_it(box):
    offers, knows = span("SSH7", "KEY.pub"), span("SSH7", "authorized_keys")

    def fingerprints(command, name, path):
        command = command.replace(name, str(path))
        shown = subprocess.run(command, shell=True, check=True, capture_output=True, text=True)
        return set(re.findall(r"SHA256:\S+", shown.stdout))

    known = fingerprints(knows, "~/.ssh/authorized_keys", box.place / "authorized_keys")
    for file, opens in ((box.id, True), (key(box.place, "stranger"), False)):
        [mine] = fingerprints(offers, "KEY.pub", f"{file}.pub")
        log = box(file, "-v").stderr
        offered = next(line for line in log.splitlines() if "Offering public key" in line)
        assert mine in offered and ("Server accepts key" in log) is opens
        assert (mine in known) is opens
