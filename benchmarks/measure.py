"""Time and memory of a program, run as a child process: the median of several runs."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Seconds of wall clock and the largest resident set in MB."""

    seconds: float
    megabytes: float


def of_program(command: list[str], runs: int = 5, ok: tuple[int, ...] = (0, 1)) -> Cost:
    """Median time and largest memory. Raises RuntimeError for an exit code that isn't in `ok`."""
    seconds, megabytes = [], 0.0
    for _ in range(runs):
        # A file for the output: grep stops at the first line when it sees the null device.
        with open(os.devnull, "rb") as given, tempfile.TemporaryFile() as out:
            started = time.perf_counter()
            child = subprocess.Popen(command, stdin=given, stdout=out, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
        seconds.append(time.perf_counter() - started)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in ok:
            raise RuntimeError(
                f"found exit code {child.returncode} of {' '.join(command)}, expected one of {ok}"
            )
        megabytes = max(
            megabytes, usage.ru_maxrss / (1 << 10 if sys.platform != "darwin" else 1 << 20)
        )
    return Cost(statistics.median(seconds), megabytes)


def of_calls(call, items: list, runs: int = 3) -> tuple[float, float]:
    """(median, 95th percentile) in seconds of call(item) over all items.

    Each item counts with the best of several rounds.
    """
    best = [float("inf")] * len(items)
    for _ in range(runs):
        for at, item in enumerate(items):
            started = time.perf_counter()
            call(item)
            best[at] = min(best[at], time.perf_counter() - started)
    best.sort()
    return statistics.median(best), best[int(len(best) * 0.95)]
