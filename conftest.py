"""Which tests run by default, and that tests which measure seconds have the machine to themselves.

`python -m pytest` alone runs what needs nothing but pip and takes a moment. `--all`, a marker
(`-m engine`), a name (`-k`) or a path runs the rest as well.
"""

import functools
import hashlib
import importlib
import inspect
import os
import re
import signal
import tempfile
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import settings

try:
    import fcntl
except ImportError:  # Windows: there, run the tests with one worker
    fcntl = None

ROOT = Path(__file__).resolve().parent
# A shell that starts the tests in the background ignores Ctrl-C for them, and bash can't undo that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Each worker has a core; numpy's threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
LEFT_OUT = {"slow", "engine", "clients", "site", "proof"}  # markers, of a run without options
# What shows that a test needs a box's shell, its /proc, or what POSIX alone has: in the imports of
# its file, and in its own text or that of its fixtures.
OF_A_BOX = re.compile(
    r"^(?:from tests\.(?:engines|runner|bench|torture)|import (?:fcntl|pty|pwd|resource)\b)", re.M
)
BY_A_BOX = re.compile(
    r"\bbash\b|[\"'](?:sh|git)[\"']|#!/|/(?:usr/)?bin/|/proc/|/dev/|/etc/|symlink_to|os\.symlink|chmod"
    r"|mkfifo|getuid|killpg|SIGKILL"
)
ENGINES = {"sshd", "boxes", "cluster", "slurm"}  # fixtures that start a program pip can't install


def pytest_addoption(parser):
    """Add the options that choose the tests."""
    parser.addoption(
        "--all",
        action="store_true",
        help="also run the slow tests and those of engines, clients, the site and the proofs",
    )
    parser.addoption(
        "--changed",
        action="store_true",
        help="of the proofs and the probe's pairs only those of what changed, and a seventh",
    )
    parser.addoption(
        "--laptop",
        action="store_true",
        help="only what needs no box, not even one in a folder: for macOS and Windows",
    )
    parser.addoption(
        "--shard",
        metavar="I/N",
        default="1/1",
        help="of N parts of the tests, drawn by their names, run the one with this number",
    )
    parser.addoption(
        "--shared-answers",
        metavar="FOLDER",
        help="where the workers share what they looked up, for what runs after them as well",
    )


def pytest_configure(config):
    """Draw few examples by default, many with --all."""
    for name, examples in (("few", 10), ("all", 300)):
        settings.register_profile(name, max_examples=examples, deadline=None)
    settings.load_profile("all" if config.option.all else "few")


def _part_of(name: str, parts: int) -> int:
    """The part, from 1, in which a file's tests run: they share what they prepare."""
    digest = hashlib.sha256(name.partition("::")[0].encode()).digest()
    return int.from_bytes(digest[:4], "big") % parts + 1


def _narrowed(config) -> bool:
    """Whether this is a run without a choice: no path, no marker, no name, not --all."""
    chosen = config.option.all or config.option.markexpr or config.option.keyword
    return not chosen and config.args_source is not config.ArgsSource.ARGS


def _needs_box(item) -> bool:
    """Whether a test, a fixture that it uses, or what they call needs what a laptop may lack."""
    if item.get_closest_marker("box"):
        return True
    used = [item.function] if hasattr(item, "function") else []
    made = getattr(item, "_fixtureinfo", None)
    for fixtures in made.name2fixturedefs.values() if made else ():
        used += [one.func for one in fixtures if "tests" in one.baseid]
    seen = set()
    while used:
        function = inspect.unwrap(used.pop())
        if function in seen:
            continue
        seen.add(function)
        with suppress(OSError, TypeError):
            if BY_A_BOX.search(inspect.getsource(function)):
                return True
        # And the functions of the tests that it calls.
        code, given = getattr(function, "__code__", None), getattr(function, "__globals__", {})
        for one in (given.get(name) for name in (code.co_names if code else ())):
            if inspect.isfunction(one) and one.__module__.startswith("tests."):
                used.append(one)
    return False


def pytest_ignore_collect(collection_path, config):
    """Without a choice, don't even read what would be left out as a whole."""
    is_test = collection_path.name.startswith("test_")
    if config.option.laptop and is_test:
        return bool(OF_A_BOX.search(collection_path.read_text(encoding="utf-8"))) or None
    if _narrowed(config) and is_test:
        name = collection_path.relative_to(ROOT).as_posix()
        if name.startswith("evals/proofs/") or name in _slow():
            return True
    return None


def pytest_sessionstart(session):
    """Let each worker import a share of the test files before it collects them all.

    In a fresh clone it takes longest to rewrite their asserts, and a worker reads what another one
    has rewritten. What can't be imported is told by the collection.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or not _narrowed(session.config):
        return
    number, count = int(worker["workerid"][2:]), worker["workercount"]
    for path in sorted(ROOT.glob("tests/**/test_*.py"))[number::count]:
        name = path.relative_to(ROOT)
        if name.as_posix() not in _slow():
            with suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(name.with_suffix("").parts))


def pytest_xdist_auto_num_workers(config):
    """One more than cores, as many tests wait for processes; none of its own for a chosen few."""
    return (os.cpu_count() or 1) + 1 if _narrowed(config) or config.option.all else 0


@functools.cache
def _slow() -> dict[str, str]:
    """Each slow file or test, and of how many of its cases one is quick: "0" for none."""
    lines = (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines()
    return dict((*line.split(" 1/"), "0")[:2] for line in lines)


def pytest_collection_modifyitems(config, items):
    """Mark what is slow or needs an engine, leave it out where nothing was chosen, sort."""
    slow = _slow()
    seen = Counter()
    for item in items:
        name = item.nodeid.partition("[")[0]
        share = int(slow.get(name, slow.get(name.partition("::")[0], 1)))
        if share == 0 or seen[name] % share:
            item.add_marker("slow")
        seen[name] += 1
        if ENGINES & set(getattr(item, "fixturenames", ())):
            item.add_marker("engine")
        if name.startswith("evals/proofs/"):
            item.add_marker("proof")
    left_out: list[pytest.Item] = []
    if _narrowed(config):
        left_out = [
            item for item in items if LEFT_OUT & {mark.name for mark in item.iter_markers()}
        ]
    elif config.option.changed:
        from tests.changed import Changed

        changed = Changed(ROOT)
        files = ((item, item.nodeid.partition("::")[0]) for item in items)
        left_out = [
            item
            for item, file in files
            if item.get_closest_marker("proof") and not changed.keeps(file)
        ]
    if config.option.laptop:
        left_out += [item for item in items if _needs_box(item)]
    number, parts = map(int, config.option.shard.split("/"))
    left_out += [item for item in items if _part_of(item.nodeid, parts) != number]
    if left_out:
        gone = set(map(id, left_out))
        items[:] = [item for item in items if id(item) not in gone]
        config.hook.pytest_deselected(items=left_out)
    # Last, where few others wait for them.
    items.sort(key=lambda item: item.get_closest_marker("alone") is not None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Run a test marked `alone` while no other worker runs one."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if not run or not fcntl:
        return (yield)
    place = os.path.join(tempfile.gettempdir(), f"remote-gpu-trainer-tests-{run}")
    with _turn(place, item.get_closest_marker("alone") is not None):
        return (yield)


@contextmanager
def _turn(path: str, alone: bool):
    """Hold the machine, shared or alone.

    A test that waits to be alone holds the gate, so no new one begins.

    `lockf`, because a lock of `flock` lives on in a forked child: a data loader's worker that
    outlives its test would hold up every later test.
    """
    with open(path + ".gate", "a+") as gate, open(path, "a+") as running:
        fcntl.lockf(gate, fcntl.LOCK_EX)
        fcntl.lockf(running, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.lockf(gate, fcntl.LOCK_UN)
        yield
