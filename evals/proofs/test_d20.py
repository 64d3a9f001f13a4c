"""D20: one rank leaves or skips, the others wait for it."""

import subprocess

import pytest
from check_code import span
from launch import run_ranks
from torch.distributed.run import main

ONE_RANK_LEAVES = """
    import datetime, os, sys, time, torch, torch.distributed as dist
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds={timeout}))
    dist.all_reduce(torch.ones(4))
    if dist.get_rank() == 1:
        {leaves}
    started = time.monotonic()
    try:
        dist.all_reduce(torch.ones(4))
    finally:
        print("waited", "the time-out" if time.monotonic() - started > {timeout} - 1 else "less", flush=True)
"""
NAN_ON_RANK_1 = """
    import datetime, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=3))
    rank = dist.get_rank()
    def epoch(decide):
        torch.manual_seed(0)
        model = DDP(torch.nn.Linear(4, 1))
        steps = 0
        for step in range(4):
            batch = torch.ones(2, 4) * (float("nan") if (rank, step) == (1, 1) else 1.0)
            loss = model(batch).sum()
            ok = loss.isfinite().float()
            if decide == "together":
                dist.all_reduce(ok, dist.ReduceOp.MIN)
            if not ok:
                continue
            loss.backward()
            steps += 1
        print(decide, "epoch over after", steps, "steps", flush=True)
    epoch("together")
    epoch("each for itself")
"""


@pytest.mark.parametrize("leaves", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_rank_that_dies_is_named_by_the_survivor_as_a_broken_connection(leaves, says):
    finished = run_ranks(
        ONE_RANK_LEAVES.format(timeout=40, leaves=leaves), timeout=60, by_torchrun="kill" in leaves
    )
    says("D20", finished.ranks[0])
    assert "waited less" in finished.ranks[0]
    if "kill" in leaves:
        first = finished.output.split("Root Cause (first observed failure)")[1]
        assert "rank      : 1" in first and "exitcode  : -9" in first


def test_a_rank_that_lives_but_does_not_come_costs_the_whole_timeout(says):
    waiting, _ = run_ranks(
        ONE_RANK_LEAVES.format(timeout=3, leaves="time.sleep(8); sys.exit()"), timeout=60
    ).ranks
    says("D20", waiting)
    assert "waited the time-out" in waiting


def test_skipping_a_nan_batch_alone_leaves_the_other_rank_in_backward_and_deciding_together_does_not():
    healthy, skipper = run_ranks(NAN_ON_RANK_1, timeout=60).ranks
    assert (
        "together epoch over after 3 steps" in healthy
        and "together epoch over after 3 steps" in skipper
    )
    assert "each for itself epoch over after 3 steps" in skipper
    assert "each for itself epoch over" not in healthy and "_engine_run_backward" in healthy


WATCHDOG = (
    "[rank{}]:[E1120 12:00:00.000000000 ProcessGroupNCCL.cpp:688] [Rank {}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 "
    "milliseconds before timing out."
)


@pytest.mark.parametrize("silent", [[1], []], ids=["one rank is silent", "all complain"])
def test_the_lines_of_the_check_list_the_ranks_that_never_complained(tmp_path, monkeypatch, silent):
    """torchrun itself lays out the logs; what NCCL writes into them needs cards and stands in the script."""
    monkeypatch.chdir(tmp_path)
    script = "echo starts\n"
    for rank in {0, 1, 2} - set(silent):
        script += f"[ $RANK = {rank} ] && echo '{WATCHDOG.format(rank, rank)}' >&2\n"
    (tmp_path / "train.sh").write_text(script + "exit 0\n")
    started, listed = span("D20", "--log-dir"), span("D20", "grep -L")
    flags = started.removeprefix("torchrun ").removesuffix(" ...").split()
    main(["--standalone", "--nproc-per-node=3", *flags, "--no-python", "bash", "train.sh"])
    shown = subprocess.run(["bash", "-c", listed], capture_output=True, text=True).stdout
    assert [int(path.split("/")[-2]) for path in shown.split()] == silent


def test_the_grep_lists_the_victims_by_their_number_in_the_run_not_in_their_group(tmp_path):
    by_ray = "(RayWorkerWrapper pid=2376582) " + WATCHDOG.format(9, 1)
    by_torchrun = "[default2]:" + WATCHDOG.format(2, 0)
    lines = ["step 7", WATCHDOG.format(0, 0), WATCHDOG.format(0, 0), by_torchrun, by_ray]
    (tmp_path / "run.log").write_text("\n".join(lines))
    shown = subprocess.run(
        ["bash", "-c", span("D20", "grep -oE")], cwd=tmp_path, capture_output=True, text=True
    ).stdout
    assert shown.splitlines() == [f"[rank{rank}]" for rank in (0, 2, 9)]


def test_a_forked_rank_of_these_proofs_ends_without_freeing_what_it_holds():
    """Freeing a DDP model beside its group's thread now and then hangs or aborts the rank (torch 2.13)."""
    holds = """
        class Held:
            def __del__(self):
                print("freed", flush=True)
        held = Held()
        print("done")
    """
    finished = run_ranks(holds, nproc=1)
    assert (finished.returncode, finished.ranks) == (0, ("done\n",))
    failed = run_ranks(holds + "    raise ValueError('no such step')\n", nproc=1)
    assert failed.returncode == 1 and "freed" not in failed.output
    assert failed.ranks[0].endswith("ValueError: no such step\n")
    assert run_ranks("raise SystemExit(3)", nproc=1).returncode == 1
