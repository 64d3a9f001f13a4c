"""U47: first writes into a place that isn't the user's, and the steps of the check."""

import getpass
import os
import pwd
import subprocess
import sys
import tempfile
import traceback

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
NOBODY = 65534
CHECK = 'p={}; until [ -d "$p" ]; do p=$(dirname "$p"); done; touch "$p/.w$$" && rm "$p/.w$$"; echo "$p"'


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


def test_the_check_climbs_to_the_folder_that_exists(tmp_path):
    finished = subprocess.run(
        ["bash", "-c", CHECK.format(tmp_path / "runs" / "a" / "last.pt")],
        capture_output=True,
        text=True,
    )
    assert finished.stdout == f"{tmp_path}\n"
    assert list(tmp_path.iterdir()) == []


def test_texts_of_read_only_file_systems_are_found(says):
    for text in ("OSError: [Errno 30] Read-only file system: '/kaggle/input/x/out'", "touch: cannot touch 'x': Read-only file system",
                 "[ 1234.5] EXT4-fs (nvme1n1): Remounting filesystem read-only",
                 "PermissionError: [Errno 13] Permission denied: '/root/.triton/cache'"):  # fmt: skip
        says("U47", text)
