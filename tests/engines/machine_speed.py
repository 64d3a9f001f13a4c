"""How much slower this machine is than the one on which bounds of processor time were set, measured in the same run.

A bound of processor time is multiplied by it, so that it says something about our program and not about the machine.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

STARTS = 0.21  # seconds of processor time there for 300 starts of `true` by bash
WAKES = 0.0018  # share of a core there for a Python process that wakes ten times a second and reads a file

_WAKES = "import time\nwhile True:\n    time.sleep(0.1)\n    open('/proc/self/stat').read()\n"


def slower() -> float:
    """At starting processes. At least 1."""
    best = min(_once() for _ in range(3))
    return max(1.0, best / STARTS)


def _once() -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["bash", "-c", "for n in {1..300}; do /bin/true; done"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ratio(work: Callable[[], object], beside: Callable[[], object], turns: int = 3) -> float:
    """How many times the processor time of `beside` this takes: the quickest of each, in turns.

    Both are in one process and one moment, so that neither the machine nor its load counts.
    """
    took: dict[Callable, list[float]] = {work: [], beside: []}
    for _ in range(turns):
        for one, seconds in took.items():
            began = time.process_time()
            one()
            seconds.append(time.process_time() - began)
    return min(took[work]) / max(min(took[beside]), 1e-3)


def ordinary_log(size: int) -> str:
    """So many characters of a log in which all is well."""
    line = "[2026-11-02 10:00:00] step {} loss {:.4f} tokens/s {}\n"
    lines = (line.format(n, 2.5 - n / 1e5, 4000 + n * 7919 % 900) for n in range(size // 50 + 1))
    return "".join(lines)[:size]


class Waker:
    """A process that wakes and sleeps beside the one that is measured: what a waking costs depends on the moment's caches and clocks."""

    def __enter__(self) -> Waker:
        self._process = subprocess.Popen([sys.executable, "-c", _WAKES])
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def slower(self, seconds: float) -> float:
        """At waking, over the next seconds. At least 1."""
        before, begin = self._spent(), time.monotonic()
        time.sleep(seconds)
        share = (self._spent() - before) / (time.monotonic() - begin)
        return max(1.0, share / WAKES)

    def _spent(self) -> float:
        return int(Path(f"/proc/{self._process.pid}/schedstat").read_text().split()[0]) / 1e9
