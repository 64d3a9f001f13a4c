"""Two gloo ranks under torchrun: a killed rank, and a save that all ranks agree on."""

import os
import signal
from pathlib import Path

import pytest

from tests.runner.box import PROGRAM, Box, assert_nothing_repeated, undisturbed

pytest_plugins = ["tests.runner.box"]

pytest.importorskip("torch")


def ranks(box: Box) -> dict[int, int]:
    """{rank: pid} of the workers."""
    found = {}
    for pid in box.processes():
        try:
            env = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        rank = [int(item[5:]) for item in env if item.startswith(b"RANK=")]
        if rank and str(PROGRAM).encode() in words and b"torch.distributed.run" not in words:
            found[rank[0]] = pid
    return found


def two(box: Box, sleep: float = 0.02) -> Box:
    return box.make(
        "--sleep",
        sleep,
        launcher="torchrun",
        processes=2,
        variables={"OMP_NUM_THREADS": "1"},
    )


def test_a_killed_rank_is_told_as_killed_and_training_ends_as_if_undisturbed(box: Box):
    two(box)
    box.start()
    box.at_step(12)
    os.kill(ranks(box)[1], signal.SIGKILL)
    assert box.wait(timeout=90)["phase"] == "done"
    assert box.events("ended")[0]["class"] == "killed"
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed(ranks=2)
    assert_nothing_repeated(box)


def test_all_ranks_save_and_leave_when_the_runner_is_asked(box: Box):
    two(box, sleep=0.2)  # the signal waits up to three seconds for a gap between its saves
    box.start()
    box.at_step(12)
    os.kill(box.pid("runner"), signal.SIGUSR1)
    box.wait("preempted", timeout=30)
    assert box.events("save-now")[0]["signal"] == "TERM"
    assert b"leaving" in box.output()
    assert not ranks(box)
    box.start()
    assert box.wait(timeout=60)["phase"] == "done"
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed(ranks=2)
    assert [s for _, s, _ in box.steps()] == list(range(1, 41))
