"""The programs that a call of the server started, so that they end with it.

A thread can't be stopped, but the ssh that it waits for can. A call marks its thread with
`in_call`; what `box` starts there is ended by `Call.end`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

_current: ContextVar[Call | None] = ContextVar("call", default=None)
_calls: set[Call] = set()  # those that haven't ended


class Call:
    """A call, and the programs that it started and that still run."""

    def __init__(self):
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen] = set()
        self._has_ended = False

    def start(self, starts: Callable[[], subprocess.Popen]) -> subprocess.Popen:
        """Start a program and note it. It ends at once if the call has ended.

        `end` waits meanwhile: it must not miss a program that runs and isn't noted yet.
        """
        with self._lock:
            process = starts()
            self._running.add(process)
            if self._has_ended:
                kill(process)
        return process

    def ended(self, process: subprocess.Popen) -> None:
        """Forget a program that has ended."""
        with self._lock:
            self._running.discard(process)

    def end(self) -> None:
        """End the programs of the call, and each that it starts from now on."""
        with self._lock:
            self._has_ended = True
            running = list(self._running)
        for process in running:
            kill(process)


@contextmanager
def in_call() -> Iterator[Call]:
    """A call that ends with the block. A thread belongs to it that has a copy of its context."""
    call = Call()
    token = _current.set(call)
    _calls.add(call)
    try:
        yield call
    finally:
        _current.reset(token)
        call.end()
        _calls.discard(call)


def current() -> Call | None:
    """The call that this thread works for, None outside of any."""
    return _current.get()


def end_all() -> None:
    """End the programs of all calls, because the process ends."""
    for call in list(_calls):
        call.end()


def kill(process: subprocess.Popen) -> None:
    """End a program that leads its own group, with the whole group, unless it has ended."""
    if process.poll() is not None:
        return
    kill_group(process)


def kill_group(process: subprocess.Popen) -> None:
    """End a program that leads its own group, and what it started; on Windows it alone."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
