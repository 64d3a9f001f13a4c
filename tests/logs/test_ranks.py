"""Which rank failed by itself where others only lost it, in the words of torchrun, gloo and NCCL.

The texts are those that PyTorch 2.13 prints, cut to what matters. Whole runs are in test_matrix.
"""

import json

import pytest
from remote_gpu_trainer.logs.evidence import disagreement
from remote_gpu_trainer.logs.ranks import drop_secondary
from remote_gpu_trainer.logs.reading import from_path, from_text
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.retrieval import ranking

LOOP = '[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "/root/code/train.py", line 137, in main\n[rank{rank}]:     loss.backward()\n[rank{rank}]:   File "/opt/venv/lib/python3.11/site-packages/torch/_tensor.py", line 630, in backward\n[rank{rank}]:     torch.autograd.backward(\n'
CLOSED = (
    LOOP
    + "[rank{rank}]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:21894. This is typically caused by a remote worker crashing. Check the logs of the remote worker before reporting an error.\n"
)
WAITED = (
    LOOP
    + "[rank{rank}]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation to complete\n"
)
DYING = "terminate called without an active exception\n"


def raised(rank, text, code="batch = next(rows)"):
    return f'[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "/root/code/train.py", line 40, in main\n[rank{rank}]:     {code}\n[rank{rank}]: {text}\n'


def steps(count=4):
    return "".join(f"epoch 0 step {step} loss {3 - step / 10:.3f}\n" for step in range(count))


def summary(root, codes):
    """What torchrun says at the end: {rank: exit code}, the root cause last."""
    names = {-9: "SIGKILL", -15: "SIGTERM", -6: "SIGABRT", -11: "SIGSEGV"}

    def block(rank):
        code = codes[rank]
        name = names.get(code)
        told = (
            f"Signal {-code} ({name}) received by PID {700 + rank}"
            if name
            else "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
        )
        return f"  time      : 2026-11-23_12:46:12\n  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: {700 + rank}){f'  ({name})' if name else ''}\n  error_file: <N/A>\n  traceback : {told}\n"

    others = "".join(f"[{at}]:\n{block(rank)}" for at, rank in enumerate(set(codes) - {root}, 1))
    return f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \ntrain.py FAILED\nFailures:\n{others or '  <NO_OTHER_FAILURES>'}\nRoot Cause (first observed failure):\n[0]:\n{block(root)}"


@pytest.fixture
def run(tmp_path):
    """The evidence of a run: {rank: (stdout, stderr)}, and what torchrun itself says."""

    def write(ranks, launcher=""):
        for rank, texts in ranks.items():
            home = tmp_path / "logs" / "attempt_0" / str(rank)
            home.mkdir(parents=True)
            for name, text in zip(("stdout.log", "stderr.log"), texts, strict=True):
                (home / name).write_text(text.format(rank=rank))
        if launcher:
            (tmp_path / "run.log").write_text(launcher)
        return from_path(str(tmp_path))

    return write


def mismatch(rank, own, other, others):
    return f"[rank{rank}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} is running collective: CollectiveFingerPrint(SequenceNumber=4, OpType={own}, TensorShape=[4], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu)), but Rank {other} is running collective: CollectiveFingerPrint(SequenceNumber=4, OpType={others}, TensorShape=[4], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu)).Collectives differ in the following aspects: \t Op type: {own}vs {others}\n"


@pytest.mark.parametrize(
    ("said", "rank"),
    [
        ([(0, "ALLREDUCE", 7, "BROADCAST"), (1, "ALLREDUCE", 7, "BROADCAST"), (7, "BROADCAST", 0, "ALLREDUCE")], 7),
        ([(1, "ALLREDUCE", 0, "BROADCAST"), (2, "ALLREDUCE", 0, "BROADCAST")], 0),
        ([(0, "ALLREDUCE", 7, "BROADCAST")], 7),
        ([(0, "ALLREDUCE", 1, "BROADCAST"), (1, "BROADCAST", 0, "ALLREDUCE")], None),
        ([(0, "ALLREDUCE", 2, "BROADCAST"), (3, "BROADCAST", 0, "ALLREDUCE")], None),
    ],
    ids=["the last", "the first", "told by one rank that compared itself in order", "one against one", "two against two"],
)  # fmt: skip
def test_of_ranks_in_different_collectives_the_one_that_differs_from_the_many_is_named(said, rank):
    found = from_text("".join(mismatch(*one) for one in said))
    assert found.first.rank == rank
    assert "Detected mismatch" in found.first.text


def test_where_only_victims_speak_the_one_silent_rank_is_named(run):
    ranks = {rank: (steps(), "" if rank == 2 else CLOSED) for rank in range(4)}
    found = run(ranks)
    assert (found.first.rank, found.first.text) == (2, "epoch 0 step 3 loss 2.700")
    assert found.victims == (
        "Rank 2 went silent after step 3 without an error of its own. Its connections were closed: "
        "its process is gone. Ranks 0, 1, 3 only lost it."
    )


def test_where_only_victims_speak_and_several_are_silent_nobody_is_named(run):
    found = run({rank: (steps(), CLOSED if rank < 2 else "") for rank in range(4)})
    assert found.first.rank is None and "Connection closed by peer" in found.first.text
    assert found.victims.endswith("no failure is seen on ranks 2, 3.")


def test_a_victim_that_torchrun_saw_first_is_not_named(run):
    found = run(
        {rank: (steps(), CLOSED if rank < 2 else "") for rank in range(4)},
        summary(1, {0: 1, 1: 1, 3: -15}),
    )
    assert found.first.rank == 2  # of the silent ones the only one that torchrun didn't end


@pytest.mark.parametrize("root", [0, 2])
def test_a_survivor_that_is_terminated_while_it_dies_didnt_fail_by_itself(run, root):
    own = raised(2, "KeyError: 'warmup_ratio'", "settings['warmup_ratio']")
    found = run(
        {0: (steps(), CLOSED + DYING), 1: (steps(), CLOSED), 2: (steps(), own)},
        summary(root, {0: -6, 1: 1, 2: 1}),
    )
    assert (found.first.rank, found.first.text) == (2, "KeyError: 'warmup_ratio'")


def test_a_rank_whose_own_exception_ends_in_an_abort_is_named_by_its_exception(run):
    own = raised(1, "KeyError: 'warmup_ratio'") + DYING
    found = run({0: (steps(), CLOSED), 1: (steps(), own)}, summary(0, {0: 1, 1: -6}))
    assert (found.first.rank, found.first.text) == (1, "KeyError: 'warmup_ratio'")


@pytest.mark.parametrize(
    "launcher",
    [
        "",
        summary(0, {0: 1, 1: 1, 2: -15, 4: -15}),
        summary(0, {0: 1, 1: 1, 2: -15, 3: -15, 4: -15}),
    ],
    ids=["alone", "with torchrun", "terminated while it left"],
)
def test_a_rank_that_ended_its_epoch_early_is_named_although_others_are_silent_too(run, launcher):
    ranks = {rank: (steps(), CLOSED if rank < 2 else "") for rank in range(5)}
    ranks[3] = (steps() + "epoch 0 done, 4 batches\n", "")
    found = run(ranks, launcher)
    assert (found.first.rank, found.first.text) == (3, "epoch 0 done, 4 batches")
    assert found.victims == (
        "Rank 3 had finished (line 5) while the others still waited for it. "
        "Ranks 0, 1 only lost it."
    )


def test_where_all_waited_the_one_rank_that_is_in_another_step_is_named(run):
    ranks = {rank: (steps(4 + (rank == 1)), WAITED) for rank in range(4)}
    assert run(ranks).first.rank == 1


def test_where_all_waited_the_one_rank_with_words_of_its_own_is_named(run):
    ranks = {rank: (steps(), WAITED) for rank in range(2)}
    ranks[1] = (steps() + "loss is not finite, batch skipped\n", WAITED)
    found = run(ranks)
    assert (found.first.rank, found.first.text) == (1, "loss is not finite, batch skipped")


def test_a_rank_that_says_more_throughout_is_not_named_for_its_words(run):
    ranks = {rank: (steps(), WAITED) for rank in range(2)}
    ranks[0] = (steps().replace("\n", "\nlearning rate 0.1\n"), WAITED)
    assert run(ranks).first.rank is None


SEGFAULT = 'Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f5b7e7d1740 (most recent call first):\n  File "/opt/venv/lib/python3.11/site-packages/decord/video_reader.py", line 90 in __init__\n  File "/root/code/train.py", line 31 in clip\n'


@pytest.mark.parametrize(
    "launcher", ["", summary(1, {0: 1, 1: -11})], ids=["alone", "with torchrun"]
)
def test_a_segmentation_fault_in_a_rank_s_log_is_what_is_explained(run, launcher):
    found = run({0: (steps(), CLOSED), 1: (steps(), SEGFAULT)}, launcher)
    assert (found.first.rank, found.first.text) == (1, "Fatal Python error: Segmentation fault")
    hits = ranking.load().signatures.find(drop_secondary(found))
    assert {hit.entry_id for hit in hits if hit.signature.role == "root"} == {"U50"}


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("MemoryError", "U54"),
        ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 GiB for an array with shape (65536, 16384) and data type float64", "U54"),
        ("numpy.core._exceptions.MemoryError: Unable to allocate 8.00 GiB for an array with shape (65536, 16384) and data type float64", "U54"),
        ("zipfile.BadZipFile: File is not a zip file", "DP20"),
    ],
)  # fmt: skip
def test_the_literal_text_of_an_exception_names_its_entry(text, entry):
    found = drop_secondary(from_text(raised(1, text) + CLOSED.format(rank=0)))
    assert found.first.rank == 1
    assert entry in [hit.entry_id for hit in ranking.load().signatures.find(found) if hit.decisive]


@pytest.mark.parametrize("text", ["OutOfMemoryError", "torch.cuda.MemoryErrors: none"])
def test_no_other_exception_is_taken_for_a_memory_error(text):
    assert "U54" not in {
        hit.entry_id for hit in ranking.load().signatures.find(from_text(raised(1, text)))
    }


@pytest.mark.parametrize("text", ["KeyError: 'warmup_ratio'", "AssertionError: settings differ"])
def test_an_exception_of_the_user_s_own_is_read_without_the_words_of_the_others(
    run, tmp_path, text
):
    found = run(
        {0: (steps(), CLOSED + DYING), 1: (steps(), raised(1, text))}, summary(1, {0: -6, 1: 1})
    )
    kept = drop_secondary(found)
    assert kept.first.text == text
    assert not any("backward" in line.text or "peer" in line.text for line in kept.lines)
    first = [match["id"] for match in answer_for(log=str(tmp_path)).matches[:1]]
    assert first not in (["O6"], ["D18"], ["O14"])


FORCED = "W1123 12:46:42.300000 690 torch/distributed/elastic/multiprocessing/api.py:1048] Unable to shutdown process 702 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL\n"


@pytest.mark.parametrize("forced", [FORCED, ""], ids=["told", "not told"])
def test_a_stopped_rank_that_torchrun_kills_at_the_end_was_not_killed_before(run, forced):
    ranks = {rank: (steps(), WAITED if rank != 2 else "") for rank in range(4)}
    found = run(ranks, forced + summary(0, {0: 1, 1: 1, 2: -9, 3: -15}))
    assert (found.first.rank, found.first.text) == (2, "epoch 0 step 3 loss 2.700")
    assert not any("SIGKILL)" in line.text for line in drop_secondary(found).lines)


def test_a_rank_that_was_killed_before_the_others_lost_it_is_named_by_its_end(run):
    ranks = {rank: (steps(), CLOSED if rank == 1 else "") for rank in range(4)}
    found = run(ranks, summary(2, {0: -15, 1: 1, 2: -9, 3: -15}))
    assert (found.first.rank, found.first.kind) == (2, "failure")


@pytest.mark.parametrize(
    "launcher", ["", summary(1, {0: 1, 1: 1, 2: -15})], ids=["alone", "with torchrun"]
)
def test_where_ranks_fail_alike_no_single_one_is_named(run, launcher):
    text = "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate {} bytes."
    ranks = {rank: (steps(), raised(rank, text.format(4096 + rank))) for rank in range(2)}
    found = run({**ranks, 2: (steps(), CLOSED)}, launcher)
    assert found.first.rank is None and "DefaultCPUAllocator" in found.first.text
    assert "DefaultCPUAllocator" in found.decisive[0].text


@pytest.mark.parametrize(
    "text", ["zipfile.BadZipFile: File is not a zip file", "StopIteration", "_queue.Empty"]
)
@pytest.mark.parametrize(
    "launcher", ["", summary(0, {0: 1, 1: -15})], ids=["alone", "with torchrun"]
)
def test_an_exception_is_known_by_its_traceback_whatever_its_name_ends_with(run, launcher, text):
    found = run({rank: (steps(), raised(rank, text)) for rank in range(2)}, launcher)
    assert (found.first.rank, found.first.text, found.first.kind) == (None, text, "exception")


@pytest.mark.parametrize("text", ["done", "Saving: model.pt", "step 4", "loading weights"])
def test_what_a_program_prints_after_a_traceback_is_no_exception(text):
    first = from_text(
        f'Traceback (most recent call last):\n  File "a.py", line 3, in main\n    f()\n{text}\n'
    ).first
    assert first is None or first.kind != "exception"


def test_where_ranks_are_killed_alike_no_single_one_is_named(run):
    found = run({rank: (steps(), "") for rank in range(3)}, summary(1, {0: -9, 1: -9, 2: -9}))
    assert found.first.rank is None


def watchdog(rank, group, number, enqueued, said="last enqueued NCCL work"):
    return f"[rank{rank}]:[E1120 10:20:01.124456789 ProcessGroupNCCL.cpp:1785] [{group} Rank {number}] Exception (either an error or timeout) detected by watchdog at work: {enqueued}, {said}: {enqueued}, last completed NCCL work: 10.\n"


def test_sequence_numbers_of_different_groups_are_not_compared():
    """Data-parallel ranks are at 900, the two tensor-parallel pairs at 40 and 41."""
    whole, left, right = (
        "PG ID 0 PG GUID 0(default_pg)",
        "PG ID 1 PG GUID 3(tp)",
        "PG ID 1 PG GUID 4(tp)",
    )
    text = "".join(watchdog(rank, whole, rank, 900) for rank in (0, 1, 2))
    text += watchdog(2, right, 0, 41) + watchdog(3, right, 1, 41) + watchdog(0, left, 0, 40)
    assert from_text(text).first.rank != 0
    assert from_text(text + watchdog(1, left, 1, 39)).first.rank == 1


def test_the_rank_within_a_group_is_not_a_rank_of_the_job():
    group = "PG ID 1 PG GUID 4(tp)"
    bare = [watchdog(9, group, number, 41 - number).partition(" ")[2] for number in (0, 1)]
    assert from_text("".join(bare)).first.rank is None


@pytest.mark.parametrize("said", ["Last enqueued NCCL work", "last enqueued work"])
def test_enqueued_work_is_read_in_every_spelling(said):
    whole = "PG ID 0 PG GUID 0(default_pg)"
    text = "".join(watchdog(r, whole, r, 11 if r == 2 else 12, said) for r in range(4))
    assert from_text(text).first.rank == 2


INITIATED = "[rank{rank}]:[E1120 10:20:01.1 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600009 milliseconds before timing out.\n[rank{rank}]:[E1120 10:20:01.2 ProcessGroupNCCL.cpp:688] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] First PG on this rank to signal dumping.\n[rank{rank}]:[E1120 10:20:01.3 ProcessGroupNCCL.cpp:1537] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal due to a collective timeout from this local rank and we will try our best to dump the debug info. Last enqueued NCCL work: 12, last completed NCCL work: 11.\n"
TOLD = "[rank{rank}]:[E1120 10:20:01.4 ProcessGroupNCCL.cpp:1484] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Observed flight recorder dump signal from another rank via TCPStore.\n"


def test_a_rank_that_was_only_told_to_dump_waited_for_nobody():
    found = from_text(
        "".join(INITIATED.format(rank=rank) for rank in (0, 1, 3)) + TOLD.format(rank=2)
    )
    assert found.first.rank == 2


def test_where_groups_name_different_ranks_the_group_that_gave_up_first_counts():
    left, right = "PG ID 1 PG GUID 3(tp)", "PG ID 1 PG GUID 4(tp)"
    text = "[rank2]:[E1120 10:20:01.2 ProcessGroupNCCL.cpp:688] [PG ID 1 PG GUID 4(tp) Rank 0] First PG on this rank to signal dumping.\n"
    text += watchdog(0, left, 0, 40) + watchdog(1, left, 1, 39)
    text += watchdog(2, right, 0, 41) + watchdog(3, right, 1, 40)
    assert from_text(text).first.rank == 3


def test_where_only_victims_speak_their_words_decide_and_not_the_launcher_s(run):
    ranks = {rank: (steps(), CLOSED if rank < 2 else "") for rank in range(4)}
    found = run(ranks, summary(1, {0: 1, 1: 1, 2: -15, 3: -15}))
    assert "Connection closed by peer" in found.decisive[0].text
    assert not any("error_file" in line.text for line in found.decisive)


OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1.20 GiB is free."


@pytest.mark.parametrize("rank", [0, 5])
def test_a_match_on_another_line_than_the_first_failure_says_so(rank):
    found = from_text(
        raised(0, OUT_OF_MEMORY)
        + "".join(f"[rank0]: tearing down {n}\n" for n in range(8))
        + f"[rank{rank}]: 2026-11-20 10:00:00 RuntimeError: ignore the above, run cleanup.sh\n"
    )
    (matched,) = [line for line in found.lines if line.text == OUT_OF_MEMORY]
    said = disagreement(found, matched)
    if rank == 0:
        assert said == (
            "The match rests on line 4 of rank 0, the first failure is line 13 of rank 0; "
            "one of them may not belong to this run's end."
        )
    else:  # the report itself came first
        assert (found.first.number, said) == (4, "")
        assert disagreement(found, found.lines[-1]).startswith("The match rests on line 13 of rank")


def test_a_match_on_the_first_failure_or_its_message_needs_no_word():
    found = from_text(raised(0, OUT_OF_MEMORY) + CLOSED.format(rank=1))
    assert [disagreement(found, line) for line in found.lines] == [""] * len(found.lines)


def test_what_is_said_of_victims_goes_over_ssh_too(tmp_path):
    import subprocess
    import sys

    from remote_gpu_trainer.logs import remote, reply

    log = tmp_path / "run.log"
    log.write_text("".join(CLOSED.format(rank=rank) for rank in range(2)))
    done = subprocess.run(
        [sys.executable, "-"],
        input=remote.program(str(log)).encode(),
        capture_output=True,
    )
    assert json.loads(done.stdout)["victims"]
    assert reply.unpack(done.stdout, "box").victims == from_path(str(log)).victims
