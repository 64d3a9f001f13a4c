"""D22: the sampler's epoch, and loaders of different length."""
import pytest
import torch
from launch import run_ranks
from torch.utils.data import DataLoader, DistributedSampler

RANKS = 2


def epochs(dataset, set_epoch, **options):
    """What each epoch feeds, as a list of sample numbers, of rank 0 and rank 1 together."""
    samplers = [DistributedSampler(dataset, RANKS, rank, **options) for rank in range(RANKS)]
    loaders = [DataLoader(dataset, batch_size=4, sampler=sampler) for sampler in samplers]
    fed = []
    for epoch in range(3):
        for sampler in samplers:
            if set_epoch:
                sampler.set_epoch(epoch)
        fed.append([sample for loader in loaders for batch in loader for sample in batch.tolist()])
    return fed


def test_without_set_epoch_every_epoch_feeds_the_same_order():
    first, second, third = epochs(torch.arange(32), set_epoch=False)
    assert first == second == third


def test_set_epoch_shuffles_anew_and_still_covers_the_data_once():
    first, second, third = epochs(torch.arange(32), set_epoch=True)
    assert first != second != third != first
    assert sorted(first) == sorted(second) == list(range(32))


def test_the_sampler_fills_up_with_repeated_samples_so_that_lengths_agree():
    [first, *_] = epochs(torch.arange(33), set_epoch=True)
    assert len(first) == 34 and len(set(first)) == 33


def test_drop_last_leaves_a_sample_out_instead():
    [first, *_] = epochs(torch.arange(33), set_epoch=True, drop_last=True)
    assert len(first) == len(set(first)) == 32


def test_without_a_distributed_sampler_each_rank_reads_everything():
    assert all(len(list(DataLoader(torch.arange(32), batch_size=4))) == 8 for _ in range(RANKS))
    assert len(DataLoader(torch.arange(32), 4, sampler=DistributedSampler(torch.arange(32), RANKS, 0))) == 4


TWO_LOADERS = """
    import datetime, torch, torch.distributed as dist
    from torch.utils.data import DataLoader, DistributedSampler
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=3))
    rank = dist.get_rank()
    samples = torch.arange(40)
    {loader}
    lengths = [None, None]
    dist.all_gather_object(lengths, len(loader))
    print("lengths", lengths, flush=True)
    for batch in loader:
        dist.all_reduce(torch.ones(4))
    print("epoch over")
    dist.barrier()
    dist.destroy_process_group()
"""
FILTERED_AFTER_THE_SPLIT = ("mine = samples[rank::2]\n"
                            "    loader = DataLoader(mine[mine % 8 != 1], batch_size=4)")
FILTERED_BEFORE_THE_SPLIT = ("kept = samples[samples % 8 != 1]\n"
                             "    loader = DataLoader(kept, batch_size=4, sampler=DistributedSampler(kept))")


def test_a_filter_behind_the_split_gives_other_lengths_and_the_longer_rank_waits():
    longer, shorter = run_ranks(TWO_LOADERS.format(loader=FILTERED_AFTER_THE_SPLIT)).ranks
    assert "lengths [5, 4]" in longer and "lengths [5, 4]" in shorter
    assert "epoch over" in shorter and "epoch over" not in longer


def test_a_filter_before_the_split_keeps_the_lengths_equal():
    for output in run_ranks(TWO_LOADERS.format(loader=FILTERED_BEFORE_THE_SPLIT)).ranks:
        assert "lengths [5, 5]" in output and "epoch over" in output


@pytest.mark.parametrize("drop_last, batches", [(False, 3), (True, 2)])
def test_the_loaders_own_drop_last_cuts_the_short_batch_on_every_rank(drop_last, batches):
    data = torch.arange(20)
    for rank in range(RANKS):
        assert len(DataLoader(data, 4, sampler=DistributedSampler(data, RANKS, rank), drop_last=drop_last)) == batches
