"""Work that may take long: it runs beside the server, reports progress, and ends in time."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import anyio
from mcp.server.mcpserver import Context

from ..boxes.calls import in_call
from ..logs.files import Unreadable
from ..text import BadRequest

PLACES = 16  # calls of one tool that may wait for files or for a box at the same time
EVERY = 2.0  # seconds between two progress reports
MOST = 48.0  # seconds of one call: every answer comes within 50, and clients give up at 60
READING = 44.0  # of them for reading a log; the rest is for judging it
T = TypeVar("T")


async def run_with_progress(
    context: Context,
    work: Callable[[], T],
    message: Callable[[], str],
    most: float = MOST,
    every: float = EVERY,
    places: anyio.CapacityLimiter | None = None,
) -> T:
    """The result of `work`, which runs in a thread for at most `most` seconds.

    `message` gives the text of a progress report, one every `every` seconds. Raises what `work`
    raises, TimeoutError, and BadRequest if none of `places` was free in that time. A call that is
    cancelled or times out gives its place back and leaves its thread behind. The ssh that the
    thread waits for is ended, and `work` must end by itself soon after.
    """
    failure: Exception | None = None
    results: list[T] = []
    started = False

    async def report() -> None:
        for count in itertools.count(1):
            await anyio.sleep(every)
            with suppress(Exception):  # the work goes on even if the client is gone
                await context.report_progress(round(count * every, 3), most, message())

    def noted_work() -> T:
        nonlocal started
        started = True
        return work()

    # The thread gets a copy of this context, so what `work` starts belongs to the call.
    with in_call():
        async with anyio.create_task_group() as group:
            group.start_soon(report)
            try:
                with anyio.fail_after(most):
                    results.append(
                        await anyio.to_thread.run_sync(
                            noted_work, abandon_on_cancel=True, limiter=places
                        )
                    )
            # Kept until the group has ended: it would wrap the error in a group of errors.
            except Exception as error:
                failure = error
            group.cancel_scope.cancel()
    if isinstance(failure, TimeoutError) and not started:
        raise BadRequest(f"{PLACES} calls of this tool still wait; cancel them, then ask again")
    if failure:
        raise failure
    return results[0]


class Reading:
    """How far a log has been read, in a call that allows `most` seconds for it.

    The reader calls it after each block with the bytes read of the current file. It raises
    Unreadable when time is up, or when `wanted` is no longer true.
    """

    def __init__(self, most: float = READING, clock: Callable[[], float] = time.monotonic):
        self.clock, self.end, self.most = clock, clock() + most, most
        self.before, self.now, self.wanted = 0, 0, True

    def __call__(self, read: int) -> None:
        """Note how far the reading is, and stop it when it must stop."""
        if read < self.now:  # the next file of a folder
            self.before += self.now
        self.now = read
        if not self.wanted:
            raise Unreadable("the call was cancelled; repeat it if you still need the answer")
        if self.clock() >= self.end:
            raise Unreadable(self.late())

    def message(self) -> str:
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


async def read_with_progress(
    context: Context,
    answer: Callable[[Reading], T],
    most: float = MOST,
    places: anyio.CapacityLimiter | None = None,
) -> T:
    """The result of `answer(reading)`, which calls `reading` while it reads a log.

    Raises what `run_with_progress` raises, but Unreadable when time is up.
    """
    reading = Reading(min(READING, most))
    try:
        return await run_with_progress(
            context, lambda: answer(reading), reading.message, most, places=places
        )
    except TimeoutError:
        raise Unreadable(reading.late()) from None
    finally:
        reading.wanted = False  # the thread that is left behind ends at its next block
