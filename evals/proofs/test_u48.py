"""U48: apt-get gives up at once on a lock that another process holds, and waits for dpkg's, not for the lists', when told."""

import os
import shutil
import subprocess
import sys
import time

import pytest
from check_code import span

APT = shutil.which("apt-get")
pytestmark = pytest.mark.skipif(not APT, reason="there is no apt-get")

HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def apt(tmp_path):
    """apt-get on a package database of its own, in an empty folder."""
    for folder in ("dpkg/updates", "dpkg/info", "lists/partial", "cache/archives/partial", "etc"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "dpkg/status").touch()
    places = {
        "Dir::State": tmp_path,
        "Dir::State::status": tmp_path / "dpkg/status",
        "Dir::State::Lists": tmp_path / "lists",
        "Dir::Cache": tmp_path / "cache",
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": tmp_path / "etc",
    }
    options = [part for name, place in places.items() for part in ("-o", f"{name}={place}")]
    names = {**os.environ, "LC_ALL": "C"}

    def call(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [APT, *options, *arguments], env=names, text=True, capture_output=True, timeout=60
        )

    return call


@pytest.fixture
def held():
    """held(path, seconds): another process holds that lock."""
    holders = []

    def hold(path, seconds: float) -> None:
        command = [sys.executable, "-c", HOLDER, str(path), str(seconds)]
        holders.append(subprocess.Popen(command, text=True, stdout=subprocess.PIPE))
        assert holders[-1].stdout.readline() == "held\n"

    yield hold
    for holder in holders:
        holder.kill()
        holder.communicate()


def real(text: str, tmp_path) -> str:
    """The output with the folders that apt has on a real machine."""
    text = text.replace(f"{tmp_path}/lists", "/var/lib/apt/lists")
    return text.replace(f"{tmp_path}/dpkg", "/var/lib/dpkg")


def test_install_gives_up_at_once(tmp_path, says, apt, held):
    held(tmp_path / "dpkg/lock-frontend", 60)
    start = time.monotonic()
    run = apt("install", "-y")
    assert run.returncode == 100 and time.monotonic() - start < 20
    for line in real(run.stderr, tmp_path).strip().splitlines():
        says("U48", line)


def test_install_waits_when_told(tmp_path, apt, held):
    held(tmp_path / "dpkg/lock-frontend", 1.5)
    run = apt("-o", "DPkg::Lock::Timeout=30", "install", "-y")
    assert run.returncode == 0 and "Waiting for cache lock" in run.stdout + run.stderr


def test_update_does_not_wait_for_the_lists(tmp_path, says, apt, held):
    held(tmp_path / "lists/lock", 60)
    run = apt("-o", "DPkg::Lock::Timeout=30", "update")
    assert run.returncode == 100
    says("U48", real(run.stderr, tmp_path))


def test_a_killed_upgrade(tmp_path, says, apt):
    journal = tmp_path / "dpkg/updates/0001"
    journal.touch()
    run = apt("install", "-y")
    assert run.returncode == 100
    says("U48", run.stderr)
    journal.unlink()  # as dpkg --configure -a does
    assert apt("install", "-y").returncode == 0


@pytest.mark.parametrize(("name", "confirmed"), [("apt.systemd.daily", True), ("train.py", False)])
def test_the_check_names_the_program_that_holds_the_lock(tmp_path, name, confirmed):
    script = tmp_path / name
    script.write_text(HOLDER)
    lock = str(tmp_path / "lock")
    holder = subprocess.Popen([sys.executable, script, lock, "60"], stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        code = span("U48", "ps -ww").replace("1234", str(holder.pid))
        said = subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout
    finally:
        holder.kill()
        holder.communicate()
    known = ("unattended-upgrade", "apt-get", "apt.systemd.daily", "cloud-init")
    assert any(word in said for word in known) is confirmed
    assert name in said
