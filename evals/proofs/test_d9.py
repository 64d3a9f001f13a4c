"""D9: ranks with different numbers of batches."""

from check_code import span
from launch import run_ranks

ONE_BATCH_MORE_ON_RANK_0 = """
    import contextlib, datetime, torch, torch.distributed as dist
    from torch.distributed.algorithms.join import Join
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=3))
    torch.manual_seed(0)
    rank = dist.get_rank()
    model = DDP(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = 3 - rank
    {before}
    with {context}:
        for step in range(batches):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            print("step", step)
    print("epoch over, weights", model.module.weight.sum().item())
    dist.barrier()
    dist.destroy_process_group()
"""


def epoch(context="contextlib.nullcontext()", before="pass"):
    return run_ranks(ONE_BATCH_MORE_ON_RANK_0.format(context=context, before=before)).ranks


def printed(output):
    return [line for line in output.splitlines() if line.startswith(("step", "epoch over"))]


COUNTS = f"""
    import torch, torch.distributed as dist
    from torch.utils.data import DataLoader, DistributedSampler
    dist.init_process_group("gloo")
    files = range(9)
    shard = files[dist.get_rank()::2]
    for loader in (DataLoader(shard), DataLoader(files, sampler=DistributedSampler(files))):
        {span("D9", "len(loader)")}
    dist.barrier()
    dist.destroy_process_group()
"""


def test_the_check_counts_unequal_batches_of_files_dealt_out_and_equal_ones_of_the_sampler():
    first, second = run_ranks(COUNTS).ranks
    assert "0 5\n0 5" in first and "1 4\n1 5" in second


def test_the_rank_with_more_batches_never_gets_past_the_other():
    longer, shorter = epoch()
    assert "epoch over" in shorter
    assert "step 1" in longer and "step 2" not in longer and "epoch over" not in longer


def test_an_all_reduce_of_the_lengths_shows_it_before_training():
    count = (
        "n = torch.tensor([batches, -batches]); dist.all_reduce(n, dist.ReduceOp.MAX); "
        "print('most', n[0].item(), 'least', -n[1].item())"
    )
    assert all("most 3 least 2" in output for output in epoch(before=count))


def test_cutting_every_rank_to_the_shortest_ends_the_epoch():
    cut = "n = torch.tensor(batches); dist.all_reduce(n, dist.ReduceOp.MIN); batches = n.item()"
    longer, shorter = epoch(before=cut)
    assert printed(longer) == printed(shorter)
    assert printed(longer)[-1].startswith("epoch over")


def test_join_lets_the_shorter_rank_wait_and_all_end_with_the_same_weights():
    longer, shorter = epoch("Join([model])")
    assert "step 2" in longer and "step 2" not in shorter
    assert printed(longer)[-1] == printed(shorter)[-1]


def test_join_can_stop_all_ranks_at_the_first_that_is_done(says):
    says("D9", "".join(epoch("Join([model], throw_on_early_termination=True)")))
