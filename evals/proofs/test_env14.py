"""ENV14: a compiled module asks for a library that the system doesn't have, or a program for a command."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy.fft._pocketfft_umath")
if not sys.platform.startswith("linux"):
    pytest.skip("shared libraries of Linux", allow_module_level=True)

import numpy.fft._pocketfft_umath as compiled  # a small module that needs libstdc++.so.6

HAS = b"\0libstdc++.so.6\0"
LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print([l.split()[-1] for l in open('/proc/self/maps') if 'libstdc++' in l][0])"


def load(path, **env):
    return subprocess.run(
        [sys.executable, "-c", LOAD, str(path)],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_missing_library_is_named_and_installing_it_is_enough(tmp_path, says):
    data, name = Path(compiled.__file__).read_bytes(), "libGL.so.9"  # a number that no machine has
    assert HAS in data
    wants = tmp_path / "cv2.so"
    wants.write_bytes(data.replace(HAS, b"\0" + name.encode().ljust(len(HAS) - 2, b"\0") + b"\0"))
    result = load(wants)
    assert result.returncode == 1
    says("ENV14", result.stderr)
    assert "not found" in subprocess.run(["ldd", wants], capture_output=True, text=True).stdout
    (tmp_path / name).symlink_to(load(compiled.__file__).stdout.strip())
    result = load(wants, LD_LIBRARY_PATH=str(tmp_path))
    assert result.returncode == 0, result.stderr


def test_a_missing_command(tmp_path, says):
    shell = shutil.which("bash") or shutil.which("sh")
    empty = {"PATH": str(tmp_path)}
    for command in ("git", "tmux", "rsync", "ffmpeg"):
        result = subprocess.run(
            [shell, "-c", f"{command} --version"], env=empty, capture_output=True, text=True
        )
        assert result.returncode == 127
        says("ENV14", result.stderr)
        with pytest.raises(FileNotFoundError) as stop:
            subprocess.run([command], env=empty)
        says("ENV14", str(stop.value))


@pytest.mark.parametrize(("library", "lacks"), [("libGL.so.9", True), ("libstdc++.so.6", False)])
def test_the_check_lists_what_a_package_lacks_and_nothing_for_a_whole_one(
    tmp_path, shell_of, library, lacks
):
    data = Path(compiled.__file__).read_bytes()
    name = b"\0" + library.encode().ljust(len(HAS) - 2, b"\0") + b"\0"
    (tmp_path / "cv2").mkdir()
    (tmp_path / "cv2" / "cv2.abi3.so").write_bytes(data.replace(HAS, name))
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho {tmp_path}\n")
    python.chmod(0o755)
    code = f"PATH={tmp_path}:$PATH; {shell_of('ENV14', 'xargs ldd')}"
    shown = subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout.strip()
    assert shown == (f"{library} => not found" if lacks else "")
