"""ENV9: a library asks for a symbol version that the libstdc++ or the libc of the process doesn't have."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy.fft._pocketfft_umath")
if not sys.platform.startswith("linux"):
    pytest.skip("symbol versions of glibc", allow_module_level=True)

import numpy.fft._pocketfft_umath as compiled  # a small library in C++

GOOD = Path(compiled.__file__)


def renamed(source: Path, target: Path, old: bytes, new: bytes) -> Path:
    """A copy that says `new` for the symbol version `old`: what a newer compiler would have written."""
    data = source.read_bytes()
    assert len(old) == len(new) and b"\0" + old + b"\0" in data
    target.write_bytes(data.replace(b"\0" + old + b"\0", b"\0" + new + b"\0"))
    return target


def load(path, **env):
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print([l.split()[-1] for l in open('/proc/self/maps') if 'libstdc++' in l][0])"
    return subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_as_built_it_loads():
    assert load(GOOD).returncode == 0


def test_a_newer_libstdcxx_is_asked_for_and_mends_it(tmp_path, says):
    wanted = b"GLIBCXX_3.4.21", b"GLIBCXX_3.4.99"
    new = renamed(GOOD, tmp_path / "op.so", *wanted)
    result = load(new)
    assert result.returncode == 1 and "libstdc++.so.6: version" in result.stderr
    says("ENV9", result.stderr)
    system = Path(load(GOOD).stdout.strip())
    newer = renamed(system, tmp_path / "libstdc++.so.6", *wanted)
    result = load(new, LD_PRELOAD=str(newer))
    assert result.returncode == 0 and result.stdout.strip() == str(newer), result.stderr


def test_a_newer_glibc_is_asked_for(tmp_path, says):
    result = load(renamed(GOOD, tmp_path / "op.so", b"GLIBC_2.14", b"GLIBC_2.99"))
    assert result.returncode == 1 and "libc.so.6: version" in result.stderr
    says("ENV9", result.stderr)


def test_the_check_reads_the_newest_version_that_a_file_has(tmp_path, shell_of):
    def newest(file):
        code = shell_of("ENV9", "grep -ao").replace("FILE", str(file))
        return subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout.strip()

    old, new = tmp_path / "old.so", tmp_path / "new.so"
    old.write_bytes(b"\0GLIBCXX_3.4.9\0GLIBCXX_3.4.28\0")
    new.write_bytes(b"\0GLIBCXX_3.4.9\0GLIBCXX_3.4.33\0")
    assert (newest(old), newest(new)) == ("GLIBCXX_3.4.28", "GLIBCXX_3.4.33")
