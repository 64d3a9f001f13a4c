"""U40: libraries size their pools by the cores that they see, not by the share; a variable sets them."""

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


def test_the_texts_are_recognised(says):
    says("U40", "libgomp: Thread creation failed: Resource temporarily unavailable")
    says("U40", "OpenBLAS blas_thread_init: pthread_create failed for thread 31 of 64")
