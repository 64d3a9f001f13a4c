"""U40: libraries size their pools by the cores that they see, not by the share; a variable sets them."""

import subprocess
import sys

import pytest
from check_code import span
from stub_box import Box

pytest.importorskip("torch")


def told(tmp_path, quota: str, **variables) -> tuple[str, list[int]]:
    """What the Check prints for this share: the limit, and the cores and threads that the libraries see."""
    (tmp_path / "cpu.max").write_text(quota + "\n")
    code = span("U40", "cpu.max").replace("/sys/fs/cgroup", str(tmp_path))
    limit, seen = Box(tmp_path).said(code, **{"OMP_NUM_THREADS": "", **variables}).splitlines()
    return limit, [int(word) for word in seen.split()]


@pytest.mark.parametrize(("quota", "share", "variable", "confirmed"), [
    ("150000 100000", 1.5, "2", True),
    ("150000 100000", 1.5, "1", False),
    ("max 100000", None, "2", False),
])  # fmt: skip
def test_more_threads_than_the_quota_has_cores_confirms_it(
    tmp_path, quota, share, variable, confirmed
):
    """Two threads are what a library takes where it sees two cores: the variable plays that here."""
    limit, (_, _, threads) = told(tmp_path, quota, OMP_NUM_THREADS=variable)
    assert limit == ("no quota" if share is None else f"{share:g} cores")
    assert threads == int(variable)
    assert (share is not None and threads > share) is confirmed


OPENMP = """
import re, resource, torch
size = re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1]
resource.setrlimit(resource.RLIMIT_AS, ((int(size) + 40_000) * 1024,) * 2)
torch.set_num_threads(64)
torch.ones(2**20).add(1)
"""
OPENBLAS = """
import os, resource, sys
os.environ["OPENBLAS_NUM_THREADS"] = "8"
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]) * 2**20,) * 2)
import numpy
"""


def refused(code: str, *arguments: object) -> str:
    """The errors of a program that limits its own memory."""
    line = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=60).stderr


def test_openmp_ends_the_program_where_it_can_not_start_its_threads(says):
    """No room for their stacks looks as a limit on the processes does."""
    says("U40", refused(OPENMP))


def test_openblas_says_so_where_it_can_not_start_its_threads(says):
    """With less room its library isn't loaded, with more the threads start: how much differs between machines."""
    pytest.importorskip("numpy")
    tries = (refused(OPENBLAS, room) for room in range(80, 240, 10))
    says("U40", next(said for said in tries if "pthread_create failed" in said))
