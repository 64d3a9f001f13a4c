"""Tests that measure seconds or need the whole machine have it to themselves: under several workers, no other test runs beside one marked `alone`."""

import os
import tempfile
from contextlib import contextmanager

import pytest

try:
    import fcntl
except ImportError:  # Windows: there, run the tests with one worker
    fcntl = None


def pytest_collection_modifyitems(items):
    items.sort(
        key=lambda item: item.get_closest_marker("alone") is not None
    )  # last, where few others wait for them


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if not run or not fcntl:
        return (yield)
    with _turn(
        os.path.join(tempfile.gettempdir(), f"remote-gpu-trainer-tests-{run}"),
        item.get_closest_marker("alone") is not None,
    ):
        return (yield)


@contextmanager
def _turn(path: str, alone: bool):
    """Shared with all others, or alone. Who waits to be alone holds the gate, so that nobody new begins.

    `lockf`, because a lock of `flock` lives on in a forked child: a data loader's worker that outlives its test would hold up every test to come.
    """
    with open(path + ".gate", "a+") as gate, open(path, "a+") as running:
        fcntl.lockf(gate, fcntl.LOCK_EX)
        fcntl.lockf(running, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.lockf(gate, fcntl.LOCK_UN)
        yield
