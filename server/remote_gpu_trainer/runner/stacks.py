"""The stacks of a run that stands still, taken before it is killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress

from . import log, procs
from .context import Run

PY_SPY = 20.0  # seconds for all processes together
ONE = 0.5  # seconds for one process to write its stacks
ALL = 10.0
ABORT = 2.0
_MARK = re.compile(r"/stacks/attempt-[^/]*\.txt\Z")

# A signal that programs leave alone: USR1 and USR2 may be theirs, and they would act on it.
SIGNAL = signal.SIGRTMIN + 9
# Runs in each Python process of the program, before it: its fault handler writes into the file of
# the attempt when SIGNAL comes. The open file is the mark by which the runner knows who may be
# signalled; children made by fork inherit both. Any Python 3, and no error must leave it.
SITE = '''\
def _mark():
    import faulthandler
    import os
    import signal

    folder = os.path.join(os.environ["RGT_RUN_DIR"], "stacks")
    if not os.path.isdir(folder):
        os.makedirs(folder)
    path = os.path.join(folder, "attempt-%s.txt" % os.environ["RGT_ATTEMPT"])
    # The program's own mask would let everybody read it.
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640), "a")
    faulthandler.register(signal.SIGRTMIN + 9, file=file, all_threads=True)


def _go_on():
    """Import the sitecustomize that this one stands in front of."""
    import os
    import sys
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    paths = [path for path in sys.path if os.path.abspath(path) != here]
    found = PathFinder.find_spec("sitecustomize", paths)
    if found is not None and found.loader is not None:
        module = module_from_spec(found)
        sys.modules["sitecustomize"] = module
        found.loader.exec_module(module)


try:
    _mark()
except Exception:
    pass
_go_on()
'''


def environment(run: Run, probe: str = "") -> dict[str, str]:
    """Return what puts the fault handler into each Python process of the program, and the probe.

    `probe`: its folder, '' without it. No fault handler where the disk is full.
    """
    folder = run.folder.at("python")
    with suppress(OSError):
        os.makedirs(folder, exist_ok=True)
    own = folder if run.folder.write("python/sitecustomize.py", SITE) else ""
    users = run.spec.variables.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    return {"PYTHONPATH": ":".join(filter(None, (own, probe, users)))} if own or probe else {}


def take(run: Run, leader: int, number: int) -> str:
    """Write the stacks of all Python processes into the run's folder; return how they were taken.

    What one means can't get the next one tries: py-spy, the fault handler, and an abort, which
    writes into the log.
    """
    with suppress(OSError):
        os.makedirs(run.folder.at("stacks"), exist_ok=True)
    pids = {pid for pid in procs.of_program(run.folder, leader) if _is_python(pid)}
    left, how = set(pids), []
    for name, means in (("py-spy", _spy), ("faulthandler", _ask), ("abort", _abort)):
        got = means(run, left, number) if left else set()
        if got:
            how.append(name)
            left -= got
    if pids:
        run.event("stacks", processes=len(pids), how=", ".join(how))
    return ", ".join(how)


def _is_python(pid: int) -> bool:
    with suppress(OSError):
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith(("python", "pypy"))
    return False


def _spy(run: Run, pids: set[int], number: int) -> set[int]:
    """Return the processes whose stacks py-spy wrote; it needs a right that containers lack."""
    tool = shutil.which("py-spy")
    if not tool:
        return set()
    started = {}
    for pid in sorted(pids):
        path = run.folder.at("stacks", f"attempt-{number}-pid-{pid}.txt")
        with suppress(OSError), open(path, "wb") as file:
            words = [tool, "dump", "--pid", str(pid)]
            null = subprocess.DEVNULL
            child = subprocess.Popen(
                words, stdin=null, stdout=file, stderr=file, start_new_session=True
            )
            started[pid] = path, child
    until = time.monotonic() + PY_SPY
    while time.monotonic() < until and any(child.poll() is None for _, child in started.values()):
        time.sleep(0.05)
    got = set()
    for pid, (path, child) in started.items():
        if child.poll() is None:
            child.kill()
        with suppress(OSError), open(path, "rb") as file:
            if b"Thread" in file.read():
                got.add(pid)
                continue
        with suppress(OSError):
            os.unlink(path)
    return got


def _ask(run: Run, pids: set[int], number: int) -> set[int]:
    """Return the processes whose fault handler wrote; only those with its file open are asked.

    One after the other, since they write into one file.
    """
    path = run.folder.at("stacks", f"attempt-{number}.txt")
    until = time.monotonic() + ALL
    got = set()
    for pid in sorted(pids):
        if time.monotonic() < until and _is_marked(pid, path):
            before = _size(path, f"--- process {pid}\n")
            procs.send([pid], SIGNAL)
            if _has_grown(path, before):
                got.add(pid)
    return got


def _is_marked(pid: int, path: str) -> bool:
    """Return whether a process carries the fault handler that writes into this file."""
    return mark_of(pid) == os.path.realpath(path)


def mark_of(pid: int) -> str:
    """Return the file into which a process's fault handler writes, '' for a process without one.

    It holds such a file open and catches the signal, which kills others.
    """
    with suppress(OSError, StopIteration, ValueError):
        with open(f"/proc/{pid}/status") as file:
            caught = next(line.split()[1] for line in file if line.startswith("SigCgt:"))
        if int(caught, 16) >> (SIGNAL - 1) & 1:
            for name in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    path = os.readlink(f"/proc/{pid}/fd/{name}")
                    if _MARK.search(path):
                        return path
    return ""


def _size(path: str, head: str) -> int:
    """Add a line to a file and return the size."""
    with suppress(OSError):
        with open(path, "a") as file:
            file.write(head)
        return os.stat(path).st_size
    return 0


def _has_grown(path: str, before: int) -> bool:
    """Wait until a file is longer and grows no more; False where nothing comes."""
    until, size = time.monotonic() + ONE, before
    while time.monotonic() < until:
        time.sleep(0.02)
        with suppress(OSError):
            now = os.stat(path).st_size
            if now == size > before:
                return True
            size = now
    return size > before


def _abort(run: Run, pids: set[int], number: int) -> set[int]:
    """Abort what is left: PYTHONFAULTHANDLER lets it write its stacks into the log first."""
    import resource

    for pid in pids:
        with suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))  # no dump of its memory
    procs.send(pids, signal.SIGABRT)
    until = time.monotonic() + ABORT
    while time.monotonic() < until and any(procs.stat(pid) for pid in pids):
        time.sleep(0.05)
    path = run.folder.at("stacks", f"attempt-{number}-log.txt")
    newest = max(log.next_number(run) - 1, 0)
    with suppress(OSError), open(path, "wb") as file:
        file.write(log.tail(run, newest, 100_000))
    return pids
