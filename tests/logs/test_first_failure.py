"""Which rank failed first, from what ranks and launchers say. Runs under torchrun are in test_reading."""

import pytest
from remote_gpu_trainer.logs.reading import from_path, from_text
from remote_gpu_trainer.lookup.advice import first_failure
from remote_gpu_trainer.lookup.answer import answer_for

WAITED = "[rank{rank}]: RuntimeError: Timed out waiting 4000ms for recv operation to complete\n"
LOST = "[rank{rank}]: RuntimeError: Connection closed by peer [10.0.0.1]:3000\n"
SUMMARY = "Failures:\n[1]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : {zero} (pid: 7)\nRoot Cause (first observed failure):\n[0]:\n  rank      : 2 (local_rank: 2)\n  exitcode  : {two} (pid: 9)\n"


@pytest.mark.parametrize(
    "text, rank",
    [
        (LOST.format(rank=0) + "[rank1]: ValueError: bad row 17\n" + LOST.format(rank=2), 1),
        (
            WAITED.format(rank=0)
            + WAITED.format(rank=2)
            + SUMMARY.format(zero=1, two=1).replace("rank      : 2", "rank      : 1"),
            1,
        ),
        (LOST.format(rank=0) + SUMMARY.format(zero=1, two=-9), 2),
        (LOST.format(rank=2) + SUMMARY.format(zero=-11, two=1), 0),
        (WAITED.format(rank=0) + WAITED.format(rank=2) + SUMMARY.format(zero=-15, two=1), 1),
        ("rank 0: step 3\nrank 1: step 3\n" + WAITED.format(rank=0), 1),
        ("RuntimeError: Rank 3 failed to pass monitoredBarrier in 5000 ms\n", 3),
        (
            "[rank0]: watchdog time-out, last enqueued work: 12, last completed work: 11\n[rank1]: watchdog time-out, last enqueued work: 9, last completed work: 9\n",
            1,
        ),
        (
            "".join(
                f"[rank{r}]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum={1122 + (r != 3)}, OpType=ALLREDUCE)\n"
                for r in (0, 1, 3)
            ),
            3,
        ),
        ("RuntimeError: boom\n", None),
    ],
    ids=[
        "own fault",
        "silence",
        "signal of the root",
        "signal of another",
        "gap in the ranks",
        "silent but alive",
        "named by the barrier",
        "fewest collectives",
        "waits in an earlier collective",
        "one process",
    ],
)
def test_own_faults_come_before_signals_and_those_before_silence(text, rank):
    assert from_text(text).first.rank == rank


def test_two_ranks_that_say_nothing_blame_neither():
    found = from_text("rank 0: step 3\nrank 1: step 3\nrank 2: step 3\n" + WAITED.format(rank=0))
    assert found.first.rank is None and "Timed out" in found.first.text
    assert found.victims == (
        "Rank 0 only lost another rank or waited for one; no failure is seen on ranks 1, 2."
    )


def test_a_log_of_one_rank_only_doesnt_invent_others():
    assert from_text(WAITED.format(rank=3)).first.rank == 3


GAVE_UP = (  # what PyTorch's watchdog says when a collective never ends; no prefix before the last line
    "[rank{rank}]:[E1120 10:20:01.123456789 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=412, OpType=ALLREDUCE) ran for 600021 milliseconds before timing out.\n"
    "[rank{rank}]:[E1120 10:20:01.124456789 ProcessGroupNCCL.cpp:1785] [PG ID 0 Rank {rank}] Exception (either an error or timeout) detected by watchdog at work: 412, last enqueued NCCL work: {enqueued}, last completed NCCL work: 411.\n"
    "terminate called after throwing an instance of 'c10::DistBackendError'\n"
)
NCCL = (
    "[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, {what}, NCCL version 2.21.5\n"
    "[rank{rank}]: {kind}\n[rank{rank}]: Last error:\n[rank{rank}]: socketProgressOpt: Call to recv from 10.0.0.7<41231> failed : Connection reset by peer\n"
)
SYSTEM = {
    "what": "unhandled system error",
    "kind": "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
}
INTERNAL = {"what": "internal error", "kind": "ncclInternalError: Internal check failed."}
CAUGHT = '[rank0]: Traceback (most recent call last):\n[rank0]:   File "retry.py", line 5, in post\n[rank0]: requests.exceptions.HTTPError: 503 Server Error\n'


def gave_up(*ranks, behind=None):
    return "".join(
        GAVE_UP.format(rank=rank, enqueued=411 if rank == behind else 413) for rank in ranks
    )


def ended(root, codes):
    """The summary of torchrun: {rank: exit code}."""
    told = [
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: 7)\n"
        for rank, code in codes.items()
        if rank != root
    ]
    return (
        "Failures:\n"
        + "".join(told)
        + f"Root Cause (first observed failure):\n  rank      : {root} (local_rank: {root})\n  exitcode  : {codes[root]} (pid: 7)\n"
    )


def steps(*ranks, count=3):
    return "".join(
        f"[rank{rank}]: step {step} loss 2.1\n" for step in range(count) for rank in ranks
    )


ABORTED = {0: -6, 1: -6, 2: -6}


@pytest.mark.parametrize(
    "text, rank",
    [
        (gave_up(0, 1, 2, 3, behind=3) + ended(0, {**ABORTED, 3: -6}), 3),
        (steps(0, 3) + gave_up(0, 1, 2) + ended(0, {**ABORTED, 3: -15}), 3),
        (
            "[rank2]: ValueError: could not convert\n"
            + gave_up(0, 1, 3)
            + ended(0, {0: -6, 1: -6, 2: -15, 3: -6}),
            2,
        ),
        (gave_up(0, 1) + ended(2, {0: -6, 1: -6, 2: -9}), 2),
        (gave_up(0, 1) + ended(2, ABORTED), 2),
        (gave_up(0, 1, 2).replace("[rank", "[r") + ended(0, {**ABORTED, 3: -15}), 3),
    ],
    ids=[
        "fewest collectives",
        "silent",
        "own exception",
        "killed",
        "aborted without a watchdog",
        "ranks named by the watchdog alone",
    ],
)
def test_a_rank_that_its_own_watchdog_aborted_waited_for_another(text, rank):
    assert from_text(text).first.rank == rank


@pytest.mark.parametrize(
    "text",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: '/mnt/datastore/train-00013.bin'",
        "TypeError: DataLoader.__init__() got an unexpected keyword argument 'timeout_s'",
        "KeyError: 'unable to restore optimizer state'",
        "ValueError: timeout must be positive",
        "RuntimeError: could not restore /mnt/datastore/a.pt",
        "RuntimeError: unknown option nccl_timeout",
    ],
)
def test_a_word_of_lost_peers_within_an_own_error_doesnt_make_it_a_consequence(text):
    assert (
        from_text(LOST.format(rank=0) + f"[rank1]: {text}\n" + LOST.format(rank=2)).first.rank == 1
    )


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: [1] is setting up NCCL communicator, but store->get('0') got error: no key",
        "RuntimeError: Socket Timeout",
        "torch.distributed.DistStoreError: 3/4 clients joined",
    ],
)
def test_a_lost_store_or_a_time_out_is_a_consequence(text):
    assert from_text(f"[rank0]: {text}\n[rank1]: RuntimeError: boom\n").first.rank == 1


@pytest.mark.parametrize("kind", [SYSTEM, INTERNAL], ids=["system", "internal"])
def test_the_lines_after_an_error_of_nccl_tell_that_a_peer_is_gone(kind):
    found = from_text(
        NCCL.format(rank=0, **kind)
        + "[rank1]: KeyError: 'input_ids'\n"
        + NCCL.format(rank=2, **kind)
    )
    assert (found.first.rank, found.decisive[0].text) == (1, "KeyError: 'input_ids'")


def test_what_a_rank_survived_is_not_its_end():
    text = (
        CAUGHT
        + steps(0, 1, 2)
        + LOST.format(rank=0)
        + "[rank2]: IndexError: index 50304 is out of range\n"
        + LOST.format(rank=1)
    )
    assert from_text(text).first.rank == 2
    assert from_text(CAUGHT + steps(0, 1, 2) + gave_up(0, 1)).first.rank == 2


def test_steps_that_a_dying_rank_flushes_after_its_traceback_dont_excuse_it():
    assert from_text(CAUGHT + steps(0, 1) + LOST.format(rank=1)).first.text.startswith(
        "requests.exceptions.HTTPError"
    )


@pytest.mark.parametrize(
    "said",
    [
        "wandb: ERROR Error while calling W&B API: internal error (<Response [500]>)",
        "ERROR: upload of logs failed",
        "val error: high",
    ],
)
def test_a_logged_error_counts_less_than_the_root_and_than_a_silent_rank(said):
    text = steps(0, 1, 2, 3) + f"[rank0]: {said}\n"
    assert from_text(text + ended(3, {3: 1})).first.rank == 3
    assert from_text(text + gave_up(0, 1, 2)).first.rank == 3
    assert from_text(text + "[rank2]: Segmentation fault (core dumped)\n").first.rank == 2
    assert from_text(text).first.rank == 0


def test_a_logged_error_of_a_rank_without_another_end_is_believed():
    assert (
        from_text(
            steps(0, 1, 2, 3)
            + "[rank1]: ERROR: failed to read shard 7: truncated tar\n"
            + gave_up(0, 2, 3)
        ).first.rank
        == 1
    )
    assert (
        from_text(
            "[rank0]: RuntimeError: odd\n[rank2]: ERROR: failed to read shard 7\n"
            + ended(2, {0: 1, 2: 1})
        ).first.rank
        == 2
    )


def test_a_rank_that_says_it_finished_is_not_behind():
    text = steps(0, 1) + "[rank0]: step 3 loss 2.1\n"
    assert from_text(text).first.rank == 1
    assert from_text(text + "[rank1]: saving\n").first.rank == 1
    for last in (
        "Training finished, all ranks done",
        "training done",
        "Done in 3:21:07",
        "`Trainer.fit` stopped: `max_epochs=10` reached.",
    ):
        assert from_text(text + f"[rank1]: {last}\n").first is None


def test_a_rank_that_is_only_behind_is_not_said_to_have_failed():
    text = steps(0, 1) + "[rank0]: step 3 loss 2.1\n"
    assert first_failure(answer_for(text=text)) == "is behind: rank 1 (text line 6)"
    failed = answer_for(text=text + "[rank1]: RuntimeError: boom at step 3\n")
    assert first_failure(failed) == "failed first: rank 1 (text line 8)"


def test_of_several_attempts_of_torchrun_the_first_that_failed_is_judged(tmp_path):
    for name, text in {
        "attempt_0/0/stderr.log": "step 1\n",
        "attempt_1/0/stderr.log": "RuntimeError: Connection closed by peer\n",
        "attempt_1/1/stderr.log": "KeyError: 'labels'\n",
        "attempt_2/0/stderr.log": "DistNetworkError: EADDRINUSE, address already in use\n",
        "attempt_2/1/stderr.log": "DistNetworkError: EADDRINUSE, address already in use\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "run.log").write_text(ended(0, {0: 1, 1: 1}))
    found = from_path(str(tmp_path))
    assert (found.first.source, found.first.rank) == ("attempt_1/1/stderr.log", 1)
    assert {line.kind for line in found.lines if "EADDRINUSE" in line.text} == {"consequence"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2026-11-20T12:00:05+02:00", "2026-11-20T10:00:30+00:00"),
        ("2026-11-20 10:00:05", "2026-11-20T10:00:04"),
        ("2026/11/20 10:00:05", "2026-11-20 10:00:04"),
    ],
)
def test_times_of_another_zone_or_form_are_not_compared(first, second):
    """Then the order in the log decides."""
    assert (
        from_text(
            f"[rank0]: {first} ValueError: bad row\n[rank1]: {second} KeyError: 'x'\n"
        ).first.rank
        == 0
    )


def test_times_of_one_form_are_compared():
    text = "[rank0]: 2026-11-20T10:00:30+00:00 ValueError: bad row\n[rank1]: 2026-11-20T10:00:05.5+00:00 KeyError: 'x'\n"
    assert from_text(text).first.rank == 1


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        (LOST.format(rank=1) + SUMMARY.format(zero=-11, two=-9), 2),
        (
            'Traceback (most recent call last):\n  File "a.py", line 1\nOSError: a\nTraceback (most recent call last):\n  File "a.py", line 2\nValueError: b\nsubprocess.CalledProcessError: c returned non-zero exit status 1\n',
            None,
        ),
    ],
)
def test_of_several_signals_the_roots_counts_and_a_wrapper_never(text, rank):
    found = from_text(text)
    assert (
        found.first.rank == rank
        and "CalledProcessError" not in found.first.text
        and not any("CalledProcessError" in line.text for line in found.decisive)
    )
