"""The Python stacks of processes: from their fault handlers, else by py-spy.

Neither ends or stops a process. The runner puts the fault handler into each Python process of its
program; it writes into a file of the run's folder when STACK_SIGNAL comes. Whoever is to kill the
processes anyway may abort those that are left: they write their stacks into the log first.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ..text.proc import has_signal, read_open_files, read_stat, send_signal
from .frames import main_frames, parse_fault_handler, parse_py_spy

# A signal that programs leave alone: USR1 and USR2 may be theirs, and they would act on it.
STACK_SIGNAL = getattr(signal, "SIGRTMIN", 34) + 9
ONE_DUMP = 0.4  # seconds for one process to write its stacks
BETWEEN_DUMPS = 1.0  # seconds until the same process is asked again
HANDLERS_SHARE = 0.6  # of the time, for all by their fault handlers; py-spy has the rest
ABORTED = 2.0  # seconds for those that were aborted to write and end
LARGEST_DUMP = 400_000  # bytes
_MARK = re.compile(r"/stacks/attempt-[^/]*\.txt\Z")


def collect_stacks(pids: Iterable[int], seconds: float) -> dict[str, Any]:
    """Return {pid: {"how", "threads", "again"}} of those whose stacks could be had in so long.

    A fault handler is asked twice, BETWEEN_DUMPS seconds apart: `again` are the main thread's
    frames of the second time. py-spy, where it is installed and allowed, reads the others.
    """
    began = time.monotonic()
    until = began + HANDLERS_SHARE * seconds
    pids = list(pids)
    stacks: dict[str, Any] = {}
    for pid in pids:
        if time.monotonic() < until and (threads := parse_fault_handler(_dump(pid))):
            stacks[str(pid)] = {"how": "faulthandler", "threads": threads}
    marked = list(stacks)
    rest = [pid for pid in pids if str(pid) not in stacks]
    for pid, text in _run_py_spy(rest, began + seconds).items():
        if threads := parse_py_spy(text):
            stacks[str(pid)] = {"how": "py-spy", "threads": threads}
    if marked:
        time.sleep(max(min(began + BETWEEN_DUMPS, until) - time.monotonic(), 0))
    for name in marked:
        if time.monotonic() < max(until, began + BETWEEN_DUMPS + ONE_DUMP):
            stacks[name]["again"] = main_frames(parse_fault_handler(_dump(int(name))))
    return stacks


def _dump(pid: int) -> str:
    """Return what a process's fault handler writes, '' where it has none or doesn't answer.

    One that is stopped isn't asked: the signal would wait for it.
    """
    path = handler_file(pid)
    stat = read_stat(pid)
    if not path or stat is None or stat.state in "TtZX":
        return ""
    with suppress(OSError), open(path, "rb") as file:
        before = file.seek(0, os.SEEK_END)
        send_signal(pid, STACK_SIGNAL)
        until, size = time.monotonic() + ONE_DUMP, before
        while time.monotonic() < until:
            time.sleep(0.02)
            now = os.stat(path).st_size
            if now == size > before:
                break
            size = now
        file.seek(before)
        return file.read(LARGEST_DUMP).decode("utf-8", "replace")
    return ""


def handler_file(pid: int) -> str:
    """Return the file into which a process's fault handler writes, '' for a process without one.

    It holds such a file open and catches the signal, which would end others.
    """
    if not has_signal(pid, "SigCgt", STACK_SIGNAL):
        return ""
    return next(filter(_MARK.search, read_open_files(pid).values()), "")


def _run_py_spy(pids: list[int], until: float) -> dict[int, str]:
    """Return what py-spy prints of each process; it needs a right that containers lack."""
    tool = shutil.which("py-spy")
    if not tool or not pids:
        return {}
    started = {}
    for pid in pids:
        with suppress(OSError):
            started[pid] = subprocess.Popen(
                [tool, "dump", "--nonblocking", "--full-filenames", "--pid", str(pid)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
    texts = {}
    for pid, child in started.items():
        try:
            out = child.communicate(timeout=max(until - time.monotonic(), 0.05))[0]
            texts[pid] = out[:LARGEST_DUMP].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            child.kill()
    return texts


def abort_processes(pids: Iterable[int]) -> None:
    """End processes that are to be killed so that they write their stacks first.

    They do so where PYTHONFAULTHANDLER is set, into what they write their errors to.
    """
    import resource

    pids = list(pids)
    for pid in pids:
        with suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))  # no dump of its memory
        send_signal(pid, signal.SIGABRT)
    until = time.monotonic() + ABORTED
    while time.monotonic() < until and any(_lives(pid) for pid in pids):
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.lives
