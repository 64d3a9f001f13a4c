"""CMP3: compile caches in a folder of another user, and an own folder as the cure."""

import os
import stat
import subprocess
import sys
import tempfile
import traceback
from contextlib import contextmanager

import pytest
import torch._inductor.codecache as codecache
from check_code import span
from torch._inductor.runtime.cache_dir_utils import default_cache_dir
from torch.utils.cpp_extension import _get_build_directory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
NOBODY = 65534


def as_somebody(action):
    """What `action` returns or raises, as text, in a forked process without rights: root becomes nobody first.

    All is imported before the fork, since nobody may not be allowed to read this Python.
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


@contextmanager
def folders(name):
    """A folder that another user owns and one that is one's own, with the name of a cache in both."""
    with (
        tempfile.TemporaryDirectory() as top
    ):  # pytest's own folders are closed to others, each of them above the last
        os.chmod(top, 0o755)
        foreign, own = (os.path.join(top, name + whose) for whose in ("_other", "_me"))
        os.mkdir(foreign, 0o755 if os.getuid() == 0 else 0o555)
        os.mkdir(own, 0o755)
        if os.getuid() == 0:
            os.chown(own, NOBODY, NOBODY)
        yield foreign, own


def keep_code():
    return codecache.write("print(1)", "py")[1]


def begin_build():
    return _get_build_directory("fused_adam", False)


@pytest.mark.parametrize(
    ("name", "variable", "action"),
    [
        ("torchinductor", "TORCHINDUCTOR_CACHE_DIR", keep_code),
        ("torch_extensions", "TORCH_EXTENSIONS_DIR", begin_build),
    ],
)
def test_a_foreign_folder_is_refused_and_an_own_one_cures_it(
    monkeypatch, says, name, variable, action
):
    with folders(name) as (foreign, own):
        monkeypatch.setenv(variable, foreign)
        text = as_somebody(action)
        assert "PermissionError: [Errno 13]" in text
        says("CMP3", text)
        monkeypatch.setenv(variable, own)
        assert as_somebody(action).startswith(own)


def test_the_name_of_the_folder_comes_from_the_environment_not_from_the_user_number(monkeypatch):
    for name in ("LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("USER", "someone-else")
    assert os.path.basename(default_cache_dir()) == "torchinductor_someone-else"


def test_the_lines_of_the_fix_make_a_folder_for_one_user(tmp_path):
    command = f'd={tmp_path}/compile-$(id -u)-${{SLURM_JOB_ID:-0}}; mkdir -p -m 700 "$d"'
    assert os.system(command) == 0
    (made,) = tmp_path.iterdir()
    assert made.name.startswith(f"compile-{os.getuid()}-")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_texts_of_other_folders_and_mounts_are_found(says):
    for text in ("PermissionError: [Errno 13] Permission denied: '/tmp/triton/d645ef562cfc8f31ab6c7b88eccac0f6.lock'",
                 "PermissionError: [Errno 13] Permission denied: '/.triton'",
                 "ImportError: /tmp/torchinductor_root/triton/0/ab/cuda_utils.so: failed to map segment from shared object",
                 "ImportError: /home/me/.triton/cache/ab12/__triton_launcher.so: cannot stat shared object: Stale file handle",
                 "FileNotFoundError: [Errno 2] No such file or directory: '/mnt/fs/me/.triton/cache/cff6/_rms_norm.ttir.tmp.pid_1_2'"):  # fmt: skip
        says("CMP3", text)


def test_the_check_shows_another_users_number_or_ones_own():
    with folders("torchinductor") as (foreign, own):
        owners = []
        for folder in (foreign, own):
            command = span("CMP3", "ls -ldn").replace("FOLDER", folder).split("; findmnt")[0]
            listed, me = as_somebody(lambda: subprocess.getoutput(command)).splitlines()
            owners.append(listed.split()[2] == me)
    assert owners == [False, True]
