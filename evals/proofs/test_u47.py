"""U47: first writes into a place that isn't the user's, and the steps of the check."""

import getpass
import os
import pwd
import subprocess
import sys
import tempfile
import traceback

import pytest
from check_code import span

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
NOBODY = 65534


def as_somebody(action):
    """What `action` returns or raises, as text, in a forked process without rights: root becomes nobody first.

    A fork, since nobody may not be allowed to start this Python.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            text = str(action())
        except Exception:
            text = traceback.format_exc()
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def make_cache():
    os.makedirs(os.path.expanduser("~/.cache/huggingface"))
    return "made"


def test_a_home_of_slash_sends_caches_to_the_root_of_the_disk(monkeypatch, says):
    monkeypatch.setenv("HOME", "/")
    text = as_somebody(make_cache)
    assert "Permission denied: '/.cache" in text
    says("U47", text)


def test_a_foreign_home_is_refused_and_an_own_one_cures_it(monkeypatch, says):
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # pytest's own folders are closed to others, each of them above the last
        os.chmod(folder, 0o755)
        foreign, own = os.path.join(folder, "foreign"), os.path.join(folder, "own")
        for home in (foreign, own):
            os.mkdir(home, 0o700)
        if os.getuid() == 0:
            os.chown(own, NOBODY, NOBODY)
        else:
            os.chmod(foreign, 0o500)
        monkeypatch.setenv("HOME", foreign)
        assert "PermissionError: [Errno 13]" in as_somebody(make_cache)
        monkeypatch.setenv("HOME", own)
        assert as_somebody(make_cache) == "made"


def test_a_user_number_without_a_name_needs_a_variable(monkeypatch, says):
    def unknown(uid):
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    says("U47", as_somebody(getpass.getuser))
    monkeypatch.setenv("USER", "me")
    assert as_somebody(getpass.getuser) == "me"


def checked(path) -> str:
    """What the Check prints for a path of a message."""
    code = span("U47", "until [ -d").replace("/path/of/the/message", str(path))
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True)
    return done.stdout + done.stderr


def test_the_check_climbs_to_the_folder_that_exists_and_writes_there(tmp_path):
    said = checked(tmp_path / "runs" / "a" / "last.pt")
    assert "touch: " not in said and f"f: {tmp_path}\n" in said
    assert not any(line.split()[-1].startswith("ro") for line in said.splitlines()[:1])
    assert list(tmp_path.iterdir()) == []


def test_the_check_of_a_foreign_folder_shows_that_touch_fails_and_whose_it_is():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        foreign = os.path.join(folder, "foreign")
        os.mkdir(foreign, 0o500)
        said = as_somebody(lambda: checked(foreign + "/out/last.pt"))
        assert "Permission denied" in said and f"f: {foreign}" in said
        line = next(line for line in said.splitlines() if line.endswith("foreign"))
        assert "w" not in line.split()[0]


def test_a_foreign_file_in_an_own_folder_shows_in_the_first_line_alone():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        log = os.path.join(folder, "run.log")
        os.close(os.open(log, os.O_CREAT, 0o444))
        assert "PermissionError" in as_somebody(lambda: open(log, "a"))
        said = as_somebody(lambda: checked(log))
        assert "touch: " not in said
        assert said.splitlines()[0].startswith("-r--r--r--") and log in said.splitlines()[0]


def test_texts_of_read_only_file_systems_are_found(says):
    for text in ("OSError: [Errno 30] Read-only file system: '/kaggle/input/x/out'", "touch: cannot touch 'x': Read-only file system",
                 "[ 1234.5] EXT4-fs (nvme1n1): Remounting filesystem read-only",
                 "PermissionError: [Errno 13] Permission denied: '/root/.triton/cache'"):  # fmt: skip
        says("U47", text)
