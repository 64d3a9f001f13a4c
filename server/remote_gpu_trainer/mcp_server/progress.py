"""Work that may take long, in a thread beside the server.

It reports progress every two seconds, and ends in time or when the client cancels.
"""

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
MOST = 48.0  # seconds of one call: every answer comes within 50, and clients give up at 60
READING = 44.0  # of them for a log, so that what was read can still be judged
T = TypeVar("T")


async def told(
    context: Context,
    work: Callable[[], T],
    says: Callable[[], str],
    most: float = MOST,
    every: float = EVERY,
) -> T:
    """The result of `work`, which runs in a thread for at most `most` seconds.

    `says` gives the text of a progress report, one every `every` seconds. Raises what `work`
    raises, and TimeoutError. A call that is cancelled or out of time leaves its thread behind:
    `work` must end by itself soon after.
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
    """How far a log has been read, in a call with `most` seconds for it.

    The reader calls it after each block with the bytes read of the current file. It raises
    Unreadable when time is up, or when `wanted` is no longer true.
    """

    def __init__(self, most: float = READING, clock: Callable[[], float] = time.monotonic):
        self.clock, self.end, self.most = clock, clock() + most, most
        self.before, self.now, self.wanted = 0, 0, True

    def __call__(self, read: int) -> None:
        """Note how far the reading is, and end it where it must end."""
        if read < self.now:  # the next file of a folder
            self.before += self.now
        self.now = read
        if not self.wanted:
            raise Unreadable("the call was cancelled; repeat it if you still need the answer")
        if self.clock() >= self.end:
            raise Unreadable(self.late())

    def says(self) -> str:
        """The text of a progress report."""
        done = self.before + self.now
        return f"read {done / 1e6:.0f} MB" if done else "waiting for the log"

    def late(self) -> str:
        """The error when time is up."""
        return (
            f"only {(self.before + self.now) / 1e6:.0f} MB of the log were read in {self.most:g} s;"
            " pass one rank's file or a copy of its end (tail -c 200M),"
            " or use the command line, which waits longer"
        )


async def look_up(context: Context, ask: Callable[[Reading], T], most: float = MOST) -> T:
    """The answer of `ask(progress)`. Raises what it raises, and Unreadable when time is up."""
    reading = Reading(min(READING, most))
    try:
        return await told(context, lambda: ask(reading), reading.says, most)
    except TimeoutError:
        raise Unreadable(reading.late()) from None
    finally:
        reading.wanted = False


def leave() -> None:
    """End the process if the thread of a call still runs: the client is gone."""
    if any(
        not thread.daemon and thread is not threading.current_thread()
        for thread in threading.enumerate()
    ):
        os._exit(0)
