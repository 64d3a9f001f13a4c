"""The runner costs under one per cent of a core, in the median of a minute's windows, and under 60 MB."""

import os
import time
from pathlib import Path
from statistics import median

import pytest

from tests.engines.machine_speed import Waker
from tests.runner.box import Box

pytest_plugins = ["tests.runner.box"]

TICKS = os.sysconf("SC_CLK_TCK")


def spent(pid: int) -> float:
    """Seconds of processor time of a process and of its children that have ended."""
    own = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return own + sum(map(int, fields[13:15])) / TICKS


def memory(pid: int) -> int:
    """Bytes of a process; what it shares with others is counted by parts."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("Pss:"))


@pytest.mark.alone
def test_runner_supervisor_and_the_shell_behind_them_are_cheap(box: Box):
    talk = "import time\nfor n in range(100000): print('step', n, 'x' * 200, flush=True); time.sleep(0.1)"
    box.make(command=["python3", "-c", talk], results=[], timings={"heartbeat": 10, "deadman": 5})
    box.start()
    box.until(lambda: len(box.output()) > 2000)
    ours = [box.pid("runner"), box.pid("supervisor"), *box.shells()]
    assert len(ours) == 3
    shares = []
    with Waker() as waker:
        for _ in range(3):
            before, begin = sum(map(spent, ours)), time.monotonic()
            slower = waker.slower(seconds=20)  # two heartbeats
            share = (sum(map(spent, ours)) - before) / (time.monotonic() - begin)
            print(f"{share:.4%} of a core, on a machine {slower:.2f} times slower")
            shares.append(share / slower)
    total = sum(map(memory, ours))
    print(f"{total / 1e6:.1f} MB")
    assert median(shares) < 0.01 and total < 60e6
