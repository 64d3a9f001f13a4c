"""A loopback sshd for a test, with a home of its own. Import the fixtures: `from tests.engines.sshd import sshd, boxes  # noqa: F401`.

`sshd` is one box that ssh knows as `gpu`; `boxes("gpu", "gpu2")` starts several that share one client configuration. For the length of the
test the package's ssh reads that configuration (REMOTE_GPU_TRAINER_SSH_CONFIG), and XDG_STATE_HOME is the test's own.

Limits: all boxes are this machine and this user; only $HOME (and PATH, when given) differ. sshd ends with SIGTERM, but its live
sessions don't: `cut()` ends them too, `kill_everything()` ends every process that was started over it, as a reboot does.
"""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.conftest import engine

INSTALL = "apt-get install -y --no-install-recommends openssh-server openssh-client rsync"
CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {place}/host
PidFile {place}/pid
AuthorizedKeysFile {place}/authorized_keys
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
UseDNS no
PrintMotd no
PermitUserRC no
AllowTcpForwarding no
LogLevel VERBOSE
MaxStartups 100
Subsystem sftp internal-sftp
SetEnv {env}
ForceCommand exec {place}/login
"""
LOGIN = """\
#!/bin/bash
cd "$HOME" || exit 1
case ${SSH_ORIGINAL_COMMAND-} in
  '') exec bash -i ;;
  internal-sftp) exec /usr/lib/openssh/sftp-server -d "$HOME" ;;
  *) exec bash -c "$SSH_ORIGINAL_COMMAND" ;;
esac
"""
CLIENT = """\
Host {alias}
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {place}/id
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {place}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  UpdateHostKeys no
  BatchMode yes
  ConnectTimeout 5
  ControlMaster no
  LogLevel ERROR

"""


class Sshd:
    """One box. Use as a context, or call stop()."""

    def __init__(
        self, place: Path, alias: str, ssh_config: Path, path: str = "", options: str = ""
    ):
        """`path`: the PATH of programs there (default: sshd's own). `options`: further lines of sshd_config, read first."""
        self.sshd = engine("sshd", INSTALL, "/usr/sbin")
        self.ssh, self.keygen = engine("ssh", INSTALL), engine("ssh-keygen", INSTALL)
        self.place, self.alias, self.ssh_config = place, alias, ssh_config
        self.home = place / "home"
        self.home.mkdir(parents=True)
        self.user = getpass.getuser()
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, parents=True, exist_ok=True)
        for name in ("host", "id"):
            subprocess.run(
                [self.keygen, "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(place / name)],
                check=True,
            )
        shutil.copy(place / "id.pub", place / "authorized_keys")
        self.port = free_port()
        env = " ".join(
            f'"{name}={value}"' for name, value in (("HOME", self.home), ("PATH", path)) if value
        )
        self.config = place / "sshd_config"
        self.config.write_text(options + CONFIG.format(port=self.port, place=place, env=env))
        (place / "login").write_text(LOGIN)  # sshd would start in the account's own home
        (place / "login").chmod(0o755)
        self.known_hosts = place / "known_hosts"
        self.know_host_key()
        with ssh_config.open("a") as file:
            file.write(CLIENT.format(alias=alias, port=self.port, place=place, user=self.user))
        self.process: subprocess.Popen | None = None
        self.start()

    def know_host_key(self) -> None:
        """Let the client know this box's key, and no other."""
        kind, key = (self.place / "host.pub").read_text().split()[:2]
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")

    def forget_host_key(self) -> None:
        """The client meets this box for the first time."""
        self.known_hosts.write_text("")

    def change_host_key(self) -> None:
        """The client knows another key for this address."""
        kind, key = (self.place / "id.pub").read_text().split()[:2]
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")

    @property
    def line(self) -> str:
        """What a provider would show to paste; it knows nothing of the alias."""
        return f"ssh -p {self.port} {self.user}@127.0.0.1 -i {shlex.quote(str(self.place / 'id'))}"

    def start(self) -> None:
        """Start, or start again at the same port after stop() or cut()."""
        subprocess.run(
            [self.sshd, "-t", "-f", str(self.config)], check=True, capture_output=True, text=True
        )
        with (self.place / "sshd.log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.sshd, "-D", "-e", "-f", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + 10
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if time.monotonic() > end or self.process.poll() is not None:
                pytest.fail(f"sshd doesn't listen: {self.log()[-600:]}")
            time.sleep(0.02)

    def run(
        self, command: str, input: str | bytes | None = None, timeout: float = 30, tty: bool = False
    ) -> subprocess.CompletedProcess:
        """One shell line there, as a user would type it. Text in and out; stderr and exit code are in what comes back."""
        given = input.encode() if isinstance(input, str) else input
        done = subprocess.run(
            [*self.client(tty), command],
            check=False,
            input=given if given is not None else b"",
            capture_output=True,
            timeout=timeout,
            env=self.env(),
        )
        done.stdout, done.stderr = (
            done.stdout.decode(errors="replace"),
            done.stderr.decode(errors="replace"),
        )
        return done

    def popen(self, command: str, tty: bool = False, **options) -> subprocess.Popen:
        """The same, left running: kill the client to see what survives (with a tty, else most things do by accident)."""
        return subprocess.Popen(
            [*self.client(tty), command], env=self.env(), stdin=subprocess.DEVNULL, **options
        )

    def client(self, tty: bool = False) -> list[str]:
        return [self.ssh, "-F", str(self.ssh_config), *(["-tt"] if tty else []), self.alias]

    def env(self) -> dict[str, str]:
        """The environment for programs that start ssh themselves: no agent, this configuration."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SSH_")}
        return {**kept, "REMOTE_GPU_TRAINER_SSH_CONFIG": str(self.ssh_config)}

    def log(self) -> str:
        """What sshd said."""
        return (self.place / "sshd.log").read_text(errors="replace")

    def stop(self) -> None:
        """Take no new connection. Sessions and programs live on."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(10)

    def cut(self) -> None:
        """Take no new connection and break the present ones, as a network that goes away. Programs live on if they can."""
        sessions = descendants(self.process.pid, "sshd") if self.process else []
        self.stop()
        for pid in sessions:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_everything(self) -> None:
        """As a reboot: the connections and every process that was started over them."""
        self.cut()
        for _ in range(3):
            for pid in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def processes(self) -> list[int]:
        """Every process whose HOME is this box's."""
        mark = f"HOME={self.home}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found

    def __enter__(self) -> Sshd:
        return self

    def __exit__(self, *_) -> None:
        self.kill_everything()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def descendants(root: int, name: str) -> list[int]:
    """The processes of this name below `root`, found by their parents."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                head, _, rest = (entry / "stat").read_text(errors="replace").rpartition(")")
                parents[int(entry.name)] = (int(rest.split()[1]), head.partition("(")[2])
    below, found = {root}, []
    for _ in range(4):
        for pid, (parent, called) in parents.items():
            if parent in below and pid not in below:
                below.add(pid)
                if called.startswith(name):
                    found.append(pid)
    return found


@pytest.fixture
def boxes(tmp_path, monkeypatch):
    """Start boxes: `one, two = boxes("gpu", "gpu2")`. They share one ssh_config; all end with the test."""
    ssh_config = tmp_path / "ssh_config"
    monkeypatch.setenv("REMOTE_GPU_TRAINER_SSH_CONFIG", str(ssh_config))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in [name for name in os.environ if name.startswith("SSH_")]:
        monkeypatch.delenv(name)
    with ExitStack() as stack:

        def start(*aliases: str, **options) -> list[Sshd]:
            return [
                stack.enter_context(Sshd(tmp_path / f"box-{alias}", alias, ssh_config, **options))
                for alias in aliases
            ]

        yield start


@pytest.fixture
def sshd(boxes):
    """One box, known to ssh as `gpu`."""
    return boxes("gpu")[0]
