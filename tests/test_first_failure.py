"""Which rank failed first, from what ranks and launchers say. Runs under torchrun are in test_reading."""

import pytest

from remote_gpu_trainer.evidence import from_text

WAITED = "[rank{rank}]: RuntimeError: Timed out waiting 4000ms for recv operation to complete\n"
LOST = "[rank{rank}]: RuntimeError: Connection closed by peer [10.0.0.1]:3000\n"
SUMMARY = "Failures:\n[1]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : {zero} (pid: 7)\nRoot Cause (first observed failure):\n[0]:\n  rank      : 2 (local_rank: 2)\n  exitcode  : {two} (pid: 9)\n"


@pytest.mark.parametrize(
    "text, rank",
    [
        (LOST.format(rank=0) + "[rank1]: ValueError: bad row 17\n" + LOST.format(rank=2), 1),
        (WAITED.format(rank=0) + WAITED.format(rank=2) + SUMMARY.format(zero=1, two=1).replace("rank      : 2", "rank      : 1"), 1),
        (LOST.format(rank=0) + SUMMARY.format(zero=1, two=-9), 2),
        (LOST.format(rank=2) + SUMMARY.format(zero=-11, two=1), 0),
        (WAITED.format(rank=0) + WAITED.format(rank=2) + SUMMARY.format(zero=-15, two=1), 1),
        ("rank 0: step 3\nrank 1: step 3\n" + WAITED.format(rank=0), 1),
        ("RuntimeError: Rank 3 failed to pass monitoredBarrier in 5000 ms\n", 3),
        ("[rank0]: watchdog time-out, last enqueued work: 12, last completed work: 11\n[rank1]: watchdog time-out, last enqueued work: 9, last completed work: 9\n", 1),
        ("RuntimeError: boom\n", None),
    ],
    ids=["own fault", "silence", "signal of the root", "signal of another", "gap in the ranks", "silent but alive", "named by the barrier", "fewest collectives", "one process"],
)
def test_own_faults_come_before_signals_and_those_before_silence(text, rank):
    assert from_text(text).first.rank == rank


def test_two_ranks_that_say_nothing_blame_neither():
    found = from_text("rank 0: step 3\nrank 1: step 3\nrank 2: step 3\n" + WAITED.format(rank=0))
    assert found.first.rank == 0 and "Timed out" in found.first.text


def test_a_log_of_one_rank_only_doesnt_invent_others():
    assert from_text(WAITED.format(rank=3)).first.rank == 3
