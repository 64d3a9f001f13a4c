"""The runner costs under one per cent of a core, in the median of a minute's windows, and under 60 MB."""

import os
import time
from pathlib import Path
from statistics import median

import pytest

from tests.engines.machine_speed import slower
from tests.runner.box import Box

pytest_plugins = ["tests.runner.box"]

TICKS = os.sysconf("SC_CLK_TCK")


def spent(pid: int) -> float:
    """Seconds of processor time of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def memory(pid: int) -> int:
    """Bytes of a process; what it shares with others is counted by parts."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("Pss:"))


@pytest.mark.alone
def test_runner_keeper_holder_and_third_hand_are_cheap(box: Box):
    talk = "import time\nfor n in range(100000): print('step', n, 'x' * 200, flush=True); time.sleep(0.1)"
    box.make(command=["python3", "-c", talk], results=[], timings={"heartbeat": 10, "deadman": 5})
    box.start()
    box.until(lambda: len(box.output()) > 2000)
    ours = [box.pid(name) for name in ("runner", "keeper", "holder", "deadman")]
    shares = []
    for _ in range(3):
        before, begin = sum(spent(pid) for pid in ours), time.monotonic()
        time.sleep(20)  # two heartbeats
        share = (sum(spent(pid) for pid in ours) - before) / (time.monotonic() - begin)
        shares.append(share / slower())
    share = median(shares)
    total = sum(memory(pid) for pid in ours)
    print(f"{share:.4%} of a core, {total / 1e6:.1f} MB")
    assert share < 0.01 and total < 60e6
