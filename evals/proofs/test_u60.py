"""U60: glibc finds the heap damaged and ends the process. Needs Linux with glibc."""

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's own texts")

HEAP = """\
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


def twice():
    piece = libc.malloc(24)
    libc.free(piece)
    libc.free(piece)


def other():
    libc.free(libc.malloc(64) + 8)


def beyond():
    piece = libc.malloc(1400)
    ctypes.memset(piece, 65, 1500)
    libc.free(piece)


if len(sys.argv) > 1:
    globals()[sys.argv[1]]()
print("trained")
"""


@pytest.fixture
def run(tmp_path):
    """run("twice") -> the finished process; its script is train.py."""
    script = tmp_path / "train.py"
    script.write_text(HEAP)

    def start(*arguments: str, **variables: str) -> subprocess.CompletedProcess:
        names = {k: v for k, v in os.environ.items() if k != "PYTHONFAULTHANDLER"}
        command = f'"{sys.executable}" "{script}" {" ".join(arguments)}; echo rc=$?'
        return subprocess.run(
            ["bash", "-c", command], env={**names, **variables}, text=True, capture_output=True
        )

    return start


@pytest.mark.parametrize("fault", ["twice", "other"])
def test_the_c_library_ends_the_process_with_134_and_a_signature(run, says, fault):
    done = run(fault)
    assert "rc=134" in done.stdout and "trained" not in done.stdout
    says("U60", done.stderr)


@pytest.mark.parametrize(("fault", "line"), [("twice", 10), ("other", 14)])
def test_the_check_names_the_line_the_same_each_time(run, fault, line):
    told = [run(fault, PYTHONFAULTHANDLER="1").stderr for _ in range(3)]
    assert all("Fatal Python error: Aborted" in each for each in told)
    first = {next(row for row in each.splitlines() if row.startswith("  File")) for each in told}
    assert len(first) == 1 and first.pop().endswith(f'train.py", line {line} in {fault}')


def test_malloc_check_stops_where_a_write_went_beyond_its_piece(run, says):
    debug = {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3"}
    if "cannot be preloaded" in run(**debug).stderr:
        pytest.skip("glibc is older than 2.34")
    done = run("beyond", **debug)
    assert "rc=134" in done.stdout
    says("U60", done.stderr)
    assert "trained" in run(**debug).stdout


def test_a_healthy_process_prints_nothing(run):
    done = run(PYTHONFAULTHANDLER="1")
    assert (done.stdout, done.stderr) == ("trained\nrc=0\n", "")
