"""The Python stacks of processes, by means that end and stop none of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import suppress
from typing import Any, Iterable

from .. import procs, stacks
from . import frames

ONE = 0.4  # seconds for one process to write its stacks
BETWEEN = 1.0  # between two looks at the same process
ALL = 8.0  # for all of them by the fault handler
SPY = 6.0  # for all of them by py-spy
LARGEST = 400_000  # bytes of one dump


def take(pids: Iterable[int]) -> dict[str, Any]:
    """Return {pid: {"how", "threads", "again"}} of those that could be asked.

    The fault handler is asked for once where the runner has put it in, and once more BETWEEN
    seconds later: `again` are the main thread's frames of that. The others are read by py-spy, if
    it is installed and allowed, without stopping them.
    """
    began = time.monotonic()
    until = began + ALL
    pids = list(pids)
    found: dict[str, Any] = {}
    for pid in pids:
        if time.monotonic() < until and (threads := frames.from_fault_handler(_ask(pid))):
            found[str(pid)] = {"how": "faulthandler", "threads": threads}
    left = [pid for pid in pids if str(pid) not in found]
    for pid, text in _spy(left).items():
        if threads := frames.from_py_spy(text):
            found[str(pid)] = {"how": "py-spy", "threads": threads}
    time.sleep(max(began + BETWEEN - time.monotonic(), 0) if found else 0)
    for pid in pids:
        told = found.get(str(pid), {})
        if told.get("how") == "faulthandler" and time.monotonic() < until:
            told["again"] = frames.main_frames(frames.from_fault_handler(_ask(pid)))
    return found


def _ask(pid: int) -> str:
    """Return what a process's fault handler writes, '' where it has none or doesn't answer.

    One that is stopped isn't asked: the signal would wait for it.
    """
    path = stacks.mark_of(pid)
    told = procs.stat(pid)
    if not path or told is None or told.state in "Tt":
        return ""
    with suppress(OSError), open(path, "rb") as file:
        before = file.seek(0, os.SEEK_END)
        procs.send([pid], stacks.SIGNAL)
        until, size = time.monotonic() + ONE, before
        while time.monotonic() < until:
            time.sleep(0.02)
            now = os.stat(path).st_size
            if now == size > before:
                break
            size = now
        file.seek(before)
        return file.read(LARGEST).decode("utf-8", "replace")
    return ""


def _spy(pids: list[int]) -> dict[int, str]:
    """Return what py-spy prints of each process."""
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
    until, told = time.monotonic() + SPY, {}
    for pid, child in started.items():
        try:
            out = child.communicate(timeout=max(until - time.monotonic(), 0.05))[0]
            told[pid] = out[:LARGEST].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            child.kill()
    return told
