"""Work that may take long: it runs beside the server, says every two seconds how far it is, ends in time, and ends when the client cancels."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import anyio
from mcp.server.mcpserver import Context

from ..logs.files import Unreadable

EVERY = 2.0  # seconds between two reports
MOST = 48.0  # seconds of one call: contracts give 50, clients give up at 60
READING = 44.0  # of them for a log, so that what was read can still be judged
T = TypeVar("T")


async def told(
    context: Context,
    work: Callable[[], T],
    says: Callable[[], str],
    most: float = MOST,
    every: float = EVERY,
) -> T:
    """The result of `work`, which runs in a thread; `says` makes the text of a report. Raises what `work` raises, and TimeoutError.

    A cancelled call or one out of time leaves its thread behind: `work` must end by itself soon after.
    """
    failed: Exception | None = None
    found: list[T] = []

    async def report() -> None:
        for count in itertools.count(1):
            await anyio.sleep(every)
            with suppress(Exception):  # a client that no longer listens doesn't end the work
                await context.report_progress(round(count * every, 3), most, says())

    async with anyio.create_task_group() as group:
        group.start_soon(report)
        try:
            with anyio.fail_after(most):
                found.append(await anyio.to_thread.run_sync(work, abandon_on_cancel=True))
        except Exception as error:
            failed = error
        group.cancel_scope.cancel()
    if failed:
        raise failed
    return found[0]


class Reading:
    """How far a log is read. Called with the bytes of a file at each block, it ends the reading when that is no longer wanted."""

    def __init__(self, most: float = READING, clock: Callable[[], float] = time.monotonic):
        self.clock, self.end, self.most = clock, clock() + most, most
        self.before, self.now, self.wanted = 0, 0, True

    def __call__(self, read: int) -> None:
        if read < self.now:  # the next file of a folder
            self.before += self.now
        self.now = read
        if not self.wanted:
            raise Unreadable("found the call cancelled, expected nothing more")
        if self.clock() >= self.end:
            raise Unreadable(self.late())

    def says(self) -> str:
        done = self.before + self.now
        return f"read {done / 1e6:.0f} MB" if done else "waiting for the log"

    def late(self) -> str:
        return (
            f"found a log of which {(self.before + self.now) / 1e6:.0f} MB were read after {self.most:g} s, expected its end by then; "
            "do: name one rank's file or a copy of its end (tail -c 200M), or use the command line, which waits longer"
        )


async def look_up(context: Context, ask: Callable[[Reading], T], most: float = MOST) -> T:
    """The answer of `ask(progress)`. Raises what it raises, and Unreadable when time is over."""
    reading = Reading(min(READING, most))
    try:
        return await told(context, lambda: ask(reading), reading.says, most)
    except TimeoutError:
        raise Unreadable(reading.late()) from None
    finally:
        reading.wanted = False


def leave() -> None:
    """End the process when the client is gone, although the thread of a call may still wait for a box: nobody is left to answer."""
    if any(
        not thread.daemon and thread is not threading.current_thread()
        for thread in threading.enumerate()
    ):
        os._exit(0)
