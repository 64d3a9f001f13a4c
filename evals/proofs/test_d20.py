"""D20: one rank leaves or skips, the others wait for it."""
import pytest
from launch import run_ranks

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
        print("waited", round(time.monotonic() - started), flush=True)
"""
NAN_ON_RANK_1 = """
    import datetime, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=3))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(4):
        batch = torch.ones(2, 4) * (float("nan") if (rank, step) == (1, 1) else 1.0)
        loss = model(batch).sum()
        {check}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch over")
    dist.barrier()
    dist.destroy_process_group()
"""
EACH_FOR_ITSELF = "if not loss.isfinite(): continue"
TOGETHER = ("ok = loss.isfinite().float(); dist.all_reduce(ok, dist.ReduceOp.MIN)\n"
            "        if not ok: continue")


@pytest.mark.parametrize("leaves", ["raise ValueError('bad sample')", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_rank_that_dies_is_named_by_the_survivor_as_a_closed_connection(leaves, says):
    finished = run_ranks(ONE_RANK_LEAVES.format(timeout=20, leaves=leaves))
    says("D20", finished.ranks[0])
    assert "waited 0" in finished.ranks[0]  # not the 20 s of the timeout


def test_a_rank_that_lives_but_does_not_come_costs_the_whole_timeout(says):
    waiting, _ = run_ranks(ONE_RANK_LEAVES.format(timeout=3, leaves="time.sleep(8); sys.exit()")).ranks
    says("D20", waiting)
    assert "waited 3" in waiting


def test_the_launcher_names_the_rank_that_failed_first():
    output = run_ranks(ONE_RANK_LEAVES.format(timeout=20, leaves="os.kill(os.getpid(), 9)")).output
    first = output.split("Root Cause (first observed failure)")[1]
    assert "rank      : 1" in first and "exitcode  : -9" in first


def test_skipping_a_nan_batch_on_one_rank_leaves_the_other_waiting_in_backward():
    healthy, skipper = run_ranks(NAN_ON_RANK_1.format(check=EACH_FOR_ITSELF)).ranks
    assert "epoch over" in skipper
    assert "epoch over" not in healthy and "_engine_run_backward" in healthy


def test_deciding_together_lets_both_finish():
    for output in run_ranks(NAN_ON_RANK_1.format(check=TOGETHER)).ranks:
        assert output == "epoch over\n"
