"""ENV5: a folder in LD_LIBRARY_PATH goes before the libraries that pip brought, and the Check names the one that is loaded.

torch's own small module stands for a library of CUDA's user: it looks in a folder of the environment, as those do, and
its one library gets a name of NVIDIA's.
"""

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from check_code import span
from stub_box import Box

torch = pytest.importorskip("torch")
HAS, WANTS = b"\0libtorch_python.so\0", b"\0libnvJitLink.so.12\0"
RPATH, RUNPATH = 15, 29  # tags of the dynamic section
if not sys.platform.startswith("linux") or not shutil.which("ldd"):
    pytest.skip("shared libraries of Linux", allow_module_level=True)


def with_runpath(data: bytes) -> bytes:
    """The library with RUNPATH, as NVIDIA's have it. torch's CUDA builds have RPATH, which goes before the variable."""
    [start] = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQ", data, start + n * size) for n in range(count)]
    [(place, length)] = [(where, long) for kind, _, where, _, _, long in headers if kind == 2]
    changed = bytearray(data)
    for at in range(place, place + length, 16):
        if data[at : at + 8] == struct.pack("<Q", RPATH):
            struct.pack_into("<Q", changed, at, RUNPATH)
    return bytes(changed)


@pytest.fixture
def installed(tmp_path):
    """An environment whose library lies in the folder where its user looks, and a system with a copy of it."""
    data = Path(torch._C.__file__).read_bytes()
    assert HAS in data
    user = tmp_path / "env/torch/libcusparse.so.12"
    own, system = user.parent / "lib", tmp_path / "usr/local/cuda/lib64"
    for folder in (own, system):
        folder.mkdir(parents=True)
        shutil.copy(Path(torch._C.__file__), folder / "libnvJitLink.so.12")
    user.write_bytes(with_runpath(data.replace(HAS, WANTS)))
    return user, own, system


def loaded(tmp_path, user, **variables) -> str:
    return Box(tmp_path).said(span("ENV5", "ldd FILE").replace("FILE", str(user)), **variables)


@pytest.mark.parametrize("mixed", [True, False])
def test_the_check_names_a_path_outside_the_environment_only_when_two_are_mixed(
    installed, tmp_path, mixed
):
    user, own, system = installed
    line = loaded(tmp_path, user, LD_LIBRARY_PATH=str(system) if mixed else "")
    assert line.startswith(f"libnvJitLink.so.12 => {system if mixed else own}/libnvJitLink")


def test_a_library_that_is_not_there_is_named_so(installed, tmp_path, says):
    user, own, _ = installed
    shutil.rmtree(own)
    assert loaded(tmp_path, user, LD_LIBRARY_PATH="") == "libnvJitLink.so.12 => not found"
    user.write_bytes(user.read_bytes().replace(WANTS, b"\0libnccl.so.2\0".ljust(len(WANTS), b"\0")))
    user.rename(tmp_path / "user.so")
    done = subprocess.run(
        [sys.executable, "-c", "import user"], cwd=tmp_path, capture_output=True, text=True
    )
    says("ENV5", done.stderr)
